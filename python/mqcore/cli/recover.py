"""`mqcore store recover`: does to a directory what a start of the broker would do; prints it."""

import json
from pathlib import Path

import click

from mqcore.cli.options import damage_choice, settings_of, store_directory
from mqcore.config.existing import BEYOND_BODY_BYTES
from mqcore.errors import StateFileError, StoreError
from mqcore.native import Inspection, OnDamage, OpenReport, Store, existing_sizes, fields_of

# What an inspection finds out and an open has to be given.
_SIZES = (
    "mappedFileSizeCommitLog",
    "mappedFileSizeConsumeQueue",
    "mappedFileSizeConsumeQueueExt",
    "mapperFileSizeBatchConsumeQueue",
    "maxHashSlotNum",
    "maxIndexNum",
)
# The default of maxMessageSize, and the length of a file of the log where there is none.
_LONGEST_BODY = {"maxMessageSize": str(4 << 20)}
_LOG_FILE_BYTES = 1 << 30


def sizes_of(directory: Path, settings: dict[str, str]) -> dict[str, str]:
    """Returns the settings, those that are missing as the files have them.

    That are the sizes of files, and which topics have batch queues.
    """
    # Imported here: the other commands about stores need nothing of a broker.
    from mqcore.broker.batch_topics import SETTING, batch_topics

    try:
        found = Inspection(directory, config=settings).settings
    except StoreError:
        # A log with a gap cannot be inspected; the open reports what is wrong, or cuts it.
        found = _LONGEST_BODY | existing_sizes(directory) | settings
    sizes = {key: found[key] for key in _SIZES if key in found}
    # The longest body is not written anywhere; more than fits a file cannot be in it.
    most = int(found.get("mappedFileSizeCommitLog", _LOG_FILE_BYTES)) - BEYOND_BODY_BYTES
    sizes["maxMessageSize"] = str(max(1, min(int(found["maxMessageSize"]), most)))
    try:
        sizes[SETTING] = batch_topics(directory)
    except StateFileError as error:
        # What is recovered is the log; the queues that exist show such topics, too.
        click.echo(f"{error}: topics whose batch queues are gone are not known", err=True)
    return {**sizes, **settings}


@click.command()
@store_directory
@damage_choice
@click.option("--json", "as_json", is_flag=True, help="What was done as one JSON object.")
def recover(
    directory: Path,
    config_file: Path | None,
    assignments: tuple[str, ...],
    on_damage: OnDamage | None,
    as_json: bool,
) -> None:
    """Recover DIR as a start of the broker would, and close it cleanly.

    Damage in the log is refused unless --cut or --keep chooses. What is cut off the log or replaced
    in it is kept in DIR/truncated, with a report that `mqcore store damage DIR` prints.
    """
    settings = sizes_of(directory, settings_of(config_file, assignments))
    with Store(directory, config=settings, on_damage=on_damage or "refuse") as store:
        report = store.open_report()
    if as_json:
        click.echo(json.dumps(fields_of(report), indent=1))
    else:
        print_report(report)


def print_report(report: OpenReport) -> None:
    """Prints what was done."""
    ending = "cleanly" if report.was_clean else "without being closed"
    click.echo(f"the store had ended {ending}")
    click.echo(
        f"walked {report.records} records, {report.scanned_bytes} bytes from {report.scanned_from}"
    )
    if report.end_why is not None:
        click.echo(f"behind the last record: {report.end_why}")
    click.echo(f"the log ends at {report.end}")
    if report.replaced_bytes:
        offsets = ", ".join(map(str, report.replaced_at))
        click.echo(
            f"replaced {report.replaced_bytes} damaged bytes at {offsets}; "
            f"{report.whole_records_kept} whole records behind them stay"
        )
    if report.kept_aside_bytes:
        click.echo(
            f"cut off {report.kept_aside_bytes} bytes with {report.whole_records} whole records"
        )
    if report.missing_bytes:
        click.echo(f"{report.missing_bytes} bytes that were durable once are gone")
    if report.kept_in:
        click.echo(f"copies are in {', '.join(report.kept_in)}")
    for path in report.removed:
        click.echo(f"removed {path}: behind the end")
    if report.index_from is not None:
        click.echo(f"index built again from {report.index_from}")
