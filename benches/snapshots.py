"""How long a snapshot of a store under load takes, and what it costs the sends beside it.

    python benches/snapshots.py              # 10 GiB; MQCORE_BENCH=quick: 2 GiB

The directory of snapshots is on the disk of the store, so that files of the log are linked. Sends
come by an open loop at a fixed rate, alone and beside a snapshot, in turn. Knows no figure of
other brokers: they have no snapshots.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from peer_brokers import IS_QUICK, MQCORE, Peer, ours
from peer_rows import Row, latency

from mqcore import Admin

_FILE_BYTES = 1 << 30 if not IS_QUICK else 128 << 20
_BYTES = (2 if IS_QUICK else 10) << 30
_ROUNDS = 3
# Of the disk nothing may be fuller, whatever else is on it.
_FILL_MAX = 0.80
# A load at which the machine has time left: a rate, connections, messages under way of each.
_LOAD = ("--rate", 5_000, "-c", 4, "-w", 64, "--size", 1024)
_SECONDS = ("--seconds", 10, "--warm-seconds", 2)


def filled(peer: Peer) -> None:
    """Sends until there is enough to keep."""
    with Admin(peer.namesrv) as admin:
        while int(admin.brokers.runtime(peer.address)["commitLogMaxOffset"]) < _BYTES:
            peer.load("produce", "filling", "-c", 4, "-w", 64, "--size", 4096, "--count", 100_000)
    os.sync()


def begun(peer: Peer, store: Path, into: Path, *words: str) -> "subprocess.Popen[str]":
    """Begins a snapshot by the command, in a process of its own."""
    line = [str(MQCORE), "store", "snapshot", str(store), str(into), "--broker", peer.address]
    return subprocess.Popen([*line, "--json", *words], stdout=subprocess.PIPE, text=True)


def ended(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """Returns what a snapshot reports."""
    text, _ = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"the snapshot ended with {process.returncode}")
    found: dict[str, Any] = json.loads(text)
    return found


def rows(scratch: Path) -> Iterator[Row]:
    """The time of a snapshot under load, and the sends' p99 beside one."""
    home = scratch / "broker"
    more = {"mappedFileSizeCommitLog": _FILE_BYTES}
    with ours(home, "ASYNC_FLUSH", more=more) as peer:
        filled(peer)
        store = home / "store"
        for words, what in (((), "with hashes"), (("--no-hash",), "without")):
            late: tuple[list[float], list[float]] = ([], [])
            times = []
            for number in range(_ROUNDS):
                for is_beside in (False, True) if number % 2 == 0 else (True, False):
                    os.sync()
                    into = scratch / f"backup-{number}-{what.split()[-1]}"
                    taking = begun(peer, store, into, *words) if is_beside else None
                    report = peer.load("produce", "beside", *_SECONDS, *_LOAD)
                    if taking is not None:
                        done = ended(taking)
                        times.append(done["took_ms"] / 1_000)
                        assert done["linked_bytes"] >= _BYTES - 2 * _FILE_BYTES, done
                        shutil.rmtree(into)
                    late[is_beside].append(latency(report, "p99"))
            seconds = median(times)
            words_of = f"snapshot of {_BYTES >> 30} GiB under load, {what}: s"
            yield Row(words_of, seconds, None, "shown", 0.0)
            alone, beside = (median(each) for each in late)
            name = f"sends beside it, {what}: p99 us"
            yield Row(name, beside, alone, "<= 1.5", 1.5, is_upper=True)


def main() -> None:
    """Measures, and prints the rows."""
    scratch = Path(tempfile.mkdtemp(prefix="mqcore-snapshots-"))
    try:
        usage = shutil.disk_usage(scratch)
        if (usage.used + _BYTES) / (usage.used + usage.free) > _FILL_MAX:
            sys.exit("the disk is too full for this measurement")
        for row in rows(scratch):
            print(row.line(), flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
