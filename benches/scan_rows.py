"""The rows of the store scan: decoding alone, and through Spark on two cores, next to their goals.

Needs the built extension, PySpark and Java. Writes its rows where the other benches write theirs.
"""

from __future__ import annotations

import array
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ready_batches

import mqcore.spark
from mqcore.native.columns import RecordColumns, Span
from mqcore.native.store import Store
from mqcore.spark.schema import BODY_NAME, CORRUPT_NAME, PROPERTIES_NAME, READ_COLUMNS
from mqcore.spark.store_source.options import SPLIT_BYTES, parse
from mqcore.spark.store_source.planning import LogRange, directories_of, ranges_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
OUT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "mqcore-benches"
IS_QUICK = os.environ.get("MQCORE_BENCH") == "quick"
# Bytes of the logs: several files, so that tasks have as much to do as in a real store.
LOG_BYTES = 256 << 20 if IS_QUICK else 2 << 30
MANY = 1_000
ROUNDS = 3
# Through Spark: a JVM is slow until it has compiled what is hot, a dozen seconds long.
SPARK_ROUNDS = 8
SETTINGS = {"mappedFileSizeCommitLog": 512 << 20, "messageIndexEnable": False}
PROPERTIES = (
    b"KEYS\x01key-0123456789\x02UNIQ_KEY\x017F00000100014B85612C0F6A3B8E0001\x02"
    b"WAIT\x01true\x02TAGS\x01tag-a\x02"
)
ALL = tuple(c.name for c in READ_COLUMNS if c.name not in (PROPERTIES_NAME, CORRUPT_NAME))
DDL = {column.name: column.ddl for column in READ_COLUMNS}
Row = dict[str, Any]


def filled(body_len_bytes: int) -> tuple[Path, int]:
    """Makes a store of eight topics with four queues each; returns it and its messages."""
    directory = OUT / "stores" / f"scan-{os.getpid()}-{body_len_bytes}"
    shutil.rmtree(directory, ignore_errors=True)
    calls = LOG_BYTES // ((body_len_bytes + 200) * MANY)
    bodies = os.urandom(body_len_bytes * MANY)
    lens = array.array("I", [body_len_bytes] * MANY)
    queues = array.array("i", [number % 4 for number in range(MANY)])
    with Store(directory, config=SETTINGS) as store:
        for call in range(calls):
            store.append_many(
                f"topic-{call % 8}", bodies, lens, queue_ids=queues, properties=PROPERTIES
            )
    return directory, calls * MANY


def decoded(ranges: list[LogRange], columns: tuple[str, ...], *, verify_crc: bool = False) -> int:
    """Decodes ranges in this thread; returns the rows."""
    rows = 0
    for each in ranges:
        segment = each.segment
        span = Span(each.start, each.end, segment.end, each.start != segment.base, True)
        reading = RecordColumns(columns, span=span, verify_crc=verify_crc)
        start = each.start - segment.base
        for piece in each.directory.pieces(segment.path, start, segment.len_bytes):
            rows += sum(len(batch) for batch in reading.feed(piece, reading.next_position))
            if reading.is_done:
                break
        rows += sum(len(batch) for batch in reading.finish())
    return rows


def decode_rows(store: Path, count: int, body_len_bytes: int) -> list[Row]:
    """Measures one thread without Spark, by the processor's time: what a task needs of it."""
    options = parse({"path": str(store)})
    directories = directories_of(options)
    ranges = [
        each for directory in directories for each in ranges_of(directory, options, SPLIT_BYTES)
    ]
    found = []
    for name, columns, verify_crc in (
        ("walk", (), False),
        ("walk, CRC of bodies", (), True),
        ("topic, tags, keys, store time", ("topic", "tags", "keys", "storeTimestamp"), False),
        ("all columns", ALL, False),
        ("all columns and properties", (*ALL, PROPERTIES_NAME), False),
    ):
        best = 0.0
        for _ in range(ROUNDS):
            started = time.process_time()
            assert decoded(ranges, columns, verify_crc=verify_crc) == count
            best = max(best, count / (time.process_time() - started))
        found.append(row(f"decode {body_len_bytes} B: {name}", "", best, None))
    return found


def spark_rate(
    spark: SparkSession, store: Path, count: int, columns: tuple[str, ...], *, kind: str
) -> float:
    """Reads columns through Spark into nothing; the best rate of some rounds."""
    ddl = ", ".join(f"{name} {DDL[name]}" for name in columns)
    reader = spark.read.format(kind).schema(ddl)
    if kind == ready_batches.FORMAT:
        reader = reader.option("rows", count)
    frame = reader.load(str(store))
    found = frame.count()
    assert found == count or kind == ready_batches.FORMAT
    best = 0.0
    for _ in range(SPARK_ROUNDS):
        started = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        best = max(best, found / (time.perf_counter() - started))
    return best


def row(
    name: str, goal: str, reached: float, at_least: float | None, limit: float | None = None
) -> Row:
    """Gives a row of the table."""
    return {
        "bench": "scan",
        "mode": "quick" if IS_QUICK else "full",
        "name": name,
        "goal": goal,
        "unit": "records/s",
        "reached": reached,
        "limit": limit,
        "ratio": None if limit is None else reached / limit,
        "missed": None if at_least is None else reached < at_least,
        "note": f"logs of {LOG_BYTES >> 20} MiB, best round",
    }


def main() -> int:
    """Measures all rows and writes them."""
    spark = mqcore.spark.session(
        master="local[2]",
        config={
            "spark.ui.enabled": False,
            "spark.ui.showConsoleProgress": False,
            "spark.local.dir": OUT / "spark",
            "spark.sql.warehouse.dir": OUT / "spark" / "warehouse",
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    mqcore.spark.register(spark)
    ready_batches.register(spark)
    rows = []
    for body_len_bytes in (256, 1024):
        store, count = filled(body_len_bytes)
        rows.extend(decode_rows(store, count, body_len_bytes))
        name = f"Spark, {body_len_bytes} B"
        is_small = body_len_bytes == 256
        all_goal = (">= 1 M/s", 1e6) if is_small else (">= 0.8 GB/s of bodies", 0.8e9 / 1024)
        for what, columns, (goal, at_least) in (
            ("one column", ("queueOffset",), (">= 4 M/s", 4e6 if is_small else None)),
            ("four columns", ("topic", "queueId", "queueOffset", "tags"), ("", None)),
            ("bodies", (BODY_NAME,), ("", None)),
            ("all columns", ALL, all_goal),
        ):
            reached = spark_rate(spark, store, count, columns, kind="mqcore-store")
            limit = spark_rate(spark, store, count, columns, kind=ready_batches.FORMAT)
            rows.append(row(f"{name}: {what}", goal, reached, at_least, limit))
        shutil.rmtree(store, ignore_errors=True)
    spark.stop()
    path = OUT / "rows" / "scan.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in rows), encoding="utf-8")
    for line in rows:
        limit = "" if line["limit"] is None else f", Spark's own limit {line['limit']:.0f}"
        print(f"{line['name']}: {line['reached']:.0f} {line['unit']} {line['goal']}{limit}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
