"""`mqcore store repair`: builds what is derived from the log, or from the queues, again."""

import time
from pathlib import Path

import click

from mqcore.cli.options import damage_choice, settings_of, store_directory
from mqcore.cli.recover import print_report as print_recovery
from mqcore.cli.recover import sizes_of
from mqcore.errors import StateFileError
from mqcore.native import Inspection, OnDamage, Store, rebuild


@click.command()
@store_directory
@damage_choice
@click.option(
    "--topics",
    is_flag=True,
    help="Only make entries of config/topics.json again, from the queues that have none.",
)
@click.option(
    "--from",
    "address",
    metavar="HOST:PORT",
    help="Only replace bad records of the log, by those of this broker: another replica.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="With --topics or --from: only show what would be written.",
)
def repair(
    directory: Path,
    config_file: Path | None,
    assignments: tuple[str, ...],
    on_damage: OnDamage | None,
    topics: bool,
    address: str | None,
    dry_run: bool,
) -> None:
    """Build queues and index of DIR again from its log.

    They are built aside and put into place when they are whole. With --cut or --keep DIR is
    recovered first, as `mqcore store recover` does it; otherwise the log is only read.

    With --topics neither is touched: topics that have queues and no entry in config/topics.json get
    one, with as many queues as they have, readable and writable. Entries that are there stay.

    With --from records whose CRC is bad, with whole ones behind them, are fetched from another
    replica of the same log, a broker of mqcore or RocketMQ that runs. Its records around must be
    the same as here. What is replaced is kept in DIR/truncated. The broker of DIR does not run.
    """
    if dry_run and not topics and address is None:
        raise click.UsageError("--dry-run goes with --topics or --from")
    if address is not None and (topics or on_damage is not None):
        raise click.UsageError("--from is a repair of its own: one after the other")
    if topics and on_damage is not None:
        raise click.UsageError(f"--topics and --{on_damage} are two repairs: one after the other")
    settings = sizes_of(directory, settings_of(config_file, assignments))
    if topics:
        _repair_topics(directory, settings, is_dry=dry_run)
        return
    if address is not None:
        # Imported here: the other repairs need no network.
        from mqcore.cli.record_repair import repair_records

        repair_records(directory, settings, address, is_dry=dry_run)
        return
    if on_damage is not None:
        with Store(directory, config=settings, on_damage=on_damage) as store:
            print_recovery(store.open_report())
    rebuilt = rebuild(directory, config=settings)
    click.echo(
        f"built {rebuilt.queues} queues and {rebuilt.index_entries} index entries from "
        f"{rebuilt.records} records; the log ends at {rebuilt.log_end}"
    )


def _repair_topics(directory: Path, settings: dict[str, str], *, is_dry: bool) -> None:
    # Imported here: the other commands about stores need nothing of a broker.
    from mqcore.broker.lost_topics import entry, lost_topics, with_topics
    from mqcore.model.reading import as_dict
    from mqcore.model.relaxed_json import parse_object
    from mqcore.state_files import StateFile

    file = StateFile.of_store(directory, "topics.json")
    text, known = b"", set[str]()

    def take(content: bytes) -> None:
        nonlocal text
        known.update(as_dict(parse_object(content).get("topicConfigTable")))
        text = content

    try:
        file.load(take)
    except StateFileError as error:
        click.echo(f"{error}: all topics are made from queues", err=True)
    if is_dry:
        queues = [
            (queue.topic, queue.queue_id)
            for queue in Inspection(directory, config=settings).queues()
        ]
    else:
        # An open store keeps every broker out until the file is written.
        store = Store(directory, config=settings)
        queues = [(queue.topic, queue.queue_id) for queue in store.queues()]
    has_batches = directory / "batchconsumequeue"
    made = {
        name: entry(name, count, has_batches=(has_batches / name).is_dir())
        for name, count in lost_topics(queues, known).items()
    }
    for topic in made.values():
        click.echo(f"{topic.name}: {topic.read_queues} queues, perm {topic.perm}")
    if is_dry:
        click.echo(f"{len(made)} topics would be added to {file.path}")
        return
    try:
        if made:
            file.path.parent.mkdir(parents=True, exist_ok=True)
            file.save(with_topics(text, made, time.time_ns() // 1_000_000))
    finally:
        store.close()
    click.echo(f"{len(made)} topics were added to {file.path}")
