"""Real data: flights through topic, stream and Parquet are counted as in the CSV.

The broker is killed while the query runs, and the query is stopped and started again from its
checkpoint.
"""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from mqcore import Message, Producer
from mqcore.spark.pipelines.archive import archive
from mqcore.spark.pipelines.verify import verify
from mqcore.testing import Broker

ROOT = Path(__file__).parents[3]
# Every so many of the 336,776 flights: all carriers and months are among them.
SAMPLE = 60
WAIT_S = 120


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, ModuleType]]:
    """Returns the demonstration's scripts, which import one another by their names."""
    added = [str(ROOT / "scripts"), str(ROOT / "examples")]
    sys.path[:0] = added
    try:
        names = ("flights", "demo_spark", "flight_delays")
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path[:] = [path for path in sys.path if path not in added]


def publish(producer: Producer, rows: list[dict[str, str]], first: int) -> None:
    for number, row in enumerate(rows, start=first):
        body = json.dumps({"number": number, **row}, separators=(",", ":"))
        producer.send(Message("flights", body, tags=row["carrier"]))


def flights_arrive(
    spark: SparkSession, modules: dict[str, ModuleType], rows: list[dict[str, str]], where: Path
) -> Any:
    """Lets flights arrive through a kill and a restart, and returns what Parquet holds."""
    example = modules["flight_delays"]
    half = len(rows) // 2
    with Broker() as broker, Producer(broker.namesrv, retries=20) as producer:
        broker.create_topic("flights")
        publish(producer, rows[:half], 0)
        query = (
            example.flights(spark, broker.namesrv)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(where / "checkpoint"))
            .start(str(where / "flights"))
        )
        query.processAllAvailable()
        broker.kill()
        broker.restart()
        publish(producer, rows[half : half + half // 2], half)
        # Wherever it is: between batches, in one, or ended by the kill.
        query.stop()
        with suppress(StreamingQueryException):
            query.awaitTermination(WAIT_S)
        publish(producer, rows[half + half // 2 :], half + half // 2)
        # What the producer sends again counts once.
        publish(producer, rows[:10], 0)
        example.write(spark, broker.namesrv, str(where))
        done = archive(spark, "topic:flights", str(where / "archive"), namesrv=broker.namesrv)
        assert done.rows >= len(rows) + 10
        found = verify(
            spark, "topic:flights", f"archive:{where / 'archive'}", namesrv=broker.namesrv
        )
        assert found.is_equal, found.lines()
    return spark.read.parquet(str(where / "flights"))


def test_a_sample_of_the_flights_counts_as_in_the_csv(
    spark: SparkSession, modules: dict[str, ModuleType], tmp_path: Path
) -> None:
    rows = modules["flights"].flights()[::SAMPLE]
    found = flights_arrive(spark, modules, rows, tmp_path)
    demo = modules["demo_spark"]
    assert demo.sums_of_rows(found) == demo.sums_of_csv(rows)


@pytest.mark.matrix
def test_all_flights_count_as_in_the_csv(
    spark: SparkSession, modules: dict[str, ModuleType], tmp_path: Path
) -> None:
    rows = modules["flights"].flights()
    found = flights_arrive(spark, modules, rows, tmp_path)
    demo = modules["demo_spark"]
    assert demo.sums_of_rows(found) == demo.sums_of_csv(rows)
    page = demo.write_page(found, demo.delays(found), tmp_path / "report")
    assert "<svg" in page.read_text()


@pytest.mark.matrix
def test_the_example_runs_as_a_script(tmp_path: Path) -> None:
    row = {"carrier": "UA", "origin": "EWR", "month": "1", "hour": "5", "distance": "1400"}
    rows = [{**row, "dep_delay": delay} for delay in ("2", "", "-4")]
    with Broker() as broker, Producer(broker.namesrv) as producer:
        publish(producer, rows, 0)
        script = str(ROOT / "examples" / "flight_delays.py")
        command = [sys.executable, script, broker.namesrv, str(tmp_path)]
        environment = os.environ | {"SPARK_LOCAL_DIRS": str(tmp_path / "local")}
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
        )
    assert done.returncode == 0, done.stderr
    assert "|     UA|      3|          -1.0|" in done.stdout
