"""A broker on half a core under three times what it can take: what is answered, what comes after.

    python benches/overload.py            # some four minutes
    MQCORE_BENCH=quick python benches/overload.py

The broker has half of one core (a control group), the generator the others. Capacity is what a
closed loop reaches; then messages come at one, two and three times that whatever the answers do,
from connections that have no more unanswered than answers come within three seconds, the usual
deadline of a client. Goodput is what is acknowledged. Capacity is measured before and behind each
overload, since other programs of a machine take from both. Behind each overload lone sends show how
long it takes until a send is as quick as before.
Prints the rows and writes `target/mqcore-benches/overload.json`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peer_brokers import IS_QUICK, TARGET, Peer, ours

if TYPE_CHECKING:
    from collections.abc import Iterator

OUT = TARGET / "mqcore-benches" / "overload.json"
SECONDS = 6 if IS_QUICK else 20
WARM_SECONDS = 2
# Half a core in slices that are short beside a deadline.
PERIOD_US = 10_000
QUOTA_US = PERIOD_US // 2
CONNECTIONS = 16
# The official deadline of a send.
DEADLINE_S = 3.0
FACTORS = (1.0, 2.0, 3.0)
GOODPUT_MIN = 0.9
RECOVERY_MAX_S = 5.0
# A lone send is as quick as before within so many times its usual latency, or so many ms.
QUICK_TIMES = 4.0
QUICK_US = 20_000.0
IN_A_ROW = 3
LOOKS_MAX = 200
GROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))


@dataclass
class Row:
    """One load.

    Attributes:
        flush: How the broker flushes.
        factor: How many times capacity came in; 0 for the closed loop.
        asked: Messages a second that came in.
        goodput: Messages a second that were acknowledged.
        ratio: Goodput by capacity.
        p99_ms: How long an answer took from when its message was due, or was sent at the latest.
        codes: Answers by code.
        lost: Requests whose connection ended.
        recovery_s: From the end of the load until a lone send was as quick as before.
    """

    flush: str
    factor: float
    asked: float
    goodput: float
    ratio: float
    p99_ms: float
    codes: dict[str, int]
    lost: int
    recovery_s: float

    @property
    def missed(self) -> bool:
        """Whether a goal is missed."""
        return self.ratio < GOODPUT_MIN or self.recovery_s > RECOVERY_MAX_S


@contextmanager
def half_a_core(pid: int) -> Iterator[None]:
    """Confines a process and its threads for the length of the block.

    Raises:
        RuntimeError: This machine lets nobody do that.
    """
    core = min(os.sched_getaffinity(0))
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {core})
    base = next((each for each in GROUPS if each.is_dir()), None)
    if base is None:
        raise RuntimeError("there are no control groups")
    folder = base / f"mqcore-overload-{os.getpid()}"
    try:
        folder.mkdir()
        if (folder / "cpu.cfs_quota_us").exists():
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US), encoding="ascii")
            (folder / "cpu.cfs_quota_us").write_text(str(QUOTA_US), encoding="ascii")
        else:
            (folder / "cpu.max").write_text(f"{QUOTA_US} {PERIOD_US}", encoding="ascii")
        (folder / "cgroup.procs").write_text(str(pid), encoding="ascii")
    except OSError as error:
        raise RuntimeError(f"no control group of processors: {error}") from error
    try:
        yield
    finally:
        # An empty group can be removed.
        (base / "cgroup.procs").write_text(str(pid), encoding="ascii")
        folder.rmdir()


def lone_us(peer: Peer) -> float:
    """Returns how long one send takes that nobody is beside."""
    report = peer.load("produce", "lone", "-c", 1, "-w", 1, "--count", 1)
    latency: float = report["latency_us"]["max"]
    return latency


def usual_us(peer: Peer) -> float:
    """Returns the middle of some lone sends."""
    found = sorted(lone_us(peer) for _ in range(9))
    return found[len(found) // 2]


def recovered_s(peer: Peer, usual: float) -> float:
    """Returns how long it takes from now until three lone sends in a row are as quick as before."""
    began, times = time.monotonic(), 0
    first = began
    quick = max(QUICK_TIMES * usual, QUICK_US)
    for _ in range(LOOKS_MAX):
        at = time.monotonic()
        times = times + 1 if lone_us(peer) <= quick else 0
        if times == 1:
            first = at
        if times == IN_A_ROW:
            return first - began
        threading.Event().wait(0.02)
    return time.monotonic() - began


def row_of(flush: str, factor: float, report: dict[str, Any], capacity: float, late: float) -> Row:
    """Makes a row of what the generator reports."""
    goodput = report["messages_per_second"]
    return Row(
        flush=flush,
        factor=factor,
        asked=report["rate_asked"] or goodput,
        goodput=goodput,
        ratio=goodput / (capacity or goodput),
        p99_ms=report["latency_us"]["p99"] / 1e3,
        codes=report["codes"],
        lost=report["lost"],
        recovery_s=late,
    )


def rows(scratch: Path, flush: str) -> Iterator[Row]:
    """Loads one broker, closed and open in turn."""
    timing = ("--seconds", SECONDS, "--warm-seconds", WARM_SECONDS)
    with ours(scratch / flush, flush) as peer, half_a_core(peer.pid):

        def closed() -> Row:
            report = peer.load("produce", "load", "-c", CONNECTIONS, "-w", 32, *timing)
            return row_of(flush, 0, report, 0, 0.0)

        peer.load("produce", "warm", "-c", CONNECTIONS, "-w", 32, *timing)
        usual = usual_us(peer)
        before = closed()
        yield before
        for factor in FACTORS:
            # So many unanswered that each is answered within the deadline, at what is reached.
            each = max(1, int(before.goodput * DEADLINE_S / CONNECTIONS))
            rate = ("--rate", before.goodput * factor)
            report = peer.load("produce", "load", "-c", CONNECTIONS, "-w", each, *rate, *timing)
            late = recovered_s(peer, usual)
            behind = closed()
            yield row_of(flush, factor, report, (before.goodput + behind.goodput) / 2, late)
            yield behind
            before = behind


def shown(row: Row) -> str:
    """Gives a row as a line of a table."""
    kind = "closed loop" if row.factor == 0 else f"{row.factor:.0f} x"
    codes = ", ".join(f"{code}: {count:,}" for code, count in row.codes.items())
    return (
        f"| {row.flush} | {kind} | {row.goodput:,.0f} | {row.ratio:.2f} | {row.p99_ms:,.0f} | "
        f"{codes} | {row.lost} | {row.recovery_s:.2f} |"
    )


def main() -> int:
    """Measures, prints, writes; 1 where a goal is missed."""
    scratch = Path(tempfile.mkdtemp(prefix="overload-", dir=TARGET))
    found: list[Row] = []
    print("| flush | load | acknowledged/s | by capacity | p99, ms | codes | lost | recovery, s |")
    print("|---|---|---|---|---|---|---|---|")
    try:
        for flush in ("ASYNC_FLUSH", "SYNC_FLUSH"):
            for row in rows(scratch, flush):
                found.append(row)
                print(shown(row), flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n", encoding="utf-8")
    missed = [row for row in found if row.factor and row.missed]
    for row in missed:
        print(f"missed: {shown(row)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
