"""`mqcore store refill`: fills a directory with whole files of the log of a broker that runs."""

import asyncio
import contextlib
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mqcore.cli.cluster import tools_credentials
from mqcore.cli.options import settings_of
from mqcore.cli.replica_link import replica_link
from mqcore.errors import MQError

if TYPE_CHECKING:
    from mqcore.broker.replication.refilling import Refilling
    from mqcore.native import ReplicationTls

# What goes aside with the log: it is made from it, or is about it. Topics, groups and offsets stay.
# The id at the controller goes too: the set that it may be in counts on the log that was there.
_OF_THE_LOG = (
    "commitlog",
    "commitlog.refill",
    "consumequeue",
    "consumequeue_ext",
    "batchconsumequeue",
    "index",
    "timerwheel",
    "timerlog",
    "checkpoint",
    "abort",
    "mqcore.session",
    "queues.manifest",
    "queues.manifest.before",
    "epochFileCheckpoint",
    "epochFileCheckpoint.bak",
    "epochFileCheckpoint.lost",
    "epochFileCheckpoint.asked",
    "mqcore.lost-end",
    "brokerIdentity",
    "brokerIdentity-temp",
    "brokerIdentity-processes",
)
_ASIDE = "truncated"
_IDENTITY_KEY = "storePathBrokerIdentity"
_FILE_KEY = "mappedFileSizeCommitLog"
_LOOK_S = 0.1
_TIMEOUT_S = 5.0


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--from", "address", metavar="HOST:PORT", required=True, help="The broker to copy.")
@click.option(
    "--streams", default=2, show_default=True, type=click.IntRange(1, 4), help="Connections."
)
@click.option(
    "--set-aside",
    is_flag=True,
    help="Move what DIR has of a log to DIR/truncated first, and begin anew.",
)
@click.option("-c", "--config", "config_file", type=click.Path(exists=True, path_type=Path))
@click.option("--set", "assignments", metavar="KEY=VALUE", multiple=True)
def refill(
    directory: Path,
    address: str,
    streams: int,
    set_aside: bool,
    config_file: Path | None,
    assignments: tuple[str, ...],
) -> None:
    """Copy all whole files of the log of a running broker of mqcore into DIR.

    The broker that is to have DIR does not run. Started as a slave it follows from there on. Each
    file is compared with the hash of the broker's; a copy that was interrupted goes on where it
    was. A log that DIR has already is continued where it ends with a file, and refused otherwise:
    with --set-aside it is moved, and nothing of it is deleted. The id at the controller is moved
    with it: the broker gets another one, and is in sync once it has copied what it lacks. A broker
    that speaks TLS is reached by the settings (-c) of the broker that is to have DIR.
    """
    settings = settings_of(config_file, assignments)
    if set_aside:
        _move(directory, settings)
    end = asyncio.run(_filled(directory, address, streams, settings))
    click.echo(f"the log of {directory} ends at {end}")


def _move(directory: Path, settings: dict[str, str]) -> None:
    """Moves the log and what is made from it; an open store keeps every broker out meanwhile."""
    from mqcore.cli.recover import sizes_of
    from mqcore.native import Store

    found = [name for name in _OF_THE_LOG if (directory / name).exists()]
    if not found:
        return
    # Opened where there is one, to see that no broker runs on it; a log that is damaged stays so.
    Store(directory, config=sizes_of(directory, settings), on_damage="refuse").close()
    aside = directory / _ASIDE / f"log-{time.time_ns() // 1_000_000}"
    aside.mkdir(parents=True)
    for name in found:
        if (directory / name).exists():
            (directory / name).rename(aside / name)
    elsewhere = Path(settings.get(_IDENTITY_KEY, ""))
    if elsewhere.is_file():
        shutil.move(elsewhere, aside / elsewhere.name)
    click.echo(f"the old log is in {aside}")


async def _filled(directory: Path, address: str, streams: int, settings: dict[str, str]) -> int:
    from mqcore.broker.replication.protection import HA_TLS
    from mqcore.broker.replication.refilling import Offer, Refilling, offer_of
    from mqcore.model.shown_settings import settings_in
    from mqcore.native import ReplicationEpochs, Store
    from mqcore.remoting import Client, RequestCode, expect

    link = replica_link(settings)
    async with Client(tls=link.requests, credentials=tools_credentials()) as client:
        answer = await client.call(address, RequestCode.GET_BROKER_CONFIG, timeout_s=_TIMEOUT_S)
        theirs = settings_in(expect(answer, address).body)
        offer = await offer_of(client, address)
    if offer.what is not Offer.GIVEN:
        raise click.ClickException(
            f"{address} gives no whole files: it is no master of mqcore that slaves can reach"
        )
    tls = link.files_from(address, theirs.get(HA_TLS, "disabled"))
    settings.setdefault(_FILE_KEY, _setting(theirs, _FILE_KEY))
    settings.setdefault("maxMessageSize", _setting(theirs, "maxMessageSize"))
    store = Store(directory, config=settings)
    with contextlib.closing(store):
        epochs = ReplicationEpochs(store, str(directory / "epochFileCheckpoint"))
        refilling = Refilling(store, epochs=epochs, streams=streams)
        if not refilling.may_begin:
            raise click.ClickException(
                f"the log of {directory} ends in the middle of a file: a slave goes on there by "
                "itself; --set-aside begins anew"
            )
        host = address.rpartition(":")[0]
        why = await _shown(refilling, f"{host}:{offer.ha_port}", tls)
        if why:
            raise click.ClickException(f"{why}; --set-aside begins anew")
        return store.stats().appended


def _setting(theirs: Mapping[str, str], key: str) -> str:
    if key not in theirs:
        raise click.ClickException(f"the broker's settings have no {key}")
    return theirs[key]


async def _shown(refilling: "Refilling", shipping: str, tls: "ReplicationTls | None") -> str:
    """Copies, with a progress bar on a terminal; returns why it ended too early."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = Console(stderr=True)
    copying = asyncio.ensure_future(refilling.run(shipping, tls))
    columns = ("log", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("log", total=None)
        while not copying.done():
            await asyncio.wait([copying], timeout=_LOOK_S)
            figures = refilling.figures
            progress.update(task, total=figures.total_bytes or None, completed=figures.done_bytes)
    try:
        return copying.result()
    except MQError as error:
        return error.message
