"""How fast Spark writes: our sink into our broker.

    spark_sink.py [batch] [deliveries]

`batch` is compared with `mqcore-load`, `deliveries` are streaming queries at least once and exactly
once. Beside Spark's Kafka sink: `spark_kafka.py`. Local Spark of two cores, the broker on the same
machine; rows have a key each. Every figure is the best of three writes after one that warms up.
Prints one JSON object per row.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import peer_brokers
from peer_brokers import IS_QUICK, ours

import mqcore.spark
from mqcore.admin import Admin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

ROUNDS = 3
# Bytes of a body, and so many rows that a write takes some seconds.
SIZES = {200: 300_000 if IS_QUICK else 2_000_000, 1_024: 100_000 if IS_QUICK else 600_000}
QUEUES = 4
DECISIONS = "MQCORE_SPARK_DECISIONS"
# Batches of a streaming query, and files of each: a task takes one.
EPOCHS = 4
FILES_OF_EPOCH = 2


def session(directory: Path) -> SparkSession:
    """Returns a session of two cores."""
    settings: dict[str, object] = {
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.driver.memory": "2g",
        "spark.local.dir": directory / "local",
        "spark.sql.warehouse.dir": directory / "warehouse",
    }
    spark = mqcore.spark.session("sink bench", master="local[2]", config=settings)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rows(spark: SparkSession, count: int, size_bytes: int, body: str, key: str) -> DataFrame:
    """Returns rows whose columns have these names."""
    return spark.range(0, count, 1, 2).selectExpr(
        f"rpad(cast(id AS string), {size_bytes}, 'x') AS {body}", f"cast(id AS string) AS {key}"
    )


def rate(made: DataFrame, count: int, form: str, options: Mapping[str, Any]) -> float:
    """Returns rows per second of the best round."""
    best = float("inf")
    for _ in range(1 + ROUNDS):
        started = time.perf_counter()
        made.write.format(form).options(**options).mode("append").save()
        best = min(best, time.perf_counter() - started)
    return count / best


def print_row(what: str, size_bytes: int, per_second: float, **more: object) -> None:
    """Prints one row."""
    megabytes = per_second * size_bytes / 1e6
    row = {"row": what, "body_bytes": size_bytes, "rows_per_second": round(per_second)}
    print(json.dumps({**row, "mb_per_second": round(megabytes), **more}), flush=True)


def measure_ours(spark: SparkSession, directory: Path) -> None:
    """Measures our sink beside what the load generator reaches."""
    with ours(directory / "ours", "ASYNC_FLUSH") as peer:
        for size, count in SIZES.items():
            batch = max(1, (64 << 10) // size)
            single = peer.produce(f"single{size}", "-c", 8, "-w", 32, "--size", size)
            many = peer.produce(f"many{size}", "-c", 4, "-w", 4, "--size", size, "--batch", batch)
            loads = {"single": single, "batches": many}
            for kind, report in loads.items():
                print_row(f"mqcore-load, {kind}", size, report["messages_per_second"])
            made = rows(spark, count, size, "body", "keys")
            options = {"namesrv": peer.namesrv, "topic": f"sink{size}"}
            reached = rate(made, count, "mqcore", options)
            shares = {
                f"of_{kind}": round(reached / report["messages_per_second"], 2)
                for kind, report in loads.items()
            }
            print_row("sink into ours", size, reached, **shares)


def measure_deliveries(spark: SparkSession, directory: Path) -> None:
    """Measures streaming queries with both deliveries, in turn: the same files, the same broker."""
    with ours(directory / "deliveries", "ASYNC_FLUSH") as peer:
        create(peer.namesrv, DECISIONS, 1)
        for size, count in SIZES.items():
            files = str(directory / f"files{size}")
            made = rows(spark, count, size, "body", "keys").repartition(EPOCHS * FILES_OF_EPOCH)
            made.write.parquet(files)
            create(peer.namesrv, f"stream{size}", QUEUES)
            best: dict[str, float] = {}
            for number in range(1 + ROUNDS):
                for delivery in ("at-least-once", "exactly-once"):
                    checkpoint = directory / f"checkpoint-{size}-{delivery}-{number}"
                    options = {
                        "namesrv": peer.namesrv,
                        "topic": f"stream{size}",
                        "delivery": delivery,
                        "checkpointLocation": checkpoint,
                    }
                    seconds = stream_seconds(spark, files, options)
                    if number:
                        best[delivery] = min(best.get(delivery, seconds), seconds)
            plain = count / best["at-least-once"]
            exact = count / best["exactly-once"]
            print_row("stream, at least once", size, plain)
            print_row("stream, exactly once", size, exact, of_at_least_once=round(exact / plain, 2))


def create(namesrv: str, topic: str, queues: int) -> None:
    """Makes a topic."""

    async def made() -> None:
        async with Admin(namesrv) as admin:
            await admin.topics.create(topic, queues=queues)

    asyncio.run(made())


def stream_seconds(spark: SparkSession, files: str, options: Mapping[str, Any]) -> float:
    """Returns how long the triggers of a query took that writes all files."""
    read = spark.readStream.schema("body string, keys string")
    frame = read.option("maxFilesPerTrigger", FILES_OF_EPOCH).parquet(files)
    query = frame.writeStream.format("mqcore").options(**options).trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [json.loads(each.json) for each in query.recentProgress]
    return float(sum(each["durationMs"]["triggerExecution"] for each in progress)) / 1_000


def main() -> None:
    """Measures what is asked for, or both."""
    asked = sys.argv[1:] or ["batch", "deliveries"]
    with tempfile.TemporaryDirectory(dir=peer_brokers.TARGET) as scratch:
        spark = session(Path(scratch))
        if "batch" in asked:
            measure_ours(spark, Path(scratch))
        if "deliveries" in asked:
            measure_deliveries(spark, Path(scratch))
        spark.stop()


if __name__ == "__main__":
    main()
