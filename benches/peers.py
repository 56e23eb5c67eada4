"""Our broker beside two official ones, under the same load in the same run: `make bench-peers`.

All are started here on directories of their own and loaded in turn by `mqcore-load`, row by row,
so that what the machine does to one it does to the others. Prints the table and writes
`target/mqcore-benches/peers.json`. `MQCORE_BENCH=quick` loads for shorter.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from client_rows import client_rows, kafka_client_rows
from kafka import running_kafka
from peer_alone import headline_rows, idle_rows, many_rows, reactor_rows, sustained_rows
from peer_brokers import (
    HEAP,
    MACHINE,
    REACTORS,
    TARGET,
    VERSIONS,
    Papers,
    free_port,
    official,
    ours,
)
from peer_calls import call_rows
from peer_loads import Brokers, narrow_rows, other_rows, synchronous_rows, tls_rows, wide_rows
from peer_rows import Row, measured
from rich.console import Console
from rich.table import Table

from interop.install import need_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OUT = TARGET / "mqcore-benches" / "peers.json"
# `MQCORE_BENCH_ONLY='wide|narrow'`: only these sections; without it all of them.
ONLY = os.environ.get("MQCORE_BENCH_ONLY")
# The section, how answers wait for the disk in it, and its rows.
COMPARED: tuple[tuple[str, str, Callable[[Brokers], Iterator[Row]]], ...] = (
    ("wide", "ASYNC_FLUSH", wide_rows),
    ("narrow", "ASYNC_FLUSH", narrow_rows),
    ("tls", "ASYNC_FLUSH", tls_rows),
    ("other", "ASYNC_FLUSH", other_rows),
    ("sync", "SYNC_FLUSH", synchronous_rows),
)


def is_wanted(section: str) -> bool:
    """Whether a section was asked for."""
    return ONLY is None or section in ONLY.split("|")


@contextmanager
def brokers(scratch: Path, flush: str) -> Iterator[Brokers]:
    """Runs all brokers that are compared, warm."""
    papers = Papers.made(scratch)
    with ExitStack() as stack:
        officials = {}
        for version in VERSIONS:
            home = scratch / f"official-{version}-{flush}"
            running = official(home, flush, free_port(), version, papers)
            officials[version] = stack.enter_context(running)
        one = stack.enter_context(ours(scratch / f"ours-{flush}", flush, papers=papers))
        all_ = Brokers(one, officials)
        all_.warm()
        yield all_


def rows(scratch: Path) -> Iterator[Row]:
    """Every row, or those that were asked for, as it is measured."""
    if is_wanted("idle"):
        yield from idle_rows(scratch / "idle")
    for flush in ("ASYNC_FLUSH", "SYNC_FLUSH"):
        sections = [rows_of for name, how, rows_of in COMPARED if how == flush and is_wanted(name)]
        if sections:
            with brokers(scratch, flush) as all_:
                for rows_of in sections:
                    yield from rows_of(all_)
    if is_wanted("calls"):
        with ours(scratch / "calls", "ASYNC_FLUSH") as one:
            yield from call_rows(one)
    if is_wanted("reactors"):
        yield from reactor_rows(scratch)
    if is_wanted("many"):
        with ours(scratch / "many", "ASYNC_FLUSH") as one:
            yield from many_rows(one)
    if is_wanted("headline"):
        with ours(scratch / "headline", "ASYNC_FLUSH") as one:
            yield from headline_rows(one)
    if is_wanted("sustained"):
        yield from sustained_rows(scratch)
    if is_wanted("clients"):
        with ours(scratch / "clients", "ASYNC_FLUSH") as one:
            yield from client_rows(one)
        yield from kafka_rows(scratch)


def kafka_rows(scratch: Path) -> Iterator[Row]:
    """What many partitions cost Kafka, beside itself with few; its clients beside ours."""
    with ours(scratch / "beside", "ASYNC_FLUSH") as one, running_kafka(scratch / "kafka") as kafka:
        yield from kafka_client_rows(one, kafka)
        few = kafka.produce(4)
        yield Row("Kafka, 4 partitions: records/s", few, None, "shown", 0)
        for partitions in (256, 1_000):
            many = kafka.produce(partitions)
            yield Row(f"Kafka, {partitions} partitions beside 4: records/s", many, few, "shown", 0)


def table_of(rows: list[Row]) -> Table:
    """The table of all rows, a column for each official version."""
    reactors = "the default" if REACTORS is None else REACTORS
    named = " and ".join(VERSIONS)
    title = f"mqcore (mqcoreReactors: {reactors}) beside Apache RocketMQ {named} ({HEAP} heap)"
    table = Table(title=f"{title}, {MACHINE}")
    for column in ("what", "reached", *VERSIONS, "beside", "ratio", "goal", ""):
        table.add_column(column, justify="left" if column in ("what", "goal") else "right")
    for row in rows:
        officials = dict(row.officials)
        figures = [f"{officials[v]:,.1f}" if v in officials else "" for v in VERSIONS]
        beside = "" if row.other is None else f"{row.other:,.1f}"
        ratio = "" if row.other is None else f"{row.ratio:.2f}"
        missed = "missed" if row.is_missed else ""
        table.add_row(row.name, f"{row.ours:,.2f}", *figures, beside, ratio, row.goal, missed)
    return table


def main() -> None:
    """Measures, prints, writes."""
    need_java()
    found = measured(rows, OUT)
    Console(width=None if sys.stdout.isatty() else 150).print(table_of(found))


if __name__ == "__main__":
    main()
