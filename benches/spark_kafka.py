"""Spark 4.0 with our connector and with its own for Kafka: the same records, in one run.

    spark_kafka.py [BYTES]          the length of a body, 1,024 without

Spark 4.0 is the newest that has the Kafka connector complete on Maven Central. Where another one is
installed, 4.0 is put beside it first, once, and this script runs with that. Local Spark of two
cores, brokers on the same machine, one after the other. Each figure is the better of two runs after
one that warms; `ours/kafka` above 1 is for us.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import peer_brokers
from kafka import running_kafka
from peer_brokers import CACHE, IS_QUICK, fetched, ours

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

SPARK = "4.0.0"
POM = Path(__file__).with_name("spark-kafka-pom.xml")
PYTHON = Path(__file__).parents[1] / "python"
ROWS = 100_000 if IS_QUICK else 800_000
QUEUES = 4
ROUNDS = 2


def run_with_spark() -> None:
    """Runs this script with Spark 4.0, where it is not what is installed."""
    import pyspark

    if pyspark.__version__ == SPARK:
        return
    folder = CACHE / f"pyspark-{SPARK}"
    if not (folder / "pyspark" / "jars").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
        subprocess.run([*command, f"pyspark=={SPARK}"], check=True)
    paths = [str(folder), str(PYTHON), os.environ.get("PYTHONPATH", "")]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("SPARK_HOME")
    }
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    if os.environ.get("MQCORE_BENCH_SPARK") == SPARK:
        raise RuntimeError(f"PySpark {SPARK} is at {folder}, and {pyspark.__version__} is imported")
    environment["MQCORE_BENCH_SPARK"] = SPARK
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def session(directory: Path) -> SparkSession:
    """Returns a session of two cores with the Kafka connector."""
    import mqcore.spark

    jars = fetched(f"Spark's Kafka connector {SPARK}", CACHE / f"spark-kafka-{SPARK}", POM)
    settings: dict[str, object] = {
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.driver.memory": "2g",
        "spark.local.dir": directory / "local",
        "spark.sql.warehouse.dir": directory / "warehouse",
        "spark.jars": ",".join(map(str, sorted(jars.glob("*.jar")))),
    }
    spark = mqcore.spark.session("beside kafka", master="local[2]", config=settings)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def best(work: Callable[[], object]) -> float:
    """Returns the seconds of the best of some runs after one that warms."""
    seconds = []
    for _ in range(1 + ROUNDS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds[1:])


def rows(spark: SparkSession, size_bytes: int, body: str, key: str) -> DataFrame:
    """Returns the records: made by the JVM, a key each."""
    return spark.range(0, ROWS, 1, 2).selectExpr(
        f"rpad(cast(id AS string), {size_bytes}, 'x') AS {body}", f"cast(id AS string) AS {key}"
    )


def to_nothing(frame: DataFrame) -> None:
    """Reads everything and keeps nothing."""
    frame.write.format("noop").mode("overwrite").save()


def measured(
    made: DataFrame,
    form: str,
    write: Mapping[str, Any],
    read: Callable[[], DataFrame],
    empty: Callable[[], object],
) -> dict[str, float]:
    """Returns rows per second of one connector.

    Args:
        made: The records.
        form: The connector's name.
        write: Options of the sink.
        read: Returns the records as they are read.
        empty: Makes the topic that is read anew, before it is filled once.
    """

    def send() -> None:
        made.write.format(form).options(**write).mode("append").save()

    found = {"sink": ROWS / best(send)}
    empty()
    send()
    count = read().count()
    if count != ROWS:
        raise RuntimeError(f"{form}: {count} rows are read of {ROWS}")
    found["batch count"] = ROWS / best(lambda: read().count())
    found["all columns to noop"] = ROWS / best(lambda: to_nothing(read()))
    return found


def of_ours(spark: SparkSession, home: Path, size_bytes: int) -> dict[str, float]:
    """Measures our connector."""
    with ours(home / "ours", "ASYNC_FLUSH") as peer:
        write = {"namesrv": peer.namesrv, "topic": "rows"}
        made = rows(spark, size_bytes, "body", "keys")

        def read() -> DataFrame:
            options = {"namesrv": peer.namesrv, "subscribe": "fresh"}
            return spark.read.format("mqcore").options(**options).load()

        def fresh() -> None:
            write["topic"] = "fresh"

        return measured(made, "mqcore", write, read, fresh)


def of_kafka(spark: SparkSession, home: Path, size_bytes: int) -> dict[str, float]:
    """Measures Spark's own connector for Kafka."""
    with running_kafka(home / "kafka") as kafka:
        kafka.create("rows", QUEUES)
        kafka.create("fresh", QUEUES)
        write = {"kafka.bootstrap.servers": kafka.address, "topic": "rows"}
        made = rows(spark, size_bytes, "value", "key")

        def read() -> DataFrame:
            options = {"kafka.bootstrap.servers": kafka.address, "subscribe": "fresh"}
            return spark.read.format("kafka").options(**options).load()

        def fresh() -> None:
            write["topic"] = "fresh"

        return measured(made, "kafka", write, read, fresh)


def main() -> None:
    """Measures both, and prints each figure beside the other's."""
    run_with_spark()
    size_bytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1_024
    with tempfile.TemporaryDirectory(dir=peer_brokers.TARGET) as scratch:
        home = Path(scratch)
        spark = session(home)
        mine, theirs = of_ours(spark, home, size_bytes), of_kafka(spark, home, size_bytes)
        spark.stop()
    print(f"Spark {SPARK}, local[2], {ROWS:,} rows of {size_bytes:,} B, rows per second")
    print(f"{'':<22} {'ours':>12} {'kafka':>12} {'ours/kafka':>12}")
    for name, rate in mine.items():
        print(f"{name:<22} {rate:>12,.0f} {theirs[name]:>12,.0f} {rate / theirs[name]:>12.2f}")


if __name__ == "__main__":
    main()
