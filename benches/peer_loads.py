"""The loads under which our broker and the official ones are compared, and the goals.

Knows no process: brokers are given, and are loaded in turn.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from peer_brokers import FIRST_SECONDS, IS_QUICK
from peer_rows import Measured, Report, Row, latency, processor_us, rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from peer_brokers import Peer

# The figure of a row is the middle of so many turns.
ROUNDS = 1 if IS_QUICK else 3
JAVA_THREADS = 64
# Messages of the row of pops, and those of them that are popped: the last may be waited for.
POPPED = 40_000 if IS_QUICK else 400_000
HOT = 50_000
WIDE = ("-c", 8, "-w", 32)


@dataclass(frozen=True)
class Brokers:
    """All that are compared.

    Attributes:
        ours: Our broker.
        officials: The official ones, by version.
    """

    ours: Peer
    officials: dict[str, Peer]

    def warm(self, *more: str) -> None:
        """Loads all before anything is measured, with small messages."""
        for peer in (self.ours, *self.officials.values()):
            load = ("-c", 8, "-w", 8, "--size", 64, "--seconds", FIRST_SECONDS)
            peer.load("produce", "warm", *load, *more)

    def measured(self, load: Callable[[Peer], Report], rounds: int = ROUNDS) -> Measured:
        """Loads all in turn, `rounds` times.

        Nothing dirty of one load is left for the disk to write during the next.
        """
        ours: list[Report] = []
        officials: dict[str, list[Report]] = {version: [] for version in self.officials}
        for _ in range(rounds):
            os.sync()
            ours.append(load(self.ours))
            for version, peer in self.officials.items():
                os.sync()
                officials[version].append(load(peer))
        return Measured(ours, officials)


def wide_rows(all_: Brokers) -> Iterator[Row]:
    """Eight connections with 32 messages each under way."""
    found = all_.measured(lambda peer: peer.produce("wide", *WIDE))
    yield found.row("8 x 32, 1 KB: messages/s", rate, ">= 4.5x", 4.5)
    for quantile, goal, bound in (("p99", "<= 1/5", 1 / 5), ("p99.9", "<= 1/3", 1 / 3)):
        name = f"8 x 32, 1 KB: {quantile} us"
        yield found.row(name, lambda it, q=quantile: latency(it, q), goal, bound, is_upper=True)
    name = "8 x 32, 1 KB: broker us/message"
    yield found.row(name, processor_us, "<= 1/5", 1 / 5, is_upper=True)
    half = max(map(rate, (report for each in found.officials.values() for report in each))) / 2
    found = all_.measured(lambda peer: peer.produce("wide", *WIDE, "--size", 128))
    yield found.row("8 x 32, 128 B: messages/s", rate, ">= 6x", 6)
    found = all_.measured(lambda peer: peer.produce("wide", *WIDE, "--rate", half))
    for quantile in ("p99", "p99.9"):
        name = f"open loop, half the official maximum: {quantile} us"
        yield found.row(name, lambda it, q=quantile: latency(it, q), "<= 1/5", 1 / 5, is_upper=True)


def narrow_rows(all_: Brokers) -> Iterator[Row]:
    """Connections that have one message under way each."""
    found = all_.measured(lambda peer: peer.produce("narrow", "-c", 64))
    yield found.row("64 x 1: messages/s", rate, ">= 2.2x", 2.2)
    yield found.row("64 x 1: broker us/message", processor_us, "<= 0.36", 0.36, is_upper=True)
    found = all_.measured(lambda peer: peer.produce("narrow", "-c", 16))
    yield found.row("16 x 1: messages/s", rate, ">= 3x", 3)
    yield found.row("16 x 1: broker us/message", processor_us, "shown", float("inf"), is_upper=True)
    found = all_.measured(lambda peer: peer.produce("narrow"))
    yield found.row("1 x 1: messages/s", rate, ">= 3.5x", 3.5)
    name = "1 x 1: p50 us"
    yield found.row(name, lambda it: latency(it, "p50"), "<= 0.3", 0.3, is_upper=True)


def tls_rows(all_: Brokers) -> Iterator[Row]:
    """The wide load over TLS, with the same certificate."""
    # A JVM without compiled ciphers takes hundreds of microseconds for a message.
    all_.warm("--tls")
    found = all_.measured(lambda peer: peer.produce("tls", *WIDE, "--tls"))
    yield found.row("TLS 8 x 32, 1 KB: messages/s", rate, ">= 1x", 1)
    name = "TLS 8 x 32, 1 KB: broker us/message"
    yield found.row(name, processor_us, "shown", float("inf"), is_upper=True)


def synchronous_rows(all_: Brokers) -> Iterator[Row]:
    """Throughput where each answer waits for the disk."""
    for connections, outstanding in ((1, 1), (64, 1), (8, 128)):
        load = ("-c", connections, "-w", outstanding)
        found = all_.measured(lambda peer, load=load: peer.produce("sync", *load))
        name = f"sync flush {connections} x {outstanding}: messages/s"
        yield found.row(name, rate, ">= 2x", 2)


def other_rows(all_: Brokers) -> Iterator[Row]:
    """Transactions, the official client, reading, popping: one turn each."""
    found = all_.measured(lambda peer: peer.transact("transactions", *WIDE), 1)
    yield found.row("8 x 32, 1 KB: transactions/s (half and commit)", rate, ">= 2x", 2)
    found = all_.measured(lambda peer: peer.java_clients("wide", JAVA_THREADS), 1)
    name = f"official Java client, {JAVA_THREADS} threads: messages/s"
    # The client takes most of the machine: there is no goal but to be no worse.
    yield found.row(name, rate, ">= 1x", 1)
    found = all_.measured(fanned_out, 1)
    name = "fan-out to 8 consumers: MB per broker CPU second"
    yield found.row(name, mb_per_processor_second, ">= 3x", 3)
    found = all_.measured(popped, 1)
    yield found.row("8 x 2, 128 B: messages popped and acknowledged/s", rate, ">= 2x", 2)


def fanned_out(peer: Peer) -> Report:
    """Eight consumers of one topic that is still in memory."""
    peer.load("produce", "hot", "-c", 4, "-w", 32, "--count", HOT)
    return peer.load("consume", "hot", "-c", 8, "--until-end", "--seconds", 60)


def mb_per_processor_second(report: Report) -> float:
    """Megabytes read per second of the broker's processor time."""
    used = report["processor"]["user_s"] + report["processor"]["system_s"]
    # A step of the processor clock is 10 ms: what took less took that.
    return float(report["bytes"]) / max(used, 0.01) / 1e6


def popped(peer: Peer) -> Report:
    """Messages popped and acknowledged one by one, of a topic that is still in memory."""
    peer.load("produce", "popped", *WIDE, "--size", 128, "--count", POPPED)
    load = ("-c", 8, "-w", 2, "--count", POPPED - POPPED // 10, "--seconds", 60)
    return peer.load("pop", "popped", *load)
