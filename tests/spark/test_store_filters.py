"""Filters of Spark that a scan takes: the rows are those that Spark itself would have kept."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from golden_stores import V49_CLEAN
from mqcore.spark.options import OptionError
from mqcore.spark.store_source.reading import is_hidden
from spark.store_engine import plan, rows

Row = dict[str, Any]
DDL = (
    "topic string, tags string, queueId int, queueOffset bigint, physicalOffset bigint, "
    "storeTimestamp timestamp"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return V49_CLEAN.unpack(tmp_path_factory.mktemp("filters"))


def taken(root: Path, *filters: Filter, **options: object) -> tuple[list[Row], list[Filter]]:
    """Returns the rows of a reader that was asked to take filters, and what it left."""
    reader, partitions, _schema, left = plan(root, DDL, filters, pushdown=True, **options)
    found = [row for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]
    return found, left


MIDDLE_MS = V49_CLEAN.messages()[1_800]["store_timestamp"]
MIDDLE = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=MIDDLE_MS)
BETWEEN = MIDDLE + timedelta(microseconds=300)


@pytest.mark.parametrize(
    ("asked", "keeps"),
    [
        (EqualTo(("topic",), "GoldenKeys"), lambda row: row["topic"] == "GoldenKeys"),
        (In(("topic",), ("GoldenKeys", "x", None)), lambda row: row["topic"] == "GoldenKeys"),
        (EqualTo(("tags",), "delivered"), lambda row: row["tags"] == "delivered"),
        (In(("queueId",), (0, 2)), lambda row: row["queueId"] in (0, 2)),
        (EqualTo(("queueOffset",), 3), lambda row: row["queueOffset"] == 3),
        (GreaterThan(("queueOffset",), 3), lambda row: row["queueOffset"] > 3),
        (GreaterThanOrEqual(("queueOffset",), 3), lambda row: row["queueOffset"] >= 3),
        (LessThan(("QueueOffset",), 3), lambda row: row["queueOffset"] < 3),
        (LessThanOrEqual(("queueOffset",), 3), lambda row: row["queueOffset"] <= 3),
        (LessThan(("physicalOffset",), 900_000), lambda row: row["physicalOffset"] < 900_000),
        (GreaterThan(("physicalOffset",), 1_500_000), lambda r: r["physicalOffset"] > 1_500_000),
        *(
            (kind(("storeTimestamp",), moment), keeps)
            for moment in (MIDDLE, BETWEEN)
            for kind, keeps in (
                (EqualTo, lambda row, moment=moment: row["storeTimestamp"] == moment),
                (GreaterThan, lambda row, moment=moment: row["storeTimestamp"] > moment),
                (GreaterThanOrEqual, lambda row, moment=moment: row["storeTimestamp"] >= moment),
                (LessThan, lambda row, moment=moment: row["storeTimestamp"] < moment),
                (LessThanOrEqual, lambda row, moment=moment: row["storeTimestamp"] <= moment),
            )
        ),
        (IsNotNull(("topic",)), lambda _row: True),
    ],
)
def test_a_taken_filter_keeps_what_spark_would_keep(
    asked: Filter, keeps: Callable[[Row], bool], root: Path
) -> None:
    everything = rows(root, DDL)
    found, left = taken(root, asked)
    assert left == []
    assert found == [row for row in everything if keeps(row)]


@pytest.mark.parametrize(
    "asked",
    [
        Not(EqualTo(("topic",), "GoldenKeys")),
        StringStartsWith(("topic",), "Golden"),
        EqualTo(("flag",), 0),
        IsNotNull(("tags",)),
        GreaterThan(("tags",), "a"),
        EqualTo(("properties", "a"), "b"),
    ],
)
def test_what_is_not_taken_is_left_to_spark(asked: Filter, root: Path) -> None:
    found, left = taken(root, asked)
    assert left == [asked]
    assert found == rows(root, DDL)


def test_all_filters_hold_together_and_a_contradiction_reads_nothing(root: Path) -> None:
    both = (EqualTo(("topic",), "GoldenKeys"), LessThan(("queueOffset",), 5))
    found, _left = taken(root, *both)
    assert found
    assert all(row["topic"] == "GoldenKeys" and row["queueOffset"] < 5 for row in found)
    never = (EqualTo(("topic",), "GoldenKeys"), EqualTo(("topic",), "GoldenTags"))
    assert plan(root, DDL, never, pushdown=True)[1] == [None]
    assert taken(root, *never)[0] == []


def test_a_filter_brings_no_hidden_topic_back(root: Path) -> None:
    hidden = next(x["topic"] for x in V49_CLEAN.messages() if is_hidden(x["topic"]))
    asked = EqualTo(("topic",), hidden)
    assert taken(root, asked)[0] == []
    assert taken(root, asked, includeUncommitted=True)[0] != []
    assert taken(root, asked, topics=hidden)[0] != []


def test_a_spark_without_filters_is_an_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("pyspark.sql.datasource.Filter")
    with pytest.raises(OptionError, match=r"needs PySpark 4\.1"):
        plan(root, DDL, pushdown=True)
