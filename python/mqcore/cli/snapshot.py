"""`mqcore store snapshot`: what a store holds at one moment, kept where it can be restored from."""

import asyncio
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mqcore.cli.cluster import tools_credentials
from mqcore.cli.options import settings_of, store_directory

if TYPE_CHECKING:
    from mqcore.snapshots import Point, Removed, Source, Taken

_Result = TypeVar("_Result")
_LOG_DIR = "storePathCommitLog"
_MIB = 1 << 20
# A flush of everything that the page cache has may take as long as the disk is slow.
_TIMEOUT_S = 60.0
# Beside a broker, where nobody asks for another: consumers and syncs need the disk too.
_BESIDE_MIB_PER_S = 256
# A broker on the same machine goes first: this thread takes what is left of the processors.
_NICENESS = 10


@click.command()
@store_directory
@click.argument("destination", metavar="DEST")
@click.option(
    "--broker",
    "address",
    metavar="HOST:PORT",
    default="127.0.0.1:10911",
    show_default=True,
    help="The broker that runs on DIR, where one does.",
)
@click.option(
    "--no-hash",
    "has_hashes",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Do not read log files that are linked: no hash of them is kept.",
)
@click.option("--keep", type=click.IntRange(1), help="Remove all snapshots but the newest so many.")
@click.option(
    "--mib-per-second",
    "mib_per_second",
    type=click.IntRange(0),
    help="Read the log no faster than this, 256 beside a broker; 0: as fast as the disk.",
)
@click.option("--json", "as_json", is_flag=True, help="The outcome as one JSON object.")
def snapshot(
    directory: Path,
    destination: str,
    address: str,
    has_hashes: bool,
    keep: int | None,
    mib_per_second: int | None,
    config_file: Path | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> None:
    """Keep what DIR holds now in DEST, a directory of snapshots.

    DEST is a path, or a URI such as s3://bucket/backup, which takes fsspec and the package of its
    scheme. Files that it has already are not copied again. On the file system of DIR whole files of
    the log are linked. A broker of mqcore that runs on DIR goes on; it is asked at --broker where
    its log is durable. With -c the broker's own settings: TLS, and where the log is.

    A snapshot is one when it is complete: what ends before leaves the earlier ones as they are.
    """
    from mqcore.snapshots import Pool, Source, StoppedStore, take

    settings = settings_of(config_file, assignments)
    source = Source.of(directory, _log_dir(config_file, assignments))
    pool = Pool.at(destination)
    with StoppedStore(source) as stopped:
        if stopped is None:
            source, point = _of_broker(source, address, settings)
            mib_per_second = _BESIDE_MIB_PER_S if mib_per_second is None else mib_per_second
        else:
            point = _always(stopped)
        taken = shown_work(
            "snapshot",
            lambda report: take(
                source,
                pool,
                point,
                hashes_links=has_hashes,
                bytes_per_second=(mib_per_second or 0) * _MIB,
                report=report,
            ),
        )
    removed = pool.keep(keep) if keep is not None else None
    if as_json:
        click.echo(json.dumps(_fields(taken, removed), indent=1))
        return
    _print(str(pool), taken, removed)


def shown_work(what: str, work: Callable[[Callable[[int, int], None]], _Result]) -> _Result:
    """Does something in a thread of lower priority, with a progress bar on a terminal.

    Args:
        what: What to call it.
        work: Given what it reports its progress to: bytes that are done, and all.

    Raises:
        MQError: What it raises.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = Console(stderr=True)
    columns = (what, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
        ThreadPoolExecutor(1, thread_name_prefix=what, initializer=_yield_processors) as thread,
    ):
        task = bar.add_task(what, total=None)
        return thread.submit(
            work, lambda done, total: bar.update(task, completed=done, total=total or None)
        ).result()


def _yield_processors() -> None:
    # Of Linux a thread has a priority of its own.
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def _log_dir(config_file: Path | None, assignments: tuple[str, ...]) -> Path | None:
    from mqcore.config import read_properties

    found = read_properties(config_file) if config_file else {}
    given = dict(each.split("=", 1) for each in assignments if "=" in each)
    text = given.get(_LOG_DIR) or found.get(_LOG_DIR)
    return Path(text) if text else None


def _always(point: "Point") -> "Callable[[], Point]":
    return lambda: point


def _of_broker(
    source: "Source", address: str, settings: dict[str, str]
) -> "tuple[Source, Callable[[], Point]]":
    """Returns the source with its directories, and what asks the broker for the point.

    Raises:
        SnapshotError: Another broker answers, or none of mqcore.
    """
    from mqcore.snapshots import Point, Source
    from mqcore.snapshots.errors import SnapshotError
    from mqcore.snapshots.source import lock_identity

    try:
        found = _asked(address, "tables", settings)
    except Exception as error:
        why = getattr(error, "message", error)
        text = (
            f"a broker runs on {source.root}, and {address} does not help with a snapshot: {why}. "
            "--broker names its address; one of RocketMQ has to be stopped first"
        )
        raise SnapshotError(text, path=str(source.root)) from error
    if found["lock"] != lock_identity(source.root):
        text = (
            f"{address} runs on {found['storeDir']}, not on {source.root}: --broker names another"
        )
        raise SnapshotError(text, path=str(source.root))

    def point() -> Point:
        answer = _asked(address, "point", settings)
        return Point(answer["end"], answer["fileLen"], answer["brokerName"])

    log_dir = Path(found["logDir"]) if found["logDir"] else None
    return Source.of(source.root, log_dir), point


def _asked(address: str, action: str, settings: dict[str, str]) -> dict[str, Any]:
    from mqcore.cli.replica_link import replica_link
    from mqcore.model.relaxed_json import parse_object
    from mqcore.remoting import Client, OwnRequestCode, expect

    link = replica_link(settings)

    async def ask() -> dict[str, Any]:
        async with Client(tls=link.requests, credentials=tools_credentials()) as client:
            answer = await client.call(
                address, OwnRequestCode.SNAPSHOT, {"action": action}, timeout_s=_TIMEOUT_S
            )
            return parse_object(expect(answer, address).body)

    return asyncio.run(ask())


def _fields(taken: "Taken", removed: "Removed | None") -> dict[str, Any]:
    manifest = asdict(taken.manifest)
    manifest["files"] = len(taken.manifest.files)
    counts = {name: value for name, value in asdict(taken).items() if name != "manifest"}
    return manifest | counts | {"removed": removed._asdict() if removed is not None else None}


def _print(where: str, taken: "Taken", removed: "Removed | None") -> None:
    from mqcore.cli.tables import size_text

    manifest = taken.manifest
    of = f"the broker {manifest.broker}" if manifest.broker else "a store without a broker"
    click.echo(
        f"{manifest.name} of {of} is in {where}: log {manifest.log_start} to {manifest.log_end}, "
        f"{len(manifest.files)} files, after {taken.took_ms} ms"
    )
    for what, files, len_bytes in (
        ("linked", taken.linked_files, taken.linked_bytes),
        ("copied", taken.copied_files, taken.copied_bytes),
        ("there already", taken.known_files, taken.known_bytes),
    ):
        click.echo(f"{what}: {files} files, {size_text(len_bytes)}")
    if removed is not None:
        click.echo(
            f"removed: {removed.snapshots} snapshots, {removed.files} files, "
            f"{size_text(removed.len_bytes)}"
        )
