"""Spark goes on from a checkpoint that mqcore 0.1 wrote: source and exactly-once sink."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mqcore.spark.pipelines import verify
from mqcore.testing import Broker
from own_golden import cases
from own_golden.streaming import COUNT, SETTINGS, copies, offset_log, run_query, send

pytest.importorskip("pyspark.sql.streaming.datasource", reason="streams need Spark 4.2")

ADDED = 50


def test_a_query_goes_on_and_every_row_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    root = cases.unpack(cases.STREAM, tmp_path)
    known = cases.contents(cases.STREAM)["offsets"]
    with Broker(SETTINGS, directory=root / "store") as broker:
        assert copies(broker) == Counter(range(COUNT))
        send(broker, COUNT, ADDED)
        query = run_query(spark, broker, root / "checkpoint")
        assert copies(broker) == Counter(range(COUNT + ADDED))
        assert query.recentProgress[0].batchId == len(known)
    log = offset_log(root / "checkpoint")
    assert log[: len(known)] == known, "what is done is not done again"
    assert sum(log[-1]["q"].values()) == COUNT + ADDED


def test_an_archive_agrees_with_its_store(spark: SparkSession, tmp_path: Path) -> None:
    store = cases.unpack(cases.CLEAN, tmp_path)
    archive = cases.unpack(cases.ARCHIVE, tmp_path)
    found = verify(spark, f"store:{store}", f"archive:{archive}", common_range=True)
    assert not found.findings
