"""Whole queries over stores: rows, pushed filters, splits, views and errors as Spark gives them."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

import mqcore.spark
from golden_stores import V49_CLEAN, GoldenStore
from mqcore import Store
from mqcore.spark.store_source.reading import is_hidden
from small_store import SMALL, filled

PAGE = Path(__file__).parents[2] / "docs" / "spark-store.md"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return V49_CLEAN.unpack(tmp_path_factory.mktemp("queries"))


@pytest.fixture
def reader(spark: SparkSession) -> DataFrameReader:
    """Returns a reader of stores."""
    mqcore.spark.register(spark)
    return spark.read.format("mqcore-store")


def test_counts_by_topic_are_those_of_the_manifest(reader: DataFrameReader, root: Path) -> None:
    found = reader.option("splitBytes", "300k").load(str(root)).groupBy("topic").count().collect()
    lines = [line for line in V49_CLEAN.messages() if not is_hidden(line["topic"])]
    assert {row["topic"]: row["count"] for row in found} == Counter(x["topic"] for x in lines)


def test_all_columns_and_properties_come_through(reader: DataFrameReader, root: Path) -> None:
    loaded = reader.options(includeProperties=True, includeUncommitted=True).load(str(root))
    found = loaded.orderBy("physicalOffset").collect()
    lines = V49_CLEAN.messages()
    assert [row.properties for row in found] == [line["properties"] for line in lines]
    assert [len(row.body) for row in found] == [line["body_length"] for line in lines]
    assert [row.tags for row in found] == [line["tags"] for line in lines]


def test_a_schema_is_the_projection(reader: DataFrameReader, root: Path) -> None:
    loaded = reader.schema("queueId int, TOPIC string").load(str(root))
    assert loaded.columns == ["queueId", "TOPIC"]
    lines = [line for line in V49_CLEAN.messages() if not is_hidden(line["topic"])]
    found = Counter((row["queueId"], row["TOPIC"]) for row in loaded.collect())
    assert found == Counter((line["queue_id"], line["topic"]) for line in lines)


def test_filters_are_pushed_where_spark_allows_it(
    spark: SparkSession, reader: DataFrameReader, root: Path
) -> None:
    asked = "topic = 'GoldenKeys' AND queueOffset < 5"
    plain = sorted(reader.load(str(root)).where(asked).collect())
    assert plain
    spark.conf.set(PUSHDOWN, "true")
    try:
        pushing = reader.option("pushdown", True).load(str(root)).where(asked)
        assert sorted(pushing.collect()) == plain
        nothing = reader.load(str(root)).where("topic = 'a' AND topic = 'b'")
        assert nothing.count() == 0
    finally:
        spark.conf.unset(PUSHDOWN)


def test_several_paths_are_one_frame(reader: DataFrameReader, root: Path, tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        filled(store, 25)
    one = reader.load(str(root)).count()
    assert reader.option("paths", json.dumps([str(root), str(tmp_path)])).load().count() == one + 25


def test_an_empty_store_is_an_empty_frame(reader: DataFrameReader, tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL):
        pass
    assert reader.load(str(tmp_path)).collect() == []


@pytest.mark.parametrize(
    ("options", "path", "why"),
    [
        ({}, "/absent/store", "PathError: /absent/store is not there"),
        ({"badRecord": "skip"}, None, "did you mean badRecords"),
    ],
)
def test_what_cannot_be_is_one_line_on_the_driver(
    options: dict[str, str], path: str | None, why: str, reader: DataFrameReader, root: Path
) -> None:
    with pytest.raises(PySparkException, match=why):
        reader.options(**options).load(path or str(root)).count()


def test_damage_names_its_physical_offset_in_the_query_that_fails(
    reader: DataFrameReader, unpacked: Callable[[GoldenStore], Path]
) -> None:
    damaged = unpacked(V49_CLEAN)
    bad = V49_CLEAN.messages()[7]["physical_offset"]
    with (damaged / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(bad + 4)
        file.write(b"\0\0\0\0")
    with pytest.raises(PySparkException, match=f"at {bad} of the log"):
        reader.load(str(damaged)).count()
    emitted = reader.option("badRecords", "emit").load(str(damaged)).where("_corrupt IS NOT NULL")
    assert [row.physicalOffset for row in emitted.collect()] == [bad]


def test_the_code_of_the_page_runs(
    spark: SparkSession, reader: DataFrameReader, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del reader  # The format is registered.
    found: dict[str, object] = {"spark": spark}
    text = PAGE.read_text(encoding="utf-8").replace("/data/store", str(root))
    text = text.replace("orders,payments", "GoldenKeys,GoldenTags")
    text = text.replace("2026-11-01", "2020-11-01")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), found)
    assert "Golden" in capsys.readouterr().out
    frame = found["frame"]
    assert isinstance(frame, DataFrame)
    assert {row.topic for row in frame.collect()} <= {"GoldenKeys", "GoldenTags"}
    assert frame.count() > 0
