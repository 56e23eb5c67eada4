"""What a refill reaches beside the disk and the link, and what it costs the master's sends.

Knows no figure of other brokers: they have no refill.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import threading
import time
from statistics import median
from typing import TYPE_CHECKING

from peer_brokers import IS_QUICK, MQCORE, Peer, free_port, lent, ours
from peer_rows import Row, latency

from mqcore import Admin
from mqcore.broker.replication.following import ha_address_of
from mqcore.broker.replication.refilling import Refilling
from mqcore.native import Store
from mqcore.remoting import Client, RequestCode, expect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["refill_rows"]

_FILE_BYTES = 128 << 20
# More than write-back takes at once; the begin and the end of a copy do not count beside it.
_BYTES = (1 if IS_QUICK else 4) << 30
_STEP_BYTES = 1 << 20
_MB = 1_000_000
_ROUNDS = 2 if IS_QUICK else 3
_LOAD = (4, 8)


def disk_rate(scratch: Path, total: int) -> float:
    """Returns bytes a second of one file after the other, each synced, as a log has them."""
    step = os.urandom(_STEP_BYTES)
    began = time.monotonic()
    paths = []
    for number in range(total // _FILE_BYTES):
        path = scratch / f"disk{number}"
        paths.append(path)
        with path.open("wb", buffering=0) as file:
            os.posix_fallocate(file.fileno(), 0, _FILE_BYTES)
            for _step in range(_FILE_BYTES // _STEP_BYTES):
                file.write(step)
            os.fdatasync(file.fileno())
    rate = total / (time.monotonic() - began)
    for path in paths:
        path.unlink()
    return rate


def link_rate(total: int) -> float:
    """Returns bytes a second from one thread's memory to another's over loopback."""
    step = memoryview(os.urandom(_STEP_BYTES))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sending = socket.create_connection(listening.getsockname())
        receiving, _peer = listening.accept()

    def send() -> None:
        for _step in range(total // _STEP_BYTES):
            sending.sendall(step)
        sending.close()

    thread = threading.Thread(target=send)
    began = time.monotonic()
    thread.start()
    into = bytearray(_STEP_BYTES)
    while receiving.recv_into(into):
        pass
    rate = total / (time.monotonic() - began)
    thread.join()
    receiving.close()
    return rate


def end_of(peer: Peer) -> int:
    """Returns the end of a broker's log."""
    with Admin(peer.namesrv) as admin:
        return int(admin.brokers.runtime(peer.address)["commitLogMaxOffset"])


def refilled(master: Peer, home: Path, streams: int) -> float:
    """Fills a fresh store from a master; returns bytes a second until all is in its log."""

    async def fill() -> float:
        async with Client() as client:
            code = RequestCode.GET_BROKER_CONFIG
            config = expect(await client.call(master.address, code), master.address).body
        keys = {"mappedFileSizeCommitLog": str(_FILE_BYTES), "flushDiskType": "ASYNC_FLUSH"}
        with Store(home / "store", config=keys) as store:
            refilling = Refilling(store, epochs=None, streams=streams)
            began = time.monotonic()
            why = await refilling.run(ha_address_of(master.address, config))
            took = time.monotonic() - began
            if why:
                raise RuntimeError(why)
            return store.stats().appended / took

    with lent(home):
        return asyncio.run(fill())


def filled(master: Peer) -> None:
    """Sends until there is enough to copy."""
    while end_of(master) < _BYTES + (1 << 20):
        master.load("produce", "filling", "-c", 4, "-w", 64, "--size", 4096, "--count", 50_000)
    os.sync()


def refill_rows(scratch: Path) -> Iterator[Row]:
    """The rate beside the smaller of disk and link; sends of the master with a copy under way."""
    port = free_port()
    more = {
        "haListenEnable": "true",
        "haListenPort": port,
        "mappedFileSizeCommitLog": _FILE_BYTES,
        # A disk that is three quarters full would let the master remove what is copied.
        "diskMaxUsedSpaceRatio": 95,
    }
    with ours(scratch / "refilled", "ASYNC_FLUSH", more=more) as master:
        filled(master)
        rates: list[tuple[float, float, float, float]] = []
        for number in range(_ROUNDS):
            os.sync()
            disk = disk_rate(scratch, _BYTES)
            link = link_rate(_BYTES)
            os.sync()
            one = refilled(master, scratch / f"one{number}", 1)
            os.sync()
            two = refilled(master, scratch / f"two{number}", 2)
            rates.append((disk, link, one, two))
        disk, link, one, two = (median(each) / _MB for each in zip(*rates, strict=True))
        smaller, name = min((disk, "disk"), (link, "link"))
        yield Row("disk, files with a sync each: MB/s", disk, None, "shown", 0.0)
        yield Row("link, loopback: MB/s", link, None, "shown", 0.0)
        yield Row(f"refill over 1 connection beside the {name}: MB/s", one, smaller, "shown", 0.0)
        words = f"refill over 2 connections beside the {name}: MB/s"
        yield Row(words, two, smaller, ">= 0.8", 0.8)
        yield from _late(master, scratch)


def _late(master: Peer, scratch: Path) -> Iterator[Row]:
    """The master's sends while a slave copies, beside those without: in turn."""
    found: tuple[list[float], list[float]] = ([], [])
    connections, outstanding = _LOAD
    for number in range(_ROUNDS):
        for is_copied in (False, True) if number % 2 == 0 else (True, False):
            os.sync()
            home = scratch / f"beside{number}"
            copying = _begun(master, home) if is_copied else None
            report = master.produce("late", "-c", connections, "-w", outstanding)
            if copying is not None:
                is_over = copying.poll() is not None
                copying.kill()
                _, why = copying.communicate()
                if is_over:
                    raise RuntimeError(f"the copy was over before the load was: {why.strip()}")
                shutil.rmtree(home)
            found[is_copied].append(latency(report, "p99"))
    without, beside = (median(each) for each in found)
    words = f"sends with a refill under way, {connections} x {outstanding}: p99 us"
    yield Row(words, beside, without, "<= 2", 2.0, is_upper=True)


def _begun(master: Peer, home: Path) -> subprocess.Popen[str]:
    """Begins a copy by the command, in a process of its own."""
    home.mkdir()
    line = [str(MQCORE), "store", "refill", "--from", master.address, str(home / "store")]
    return subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
