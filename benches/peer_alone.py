"""Our broker beside itself, beside the disk, and beside the least that stores the same bytes.

Knows no official broker.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from peer_brokers import IS_QUICK, SEGMENT_BYTES, Peer, ours, sink
from peer_rows import Report, Row, latency, rate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IDLE_SECONDS = 5 if IS_QUICK else 30
SETTLE_SECONDS = 5
# What the official clients do.
HEARTBEAT_SECONDS = 30
# Orders per second of the headline load.
HEADLINE_PER_SECOND = 175_000
HEADLINE_P99_MS = 10
# Messages per order that are tried, upwards while they are held, or downwards until one is.
MESSAGES_PER_ORDER = (1.25, 1.5, 2.0, 3.0)
MESSAGES_PER_ORDER_LESS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.25)
SUSTAINED_SECONDS = 10 if IS_QUICK else 60
# A record of 1 KB as it lies in the log: head, body, topic.
RECORD_BYTES = 91 + 1_024 + len("sustained")
# Turns of one reactor and of two.
REACTOR_ROUNDS = 3


def sustained_rows(scratch: Path) -> Iterator[Row]:
    """A minute of the wide load, beside the least that stores the same by `pwrite`."""
    load = ("-c", 8, "-w", 32, "--seconds", SUSTAINED_SECONDS, "--warm-seconds", 0)

    def stored_mb(peer: Peer) -> float:
        os.sync()
        return rate(peer.load("produce", "sustained", *load)) * RECORD_BYTES / 1e6

    with ours(scratch / "sustained", "ASYNC_FLUSH") as one:
        reached_mb = stored_mb(one)
    with sink(scratch / "sink") as least:
        least_mb = stored_mb(least)
    name = f"8 x 32 for {SUSTAINED_SECONDS} s beside pwrite under the same generator: MB/s"
    yield Row(name, reached_mb, least_mb, ">= 0.6", 0.6)
    os.sync()
    bare_mb = bare_pwrite_mb(scratch, int(reached_mb * 1e6 * SUSTAINED_SECONDS))
    name = f"8 x 32 for {SUSTAINED_SECONDS} s beside pwrite alone: MB/s"
    yield Row(name, reached_mb, bare_mb, "shown", 0)


def bare_pwrite_mb(scratch: Path, total_bytes: int) -> float:
    """Megabytes per second of writing into one allocated file after the other, as a log does."""
    piece = bytes(range(256)) * 4096
    paths = []
    began = time.monotonic()
    written = 0
    while written < total_bytes:
        # All stay until the end: what is removed before it was written back costs no disk.
        paths.append(scratch / f"bare-{len(paths)}")
        with paths[-1].open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, SEGMENT_BYTES)
            for at in range(0, SEGMENT_BYTES, len(piece)):
                written += os.pwrite(file.fileno(), piece, at)
                if written >= total_bytes:
                    break
    took = time.monotonic() - began
    for path in paths:
        path.unlink()
    return written / took / 1e6


def reactor_rows(scratch: Path) -> Iterator[Row]:
    """Two reactors beside one, under many connections; nothing may be lost, and order is kept."""
    load = ("-c", 512, "--check")
    pairs: list[tuple[Report, Report]] = []
    with (
        ours(scratch / "two", "ASYNC_FLUSH", reactors=2) as two,
        ours(scratch / "one", "ASYNC_FLUSH", reactors=1) as one,
    ):
        for _ in range(REACTOR_ROUNDS):
            os.sync()
            two_report = two.produce("reactors", *load)
            os.sync()
            pairs.append((two_report, one.produce("reactors", *load)))
    by_ratio = sorted(pairs, key=lambda pair: rate(pair[0]) / rate(pair[1]))
    middle = by_ratio[len(by_ratio) // 2]
    name = "512 x 1, 2 reactors beside 1: messages/s"
    yield Row(name, rate(middle[0]), rate(middle[1]), ">= 1.0", 1.0)
    reports = [report for pair in pairs for report in pair]
    lost = sum(max(0, report["acknowledged"] - report["stored"]) for report in reports)
    name = "512 x 1: acknowledged and not stored"
    yield Row(name, lost, None, "0", 0, is_upper=True)
    disordered = sum(report["disordered"] for report in reports)
    yield Row("512 x 1: out of order", disordered, None, "0", 0, is_upper=True)


def many_rows(one: Peer) -> Iterator[Row]:
    """What many queues and topics cost us, beside ourselves with few."""
    wide = ("-c", 8, "-w", 32)
    few = rate(one.produce("few", *wide))
    many = rate(one.produce("queues", *wide, "--queues", 10_000))
    yield Row("10,000 queues beside 4: messages/s", many, few, "<= 15 % down", 0.85)
    for topics in (256, 1_000):
        many = rate(one.produce(f"topics{topics}", *wide, "--topics", topics))
        yield Row(f"{topics} topics beside 1: messages/s", many, few, "<= 15 % down", 0.85)


def headline_rows(one: Peer) -> Iterator[Row]:
    """The load of the seeds, in an open loop; then how many messages per order can be held."""

    def p99_ms(per_order: float) -> float:
        load = ("-c", 8, "-w", 256, "--rate", HEADLINE_PER_SECOND * per_order)
        return latency(one.produce("orders", *load), "p99") / 1_000

    first = p99_ms(1)
    name = f"open loop, {HEADLINE_PER_SECOND:,}/s of 1 KB: p99 ms"
    yield Row(name, first, None, "<= 10", 10, is_upper=True)
    steps = MESSAGES_PER_ORDER if first <= HEADLINE_P99_MS else MESSAGES_PER_ORDER_LESS
    held = 1.0 if first <= HEADLINE_P99_MS else 0.0
    for per_order in steps:
        is_held = p99_ms(per_order) <= HEADLINE_P99_MS
        held = per_order if is_held else held
        # Upwards the first miss ends the search, downwards the first success.
        if is_held != (first <= HEADLINE_P99_MS):
            break
    name = f"messages per order held at {HEADLINE_PER_SECOND:,}/s, p99 <= {HEADLINE_P99_MS} ms"
    yield Row(name, held, None, "shown", 0)


def idle_rows(home: Path) -> Iterator[Row]:
    """A broker that nobody uses, and one that only hears heartbeats."""
    # All come from one address.
    unbounded: dict[str, object] = {"mqcoreConnectionsPerAddress": 0}
    with ours(home, "ASYNC_FLUSH", more=unbounded) as peer:
        yield Row("start to ready: s", peer.ready_seconds, None, "< 0.5", 0.5, is_upper=True)
        yield Row(
            "idle: anonymous memory, MB", peer.resident_mb(), None, "<= 100", 100, is_upper=True
        )
        peer.load("produce", "idle", "--queues", 1_000, "--count", 4_000, "-w", 32)
        # What the last sends left to do (files of queues) is no idleness.
        peer.load("idle", "idle", "--seconds", SETTLE_SECONDS, "--heartbeat-seconds", 600)
        # A load of one heartbeat at the end only: it ends when the time is over.
        report = peer.load("idle", "idle", "--seconds", IDLE_SECONDS, "--heartbeat-seconds", 600)
        share = used_share(report)
        yield Row("idle, 1,000 queues: % of a core", share, None, "<= 0.5", 0.5, is_upper=True)
        # Measured from the second heartbeat of each on: the first one comes with the connection.
        timing = ("--warm-seconds", HEARTBEAT_SECONDS + 1, "--seconds", HEARTBEAT_SECONDS)
        timing += ("--heartbeat-seconds", HEARTBEAT_SECONDS)
        report = peer.load("idle", "idle", "-c", 5_000, *timing)
        share = used_share(report)
        yield Row("5,000 heartbeats: % of a core", share, None, "< 10", 10, is_upper=True)
        memory = peer.resident_mb()
        yield Row("5,000 connections: memory, MB", memory, None, "< 300", 300, is_upper=True)


def used_share(report: Report) -> float:
    """Processor time of the broker during a report, in percent of one core."""
    used = report["processor"]["user_s"] + report["processor"]["system_s"]
    return 100 * float(used) / float(report["seconds"])
