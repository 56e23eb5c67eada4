"""`mqcore store restore`: a snapshot becomes the directory of a store."""

import json
from pathlib import Path

import click

from mqcore.cli.snapshot import shown_work


@click.command()
@click.argument("source", metavar="SRC")
@click.argument(
    "directory",
    metavar="DIR",
    required=False,
    type=click.Path(file_okay=False, path_type=Path),
)
@click.option("--snapshot", "name", metavar="NAME", help="Which one; the newest by default.")
@click.option("--list", "lists", is_flag=True, help="Print the snapshots of SRC, and end.")
@click.option("--json", "as_json", is_flag=True, help="The outcome as one JSON object.")
def restore(
    source: str, directory: Path | None, name: str | None, lists: bool, as_json: bool
) -> None:
    """Make DIR, which is new or empty, from a snapshot in SRC (see `mqcore store snapshot`).

    Every file is compared with its hash. DIR is a store when all of it is there and not before; a
    restore that was interrupted goes on with the same command. The log ends where the snapshot was
    taken: a broker of mqcore or RocketMQ that is started on DIR recovers queues and index to there.
    The id at a controller is not in a snapshot.
    """
    from mqcore.cli.tables import size_text
    from mqcore.snapshots import Pool
    from mqcore.snapshots import restore as restored_of

    pool = Pool.at(source)
    if lists:
        _list(pool.names(), as_json=as_json)
        return
    if directory is None:
        raise click.UsageError("DIR is missing: where the store is to be")
    done = shown_work("restore", lambda report: restored_of(pool, name, directory, report=report))
    manifest = done.manifest
    if as_json:
        shown = {
            "name": manifest.name,
            "logStart": manifest.log_start,
            "logEnd": manifest.log_end,
            "files": done.files,
            "keptFiles": done.kept_files,
            "bytes": done.len_bytes,
            "unhashedFiles": done.unhashed_files,
        }
        click.echo(json.dumps(shown, indent=1))
        return
    click.echo(
        f"{directory} holds {manifest.name} of {manifest.source}: {size_text(done.len_bytes)} in "
        f"{done.files + done.kept_files} files, the log from {manifest.log_start} to "
        f"{manifest.log_end}"
    )
    if done.unhashed_files:
        click.echo(
            f"{done.unhashed_files} files had no hash (--no-hash): mqcore store verify {directory} "
            "reads every record"
        )


def _list(names: list[str], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(names))
        return
    for each in names:
        click.echo(each)
