"""Reading topics by Spark: `spark_source.py [BYTES]`, the length of a body, 1,024 without.

One broker and one Spark session in local[2] on the same machine. Rows per second of a count, of all
columns into nothing, and of few; the second of two runs of each. Also the time of triggers with
few rows beside those of Spark's rate source.
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
ROUNDS = 2
TRIGGERS = 20 if IS_QUICK else 100
TRIGGERS_S = 120.0


def timed(work: Callable[[], object]) -> float:
    """Returns the seconds of the last of some runs: the first one warms."""
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        took = time.perf_counter() - began
    return took


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


def small_triggers(frame: DataFrame, where: Path) -> float:
    """Returns the median milliseconds of triggers that have a few rows each."""
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
                if found["numInputRows"]:
                    durations[found["batchId"]] = found["durationMs"]["triggerExecution"]
            query.awaitTermination(1)
    finally:
        query.stop()
    return statistics.median(list(durations.values())[5:])


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
        }
        spark = mqcore.spark.session("source", master="local[2]", config=settings)
        spark.sparkContext.setLogLevel("ERROR")
        with ours(home / "ours", "ASYNC_FLUSH") as broker:
            broker.load("produce", "rows", "--size", length, "--count", ROWS, "-w", 64)
            of_ours(spark, broker.namesrv, "rows")
            stream = spark.readStream.format("mqcore").option("namesrv", broker.namesrv)
            stream = stream.option("subscribe", "rows").option("startingOffsets", "earliest")
            frame = stream.option("maxOffsetsPerTrigger", QUEUES).load()
            ms = small_triggers(frame, home / "c1")
            print(f"{'ours: a trigger with a row of each queue':<48} {ms:>12,.0f} ms", flush=True)
        rate = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
        ms = small_triggers(rate, home / "c2")
        print(f"{'rate source: a trigger':<48} {ms:>12,.0f} ms", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
