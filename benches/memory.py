"""What our broker and the official ones occupy, idle and under the same load, asked of the kernel.

python benches/memory.py

Prints a table, as Markdown: what `mqcore broker memory PID` prints of each.
"""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import peer_brokers
from peer_brokers import VERSIONS, Peer, free_port, official, ours

from mqcore.occupancy import Occupied, occupied, store_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

# Behind the start of a JVM, and of a store that makes its files.
IDLE_SECONDS = 10
LOAD_SECONDS = 20
# Heaps of the JVM: what the other benches give, and half of what the official script takes.
HEAPS = ("1g", "4g")
# What the kernel has written back and a collector has looked at.
SETTLE_SECONDS = 5
COLUMNS = ("RssAnon", "RssFile", "VmRSS", "VmLck", "VmSize")
MIB = 1 << 20


def looked_at(peer: Peer) -> Occupied:
    """Returns what a broker occupies now."""
    return occupied(peer.pid, store_of(peer.pid))


def row(name: str, state: str, found: Occupied) -> str:
    """Returns a row of the table."""
    sizes = [f"{found.process.get(column, 0) // MIB:,}" for column in COLUMNS]
    cells = [name, state, *sizes, str(found.threads), str(found.descriptors)]
    return f"| {' | '.join(cells)} |"


def rows(name: str, running: AbstractContextManager[Peer]) -> None:
    """Prints the rows of one broker."""
    with running as peer:
        threading.Event().wait(IDLE_SECONDS)
        idle = looked_at(peer)
        print(row(name, "idle", idle), flush=True)
        timing = ("--seconds", LOAD_SECONDS, "--warm-seconds", 0)
        peer.load("produce", "wide", "-c", 8, "-w", 32, *timing)
        peer.load("consume", "wide", "-c", 8, "--until-end")
        threading.Event().wait(SETTLE_SECONDS)
        print(row(name, f"after {LOAD_SECONDS} s of 8 x 32, read", looked_at(peer)), flush=True)


def main() -> None:
    """Measures each in turn; only one runs at once."""
    print(
        f"| broker | state | {' | '.join(f'{each}, MiB' for each in COLUMNS)} | threads | files |"
    )
    print(f"|{'---|' * (len(COLUMNS) + 4)}")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        rows("mqcore", ours(scratch / "ours", "ASYNC_FLUSH"))
        for version in VERSIONS:
            for heap in HEAPS:
                peer_brokers.HEAP = heap
                home = scratch / f"{version}-{heap}"
                rows(f"{version}, heap {heap}", official(home, "ASYNC_FLUSH", free_port(), version))
                os.sync()


if __name__ == "__main__":
    main()
