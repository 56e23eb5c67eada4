"""Reading topics by Spark: `spark_source.py [BYTES]`, the length of a body, 1,024 without.

One broker and one Spark session in local[2] on the same machine. Rows per second of a count, of all
columns into nothing, and of few; the middle of the last three runs of each. Also the time of
triggers with few rows and with none, beside those of Spark's rate source.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peer_brokers import IS_QUICK, ours

import mqcore.spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

ROWS = 200_000 if IS_QUICK else 1_500_000
QUEUES = 4
# A JVM is slow until it has compiled what is hot, a dozen seconds long.
WARM_ROUNDS, ROUNDS = 4, 3
TRIGGERS = 20 if IS_QUICK else 100
TRIGGERS_S = 120.0


def timed(work: Callable[[], object]) -> float:
    """Returns the seconds of the middle run; those before the last ones warm."""
    found = []
    for _ in range(WARM_ROUNDS + ROUNDS):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return statistics.median(found[WARM_ROUNDS:])


def to_nothing(frame: DataFrame) -> None:
    """Reads everything and keeps nothing."""
    frame.write.format("noop").mode("overwrite").save()


def row(name: str, rows: int, seconds: float) -> None:
    """Prints one figure."""
    print(f"{name:<48} {rows / seconds:>12,.0f} rows/s", flush=True)


def of_ours(spark: SparkSession, namesrv: str, topic: str) -> None:
    """Measures our source."""
    options = {"namesrv": namesrv, "subscribe": topic}
    whole = spark.read.format("mqcore").options(**options)
    rows = whole.load().count()
    row("ours: count, all columns travel", rows, timed(lambda: whole.load().count()))
    narrow = spark.read.format("mqcore").options(**options).schema("queueId int")
    row("ours: count, one column", rows, timed(lambda: narrow.load().count()))
    row("ours: all columns to nothing", rows, timed(lambda: to_nothing(whole.load())))
    three = "queueId int, queueOffset bigint, body binary"
    part = spark.read.format("mqcore").options(**options).schema(three)
    row("ours: place and body to nothing", rows, timed(lambda: to_nothing(part.load())))


def triggers(frame: DataFrame, where: Path, *, are_empty: bool) -> float:
    """Returns the median milliseconds of triggers with a few rows each, or of such without any."""
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(where))
        .trigger(processingTime="0 seconds")
        .start()
    )
    deadline = time.monotonic() + TRIGGERS_S
    durations: dict[Any, int] = {}
    try:
        while len(durations) < TRIGGERS and time.monotonic() < deadline:
            for progress in query.recentProgress:
                found = json.loads(progress.json)
                if bool(found["numInputRows"]) != are_empty:
                    durations[found["timestamp"]] = found["durationMs"]["triggerExecution"]
            query.awaitTermination(1)
    finally:
        query.stop()
    return statistics.median(list(durations.values())[5:])


def trigger_rows(spark: SparkSession, namesrv: str, home: Path) -> None:
    """Measures triggers beside those of Spark's rate source."""

    def print_row(name: str, ms: float) -> None:
        print(f"{name:<48} {ms:>12,.0f} ms", flush=True)

    stream = spark.readStream.format("mqcore").option("namesrv", namesrv)
    stream = stream.option("subscribe", "rows")
    few = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", QUEUES)
    rate = spark.readStream.format("rate")
    print_row(
        "ours: a trigger with a row of each queue",
        triggers(few.load(), home / "c1", are_empty=False),
    )
    each_second = rate.option("rowsPerSecond", 1).load()
    print_row(
        "rate source: a trigger with rows", triggers(each_second, home / "c2", are_empty=False)
    )
    nothing = spark.readStream.format("mqcore").option("namesrv", namesrv)
    nothing = nothing.option("subscribe", "rows").option("startingOffsets", "latest")
    print_row("ours: an empty trigger", triggers(nothing.load(), home / "c3", are_empty=True))
    # Between two seconds it has none either.
    print_row("rate source: an empty trigger", triggers(each_second, home / "c4", are_empty=True))


def main() -> None:
    """Measures."""
    length = sys.argv[1] if len(sys.argv) > 1 else "1024"
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        settings: dict[str, object] = {
            "spark.ui.enabled": False,
            "spark.driver.memory": "2g",
            "spark.local.dir": home / "local",
            "spark.sql.warehouse.dir": home / "warehouse",
            "spark.sql.streaming.numRecentProgressUpdates": 2 * TRIGGERS,
            # Otherwise only every tenth second of triggers without rows is reported.
            "spark.sql.streaming.noDataProgressEventInterval": 0,
        }
        spark = mqcore.spark.session("source", master="local[2]", config=settings)
        spark.sparkContext.setLogLevel("ERROR")
        with ours(home / "ours", "ASYNC_FLUSH") as broker:
            broker.load("produce", "rows", "--size", length, "--count", ROWS, "-w", 64)
            of_ours(spark, broker.namesrv, "rows")
            trigger_rows(spark, broker.namesrv, home)
        spark.stop()


if __name__ == "__main__":
    main()
