"""Our broker beside the official one, under the same load in the same run: `make bench-peers`.

Both are started here on directories of their own and loaded in turn by `mqcore-load`, row by row,
so that what the machine does to one it does to the other. Prints the table and writes
`target/mqcore-benches/peers.json`. `MQCORE_BENCH=quick` loads for seconds instead of tens.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from client_rows import client_rows, kafka_client_rows
from kafka import running_kafka
from peer_brokers import (
    FIRST_SECONDS,
    HEAP,
    IS_QUICK,
    SEGMENT_BYTES,
    TARGET,
    VERSION,
    Peer,
    free_port,
    official,
    ours,
)
from peer_rows import Report, Row, latency, rate
from rich.console import Console
from rich.table import Table

from interop.install import need_java

if TYPE_CHECKING:
    from collections.abc import Iterator

OUT = TARGET / "mqcore-benches" / "peers.json"
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
# `MQCORE_BENCH_ONLY=clients`: only the rows of clients, and Kafka's; `sustained`: that row.
ONLY = os.environ.get("MQCORE_BENCH_ONLY")
SUSTAINED_SECONDS = 10 if IS_QUICK else 60
# A record of 1 KB as it lies in the log: head, body, topic.
RECORD_BYTES = 91 + 1_024 + len("sustained")
JAVA_THREADS = 64
# Messages of the row of pops, and those of them that are popped: the last may be waited for.
POPPED = 40_000 if IS_QUICK else 400_000


def warm(*peers: Peer) -> None:
    """Loads brokers before anything is measured, with small messages."""
    for peer in peers:
        load = ("-c", 8, "-w", 8, "--size", 64, "--seconds", FIRST_SECONDS)
        peer.load("produce", "warm", *load)


def asynchronous_rows(one: Peer, other: Peer) -> Iterator[Row]:
    """Throughput and latency without waiting for the disk."""
    wide = ("-c", 8, "-w", 32)
    warm(one, other)
    a, b = (peer.produce("wide", *wide) for peer in (one, other))
    yield Row("8 x 32, 1 KB: messages/s", rate(a), rate(b), ">= 4x", 4)
    for quantile in ("p99", "p99.9"):
        mine, theirs = latency(a, quantile), latency(b, quantile)
        yield Row(f"8 x 32, 1 KB: {quantile} us", mine, theirs, "<= 1/5", 1 / 5, is_upper=True)
    us = [report["processor"]["us_per_message"] for report in (a, b)]
    yield Row("8 x 32, 1 KB: broker us/message", us[0], us[1], "<= 1/8", 1 / 8, is_upper=True)
    half = rate(b) / 2
    a, b = (peer.produce("wide", *wide, "--rate", half) for peer in (one, other))
    for quantile in ("p99", "p99.9"):
        mine, theirs = latency(a, quantile), latency(b, quantile)
        name = f"open loop, half the official maximum: {quantile} us"
        yield Row(name, mine, theirs, "<= 1/5", 1 / 5, is_upper=True)
    a, b = (peer.produce("wide", *wide, "--size", 128) for peer in (one, other))
    yield Row("8 x 32, 128 B: messages/s", rate(a), rate(b), ">= 6x", 6)
    a, b = (peer.produce("wide") for peer in (one, other))
    mine, theirs = latency(a, "p50"), latency(b, "p50")
    yield Row("1 x 1: p50 us", mine, theirs, "<= 1/3", 1 / 3, is_upper=True)
    a, b = (peer.produce("wide", "-c", 64) for peer in (one, other))
    yield Row("64 x 1: messages/s", rate(a), rate(b), ">= 2x", 2)
    a, b = (peer.transact("transactions", *wide) for peer in (one, other))
    name = "8 x 32, 1 KB: transactions/s (half and commit)"
    yield Row(name, rate(a), rate(b), ">= 2x", 2)
    a, b = (peer.java_clients("wide", JAVA_THREADS) for peer in (one, other))
    name = f"official Java client, {JAVA_THREADS} threads: messages/s"
    # The client takes most of the machine: there is no goal but to be no worse.
    yield Row(name, rate(a), rate(b), ">= 1x", 1)


def synchronous_rows(one: Peer, other: Peer) -> Iterator[Row]:
    """Throughput where each answer waits for the disk."""
    warm(one, other)
    for connections, outstanding in ((1, 1), (64, 1), (8, 128)):
        load = ("-c", connections, "-w", outstanding)
        a, b = (peer.produce("sync", *load) for peer in (one, other))
        name = f"sync flush {connections} x {outstanding}: messages/s"
        yield Row(name, rate(a), rate(b), ">= 2x", 2)


def fan_out_row(one: Peer, other: Peer) -> Row:
    """Eight consumers of one topic that is still in memory."""

    def bytes_per_processor_second(peer: Peer) -> float:
        peer.load("produce", "hot", "-c", 4, "-w", 32, "--count", 50_000)
        report = peer.load("consume", "hot", "-c", 8, "--until-end", "--seconds", 60)
        used = report["processor"]["user_s"] + report["processor"]["system_s"]
        # A step of the processor clock is 10 ms: what took less took that.
        return float(report["bytes"]) / max(used, 0.01)

    a, b = (bytes_per_processor_second(peer) / 1e6 for peer in (one, other))
    return Row("fan-out to 8 consumers: MB per broker CPU second", a, b, ">= 3x", 3)


def pop_row(one: Peer, other: Peer) -> Row:
    """Messages popped and acknowledged one by one, of a topic that is still in memory."""

    def popped(peer: Peer) -> float:
        peer.load("produce", "popped", "-c", 8, "-w", 32, "--size", 128, "--count", POPPED)
        load = ("-c", 8, "-w", 2, "--count", POPPED - POPPED // 10, "--seconds", 60)
        return rate(peer.load("pop", "popped", *load))

    a, b = (popped(peer) for peer in (one, other))
    return Row("8 x 2, 128 B: messages popped and acknowledged/s", a, b, ">= 2x", 2)


def sustained_row(one: Peer, scratch: Path) -> Row:
    """A minute of the wide load beside a bare sequential `pwrite` of the same number of bytes."""
    timing = ("--seconds", SUSTAINED_SECONDS, "--warm-seconds", 0)
    report = one.load("produce", "sustained", "-c", 8, "-w", 32, *timing)
    stored_mb = rate(report) * RECORD_BYTES / 1e6
    bare_mb = bare_pwrite_mb(scratch, int(stored_mb * 1e6 * SUSTAINED_SECONDS))
    name = f"8 x 32 for {SUSTAINED_SECONDS} s beside pwrite: MB/s"
    return Row(name, stored_mb, bare_mb, ">= 0.8", 0.8)


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


def kafka_rows(scratch: Path) -> Iterator[Row]:
    """What many partitions cost Kafka, beside itself with few; its clients beside ours."""
    with ours(scratch / "beside", "ASYNC_FLUSH") as one, running_kafka(scratch / "kafka") as kafka:
        yield from kafka_client_rows(one, kafka)
        few = kafka.produce(4)
        yield Row("Kafka, 4 partitions: records/s", few, None, "shown", 0)
        for partitions in (256, 1_000):
            many = kafka.produce(partitions)
            yield Row(f"Kafka, {partitions} partitions beside 4: records/s", many, few, "shown", 0)


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
    with ours(home, "ASYNC_FLUSH") as peer:
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


def rows(scratch: Path) -> Iterator[Row]:
    """Every row, or the half that was asked for, as it is measured."""
    if ONLY in (None, "brokers"):
        yield from broker_rows(scratch)
    if ONLY in (None, "brokers", "sustained"):
        with ours(scratch / "sustained", "ASYNC_FLUSH") as one:
            yield sustained_row(one, scratch)
    if ONLY in (None, "clients"):
        with ours(scratch / "clients", "ASYNC_FLUSH") as one:
            yield from client_rows(one)
        yield from kafka_rows(scratch)


def broker_rows(scratch: Path) -> Iterator[Row]:
    """What brokers do under the load generator."""
    yield from idle_rows(scratch / "idle")
    for flush in ("ASYNC_FLUSH", "SYNC_FLUSH"):
        with ExitStack() as both:
            other = both.enter_context(official(scratch / f"official-{flush}", flush, free_port()))
            one = both.enter_context(ours(scratch / f"ours-{flush}", flush))
            if flush == "SYNC_FLUSH":
                yield from synchronous_rows(one, other)
                continue
            yield from asynchronous_rows(one, other)
            yield fan_out_row(one, other)
            yield pop_row(one, other)
    with ours(scratch / "many", "ASYNC_FLUSH") as one:
        yield from many_rows(one)
        yield from headline_rows(one)


def main() -> None:
    """Measures, prints, writes."""
    need_java()
    console = Console(width=None if sys.stdout.isatty() else 120)
    measured: list[Row] = []
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUT.parent) as scratch:
        for row in rows(Path(scratch)):
            measured.append(row)
            console.print(row.line(), highlight=False)
    table = Table(title=f"mqcore beside Apache RocketMQ {VERSION} ({HEAP} heap), one run")
    for column in ("what", "reached", "beside", "ratio", "goal", ""):
        table.add_column(column, justify="left" if column in ("what", "goal") else "right")
    for row in measured:
        beside = "" if row.other is None else f"{row.other:,.1f}"
        ratio = "" if row.other is None else f"{row.ratio:.2f}"
        missed = "missed" if row.is_missed else ""
        table.add_row(row.name, f"{row.ours:,.2f}", beside, ratio, row.goal, missed)
    console.print(table)
    lines = [
        {
            "name": row.name,
            "reached": row.ours,
            "beside": row.other,
            "ratio": row.ratio,
            "goal": row.goal,
            "missed": row.is_missed,
        }
        for row in measured
    ]
    OUT.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
