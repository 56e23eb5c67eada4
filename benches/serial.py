"""How much of a request is serial, and what that allows on more cores: `make bench-serial`.

Joins what the two builds of the Rust bench `serial` left (processor time of a request; how long
it held each lock that all reactors share), measures the processor time of the interpreter's thread
in a running broker without reactors and with one, and prints what Amdahl's law makes of it:
1 / (s + (1 - s) / n) times the rate of one core on n cores for requests of many shards, and at the
most 1 / serial time for those of one.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peer_brokers import IS_QUICK, MACHINE, TARGET, Peer, ours
from peer_rows import processor_us
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = TARGET / "mqcore-benches" / "rows"
OUT = TARGET / "mqcore-benches" / "serial.json"
CORES = (4, 8, 16)
SECONDS = 3 if IS_QUICK else 8
LOADS = ((8, 32), (64, 1))
# What a lock protects, as the type of it is called, and its name here. Of the first three there is
# one for each shard; they are held while others are taken: those others are part of their time.
OUTER = {"PopBufferMerge": "pops", "Remembered": "ends", "RepeatsShard": "repeats"}
INNER = {
    "OpQueues": "op messages",
    "Guarded": "append lock",
    "consumer_offsets": "offsets",
    "half_counts": "half messages",
    "Watches": "arrivals",
    "AckQueue": "acknowledgements",
    "QueueState": "its queue",
    "OpenFiles": "files of queues",
}
# Those of which requests of other shards hold another one.
SHARDED = {*OUTER.values(), "half messages"}
# Below this a lock is none that anybody waits for, ns per request.
SHOWN_NS_MIN = 1.0


@dataclass(frozen=True)
class Kind:
    """A kind of request.

    Attributes:
        name: Of the request.
        total_ns: Its processor time, without sockets.
        locks_ns: How long it held each lock, by name, without the readings of the clock.
    """

    name: str
    total_ns: float
    locks_ns: dict[str, float]

    @property
    def serial_ns(self) -> float:
        """Time under the locks of requests of one shard: of the outer one if any, else of all."""
        outer = [ns for name, ns in self.locks_ns.items() if name in OUTER.values()]
        return max(outer) if outer else sum(self.locks_ns.values())

    @property
    def common_ns(self) -> float:
        """Time under locks that requests of all shards share."""
        return sum(ns for name, ns in self.locks_ns.items() if name not in SHARDED)

    @property
    def slowest_ns(self) -> float:
        """Time under the lock that is held longest: no machine does more than one over it."""
        return max(self.locks_ns.values(), default=0.0)


def amdahl(serial: float, cores: int) -> float:
    """Returns how many times the rate of one core `cores` give, with a serial share of `serial`."""
    return 1 / (serial + (1 - serial) / cores)


def rows_of(bench: str) -> list[dict[str, Any]]:
    """The rows that a bench left."""
    lines = (ROWS / f"{bench}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line]


def lock_name(protected: str) -> str:
    """The name of a lock by the type that it protects."""
    for part, name in (OUTER | INNER).items():
        if part in protected:
            return name
    return protected.split("<")[0].rsplit("::", 1)[-1]


def kinds() -> Iterator[Kind]:
    """The kinds of requests that were measured."""
    holds = rows_of("serial-locks")
    empty_ns = next(row["reached"] for row in holds if row["name"] == "empty hold")
    for row in rows_of("serial"):
        name = row["name"].removesuffix(": processor time")
        locks: dict[str, float] = {}
        for hold in holds:
            kind, held, protected = hold["name"].partition(": held ")
            if not held or kind != name:
                continue
            count = float(hold["note"].split()[1])
            ns = hold["reached"] - count * empty_ns
            if ns >= SHOWN_NS_MIN:
                lock = lock_name(protected)
                locks[lock] = locks.get(lock, 0.0) + ns
        yield Kind(name, row["reached"], locks)


def per_second(ns: float) -> str:
    """How many a second, when each takes so long and none beside another."""
    return "unbounded" if ns < SHOWN_NS_MIN else f"{1e9 / ns / 1e6:,.2f} M"


def kinds_table(found: list[Kind], sockets: dict[str, float]) -> Table:
    """The table of locks; sends once more with what their sockets cost."""
    table = Table(title=f"time under shared locks, {MACHINE}")
    columns = ("request", "total ns", "under locks, ns", "serial share", "of other shards")
    for column in columns:
        table.add_column(column)
    for cores in CORES:
        table.add_column(f"{cores} cores", justify="right")
    table.add_column("ceiling/s", justify="right")
    send = next(kind for kind in found if kind.name == "send")
    beside = [
        Kind(f"send with sockets, {load}", us * 1e3, send.locks_ns) for load, us in sockets.items()
    ]
    for kind in (*found, *beside):
        # What is counted of inner holds is part of an outer one, and of no request.
        share = min(1.0, kind.serial_ns / kind.total_ns)
        common = min(1.0, kind.common_ns / kind.total_ns)
        held = ", ".join(f"{name} {ns:.0f}" for name, ns in kind.locks_ns.items()) or "none"
        gains = [f"{amdahl(common, cores):.1f}x" for cores in CORES]
        total, ceiling = f"{kind.total_ns:,.0f}", per_second(kind.slowest_ns)
        shares = (f"{share:.3f}", f"{common:.3f}")
        table.add_row(kind.name, total, held, *shares, *gains, ceiling)
    return table


def thread_seconds(tid: int, pid: int) -> float:
    """Processor time of one thread."""
    text = Path(f"/proc/{pid}/task/{tid}/schedstat").read_text(encoding="utf-8")
    return int(text.split()[0]) / 1e9


def interpreter_us(peer: Peer, connections: int, outstanding: int) -> tuple[float, float]:
    """Processor time per message: of the interpreter's thread, and of the whole broker."""
    load = ("-c", connections, "-w", outstanding, "--seconds")
    peer.load("produce", "serial", *load, 1)
    os.sync()
    # The loop is the first thread of the process.
    before = thread_seconds(peer.pid, peer.pid)
    report = peer.load("produce", "serial", *load, SECONDS)
    spent = thread_seconds(peer.pid, peer.pid) - before
    return spent / report["acknowledged"] * 1e6, processor_us(report)


