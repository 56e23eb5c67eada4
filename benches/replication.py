"""What a synchronous master costs: beside an asynchronous one, with late reports, beside RocketMQ.

    python benches/replication.py                                 # all rows, some ten minutes
    MQCORE_BENCH=quick python benches/replication.py              # shorter loads
    MQCORE_BENCH_ONLY='roles|refill' python benches/replication.py # some; `official` needs Java

Each master has one slave, on this machine: load, master and slave share its cores. What is
compared is loaded in turn, round by round. Prints the rows and writes
`target/mqcore-benches/replication.json`.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING

from peer_brokers import IS_QUICK, TARGET, VERSIONS, Peer
from peer_rows import Report, Row, latency, measured, rate
from refill_rows import refill_rows
from replicated_brokers import Role, official_pair, our_pair

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OUT = TARGET / "mqcore-benches" / "replication.json"
ONLY = os.environ.get("MQCORE_BENCH_ONLY", "roles|delay|tls|official|refill").split("|")
ROUNDS = 5
DELAY_S = 0.002
SYNC, ASYNC = Role("SYNC_MASTER"), Role("ASYNC_MASTER")
WIDE, NARROW, DEEP = (8, 32), (64, 1), (8, 128)


def turns(peers: tuple[Peer, Peer], load: tuple[int, int]) -> tuple[list[Report], list[Report]]:
    """Loads two masters in turn; returns the reports of both."""
    connections, outstanding = load
    found: tuple[list[Report], list[Report]] = ([], [])
    for number in range(ROUNDS):
        # Who comes first in a round has the other's traces in the caches: they take turns.
        for at in (0, 1) if number % 2 == 0 else (1, 0):
            os.sync()
            report = peers[at].produce("replicated", "-c", connections, "-w", outstanding)
            found[at].append(report)
    return found


def compared(
    name: str, peers: tuple[Peer, Peer], load: tuple[int, int], goal: float
) -> Iterator[Row]:
    """Compares two masters under a load: the rate, and the latency as it is."""
    found = turns(peers, load)
    connections, outstanding = load
    what = f"{name}, {connections} x {outstanding}"
    rates = [median(map(rate, reports)) for reports in found]
    yield Row(f"{what}: messages/s", rates[0], rates[1], f">= {goal}", goal)
    late = [median(latency(each, "p99") for each in reports) for reports in found]
    yield Row(f"{what}: p99 us", late[0], late[1], "shown", float("inf"), is_upper=True)


def warm(peers: tuple[Peer, Peer]) -> None:
    """Loads both before anything is measured."""
    for peer in peers:
        peer.produce("warm", "-c", 8, "-w", 8, "--size", 64)


def role_rows(scratch: Path) -> Iterator[Row]:
    """Sends that wait for a slave beside sends that wait for none; both masters have one."""
    with ExitStack() as stack:
        peers = (
            stack.enter_context(our_pair(scratch / "sync", SYNC)),
            stack.enter_context(our_pair(scratch / "async", ASYNC)),
        )
        warm(peers)
        for load in (WIDE, NARROW):
            yield from compared("SYNC_MASTER beside ASYNC_MASTER", peers, load, 0.9)


def delay_rows(scratch: Path) -> Iterator[Row]:
    """Reports that come 2 ms later beside reports that come at once, over the same kind of link."""
    with ExitStack() as stack:
        peers = (
            stack.enter_context(our_pair(scratch / "late", SYNC, DELAY_S)),
            stack.enter_context(our_pair(scratch / "at-once", SYNC, 0.0)),
        )
        warm(peers)
        yield from compared("reports 2 ms later beside at once", peers, DEEP, 0.9)


def tls_rows(scratch: Path) -> Iterator[Row]:
    """The log shipped over TLS beside a plain connection."""
    with ExitStack() as stack:
        peers = (
            stack.enter_context(our_pair(scratch / "tls", SYNC, is_safe=True)),
            stack.enter_context(our_pair(scratch / "plain", SYNC)),
        )
        warm(peers)
        for load, goal in ((WIDE, 0.8), (NARROW, 0.9)):
            yield from compared("slaves over TLS beside plain", peers, load, goal)


def official_rows(scratch: Path) -> Iterator[Row]:
    """Our synchronous master and slave beside the official ones."""
    version = VERSIONS[0]
    with ExitStack() as stack:
        peers = (
            stack.enter_context(our_pair(scratch / "ours", SYNC)),
            stack.enter_context(official_pair(scratch / "official", SYNC, version)),
        )
        for _ in range(1 if IS_QUICK else 3):
            warm(peers)
        for load, goal in ((WIDE, 3.0), (NARROW, 2.0)):
            yield from compared(f"SYNC_MASTER beside {version}", peers, load, goal)


SECTIONS = {
    "roles": role_rows,
    "delay": delay_rows,
    "tls": tls_rows,
    "official": official_rows,
    "refill": refill_rows,
}


def main() -> None:
    """Measures, prints, writes."""
    measured(lambda scratch: (row for section in ONLY for row in SECTIONS[section](scratch)), OUT)


if __name__ == "__main__":
    main()
