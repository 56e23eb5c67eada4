"""How fast Spark writes: our sink into our broker, beside `mqcore-load` and Spark's Kafka sink.

    spark_sink.py [ours] [kafka]

Local Spark of two cores, the broker on the same machine; rows are made by the JVM, with a key each.
Every figure is the best of three writes after one that warms up. Prints one JSON object per row.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import peer_brokers
from kafka import running_kafka
from peer_brokers import CACHE, IS_QUICK, fetched, ours

import mqcore.spark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

ROUNDS = 3
# Bytes of a body, and so many rows that a write takes some seconds.
SIZES = {200: 300_000 if IS_QUICK else 2_000_000, 1_024: 100_000 if IS_QUICK else 600_000}
# The newest that Maven Central has; its classes serve the releases after it too.
CONNECTOR = "4.2.0"
KAFKA_POM = Path(__file__).with_name("spark-kafka-pom.xml")
QUEUES = 4


def session(directory: Path, *, has_kafka: bool) -> SparkSession:
    """Returns a session of two cores."""
    settings: dict[str, object] = {
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.driver.memory": "2g",
        "spark.local.dir": directory / "local",
        "spark.sql.warehouse.dir": directory / "warehouse",
    }
    if has_kafka:
        jars = fetched(CONNECTOR, CACHE / f"spark-kafka-{CONNECTOR}", KAFKA_POM)
        settings["spark.jars"] = ",".join(map(str, sorted(jars.glob("*.jar"))))
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


def say(what: str, size_bytes: int, per_second: float, **more: object) -> None:
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
                say(f"mqcore-load, {kind}", size, report["messages_per_second"])
            made = rows(spark, count, size, "body", "keys")
            options = {"namesrv": peer.namesrv, "topic": f"sink{size}"}
            reached = rate(made, count, "mqcore", options)
            shares = {
                f"of_{kind}": round(reached / report["messages_per_second"], 2)
                for kind, report in loads.items()
            }
            say("sink into ours", size, reached, **shares)


def measure_kafka(spark: SparkSession, directory: Path) -> None:
    """Measures Spark's Kafka sink into one node."""
    with running_kafka(directory / "kafka") as kafka:
        for size, count in SIZES.items():
            topic = f"sink{size}"
            kafka.create(topic, QUEUES)
            made = rows(spark, count, size, "value", "key")
            options = {"kafka.bootstrap.servers": kafka.address, "topic": topic}
            say("sink into Kafka", size, rate(made, count, "kafka", options))


def main() -> None:
    """Measures what is asked for, or both."""
    asked = sys.argv[1:] or ["ours", "kafka"]
    with tempfile.TemporaryDirectory(dir=peer_brokers.TARGET) as scratch:
        spark = session(Path(scratch), has_kafka="kafka" in asked)
        if "ours" in asked:
            measure_ours(spark, Path(scratch))
        if "kafka" in asked:
            measure_kafka(spark, Path(scratch))
        spark.stop()


if __name__ == "__main__":
    main()