def interpreter_table(
    scratch: Path,
) -> tuple[Table, dict[str, float], list[dict[str, float | str]]]:
    """The table of the interpreter, and the broker's time per message with one reactor by load."""
    table = Table(title=f"time of the interpreter's thread per message (sends of 1 KB), {MACHINE}")
    for column in ("load", "reactors", "interpreter us", "broker us", "share"):
        table.add_column(column, justify="left" if column == "load" else "right")
    for cores in CORES:
        table.add_column(f"{cores} cores", justify="right")
    table.add_column("ceiling/s", justify="right")
    sockets: dict[str, float] = {}
    figures: list[dict[str, float | str]] = []
    for reactors in (0, 1):
        with ours(scratch / f"reactors-{reactors}", "ASYNC_FLUSH", reactors=reactors) as peer:
            for connections, outstanding in LOADS:
                inside, whole = interpreter_us(peer, connections, outstanding)
                load = f"{connections} x {outstanding}"
                if reactors:
                    sockets[load] = whole
                share = min(1.0, inside / whole)
                gains = [f"{amdahl(share, cores):.1f}x" for cores in CORES]
                us = (f"{inside:.3f}", f"{whole:.2f}", f"{share:.3f}")
                table.add_row(load, str(reactors), *us, *gains, per_second(inside * 1e3))
                figures.append(
                    {"load": load, "reactors": reactors, "interpreter": inside, "broker": whole}
                )
    return table, sockets, figures


def main() -> int:
    """Joins, measures, prints, writes."""
    console = Console(width=None if sys.stdout.isatty() else 170)
    try:
        found = list(kinds())
    except FileNotFoundError as error:
        print(f"{error.filename} is not there: make bench-serial", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(dir=OUT.parent) as scratch:
        interpreter, sockets, figures = interpreter_table(Path(scratch))
    console.print(kinds_table(found, sockets))
    console.print(interpreter)
    requests = [
        {"request": kind.name, "total_ns": kind.total_ns, "locks_ns": kind.locks_ns}
        for kind in found
    ]
    written = {"cores": os.cpu_count(), "requests": requests, "interpreter": figures}
    OUT.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
