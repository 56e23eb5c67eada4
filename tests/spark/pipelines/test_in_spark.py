"""The pipelines inside Spark, over archives and plain DataFrames of the read schema."""

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mqcore import Message, Producer, Store
from mqcore.spark.pipelines.archive import archive, files_of
from mqcore.spark.pipelines.archive_directory import ArchiveDirectory
from mqcore.spark.pipelines.compact import compact, compacted
from mqcore.spark.pipelines.comparison import ORIGIN_ID
from mqcore.spark.pipelines.enrich import enrich, enriched
from mqcore.spark.pipelines.errors import ArchiveError, PipelineError, PipelineSettingError
from mqcore.spark.pipelines.inputs import archive_frame
from mqcore.spark.pipelines.part_writer import write_parts
from mqcore.spark.pipelines.replay import replay, replayed_rows
from mqcore.spark.pipelines.report import report, traffic_of
from mqcore.spark.pipelines.running import run
from mqcore.spark.pipelines.spans import Span
from mqcore.spark.pipelines.verify import verify
from mqcore.testing import Broker
from small_store import SMALL, filled
from spark.pipelines.rows import BEGIN, batch, row


def frame(spark: SparkSession, rows: Sequence[dict[str, object]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_batches([batch(rows)]))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the archive of some rows."""
    target = tmp_path_factory.mktemp("archive") / "50% of it"
    archive = ArchiveDirectory(target)
    rows = [row(n, topic=f"%RETRY%{n % 2}" if n % 4 == 1 else "2013") for n in range(400)]
    spans = [Span("store:s", 0, 9)]
    archive.commit(spans, write_parts(archive.files, spans, [batch(rows)]), now_ms=1)
    return target


def test_a_store_is_archived_by_tasks_and_verified(spark: SparkSession, tmp_path: Path) -> None:
    with Store(tmp_path / "store", config=SMALL) as opened:
        filled(opened, 2_000, queues=4)
    source, target = f"store:{tmp_path / 'store'}", str(tmp_path / "a")
    done = archive(spark, source, target, split_bytes=1 << 20)
    assert (done.rows, done.commits, done.exit_code) == (2_000, 1, 0)
    assert archive(spark, source, target).commits == 0
    same = verify(spark, source, f"archive:{target}")
    assert (same.left_rows, same.right_rows, same.exit_code) == (2_000, 2_000, 0)
    assert same.lines()[-1] == "both hold the same messages"


def test_a_task_that_fails_is_reported_in_a_sentence_and_commits_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Store(tmp_path / "store", config=SMALL) as opened:
        filled(opened, 100)
    segment = min((tmp_path / "store" / "commitlog").iterdir())
    content = bytearray(segment.read_bytes())
    content[5_000] ^= 0xFF
    segment.write_bytes(content)
    arguments = {"source": f"store:{tmp_path / 'store'}", "target": str(tmp_path / "a")}
    with pytest.raises(PipelineError, match=r"^archive: /.* of the log: ") as refused:
        run(spark, "archive", arguments)
    assert "\n" not in str(refused.value)
    assert ArchiveDirectory(tmp_path / "a").manifest().commits == []


def test_only_manifested_files_are_read_and_topics_come_back(
    spark: SparkSession, small: Path
) -> None:
    stray = next(small.rglob("*.parquet"))
    (stray.parent / "stray.parquet").write_bytes(stray.read_bytes())
    rows = archive_frame(spark, str(small))
    counted = {
        (one["topic"], str(one["dt"])): one["count"]
        for one in rows.groupBy("topic", "dt").count().collect()
    }
    assert counted == {("2013", "2026-11-22"): 300, ("%RETRY%1", "2026-11-22"): 100}
    one = archive_frame(spark, str(small), ["msgId", "topic"], topics=["%RETRY%1"])
    assert (one.columns, one.count()) == (["msgId", "topic"], 100)
    with pytest.raises(ArchiveError, match="is no archive"):
        archive_frame(spark, str(small / "none"))


def test_what_differs_is_reported_with_its_physical_offset(
    spark: SparkSession, small: Path
) -> None:
    left = archive_frame(spark, str(small)).drop("dt")
    changed = left.where("physicalOffset <> 1200").withColumn(
        "tags", F.when(F.col("physicalOffset") == 2_400, F.lit("b")).otherwise(F.col("tags"))
    )
    right = changed.unionAll(changed.where("physicalOffset = 3600")).unionAll(
        left.where("physicalOffset = 0").withColumn("queueOffset", F.lit(999).cast("bigint"))
    )
    found = verify(spark, f"archive:{small}", right)
    host = "127.0.0.1:10911"
    assert {str(one) for one in found.findings} == {
        f"missing on the right: 2013 {host} 0 1",
        f"only on the right: 2013 {host} 0 999",
        f"differing: 2013 {host} 0 2 and 2013 {host} 0 2",
        f"doubled: 2013 {host} 0 3: 1 times on the left, 2 times on the right",
    }
    assert (found.left_rows, found.right_rows, found.exit_code) == (400, 401, 1)
    assert found.lines()[-1] == ("they differ: 1 differing, 1 doubled, 1 missing, 1 unexpected")


def test_only_what_both_sides_can_have_is_compared(spark: SparkSession, small: Path) -> None:
    left = archive_frame(spark, str(small))
    later = left.where("queueOffset >= 10 and queueId < 3")
    earlier = left.where("queueOffset < 90")
    found = verify(spark, earlier, later, common_range=True)
    assert (found.left_rows, found.right_rows) == (240, 240)
    assert found.is_equal


def test_nulls_do_not_hide_a_difference(spark: SparkSession) -> None:
    one = frame(spark, [row(1, tags="x", keys=None)])
    other = frame(spark, [row(1, tags=None, keys="x")])
    assert verify(spark, one, other).counts == {"differing": 1}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"by": "luck"}, "place or origin"),
        ({"by": "origin", "common_range": True}, "compares offsets"),
    ],
)
def test_settings_that_contradict_are_refused(
    spark: SparkSession, settings: dict[str, str | bool], expected: str
) -> None:
    with pytest.raises(PipelineSettingError, match=expected):
        verify(spark, "archive:/a", "archive:/b", **settings)  # type: ignore[arg-type]
    with pytest.raises(PipelineSettingError, match="topic:NAME"):
        verify(spark, "/a", "archive:/b")


def test_replayed_rows_carry_their_origin_and_lose_what_the_client_sets(
    spark: SparkSession, small: Path
) -> None:
    rows = archive_frame(spark, str(small)).drop("dt")
    sent = replayed_rows(rows, {"2013": "again"}, queues=3)
    first = sent.where("fromOffset = 0 and from.queueId = 3").collect()[0]
    assert (first["topic"], first["queueId"], first["keys"]) == ("again", 0, "key-3")
    assert first["properties"] == {"colour": "red", ORIGIN_ID: f"ID{3:028d}"}
    again = rows.withColumn("properties", F.create_map(F.lit(ORIGIN_ID), F.col("msgId")))
    moved = again.withColumns(
        {"msgId": F.lit("new"), "topic": F.lit("again"), "queueOffset": F.col("queueOffset") + 7}
    )
    assert verify(spark, rows, moved, by="origin").is_equal
    counted = replay(
        spark, f"archive:{small}", target_namesrv="h:1", topic_map={"2013": "again"}, dry_run=True
    )
    assert [(one.topic, one.target, one.messages) for one in counted.topics] == [
        ("%RETRY%1", "%RETRY%1", 100),
        ("2013", "again", 300),
    ]


def test_a_topic_is_not_sent_to_itself(spark: SparkSession) -> None:
    with pytest.raises(PipelineSettingError, match="topic_map"):
        replay(spark, "topic:a", namesrv="h:1", target_namesrv="h:1")


def test_the_last_value_of_each_key_stays(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row(n) for n in range(100)]
    rows.append(row(100, body=b"", bodyLength=0, keys="key-3"))
    # The same time, a later place.
    rows.append(row(101, keys="key-4", storeTimestamp=rows[94]["storeTimestamp"]))
    rows.append(row(102, keys=None))
    found = {one["key"]: one["body"] for one in compacted(frame(spark, rows)).collect()}
    expected = {f"key-{n}": f"body {90 + n}".encode() for n in range(10) if n != 3}
    assert found == expected | {"key-4": b"body 101"}
    done = compact(spark, frame(spark, rows), str(tmp_path / "c"), key="keys")
    assert done.keys == 9
    with pytest.raises(PipelineSettingError, match="property:NAME"):
        compact(spark, frame(spark, rows), str(tmp_path / "d"), key="colour")
    assert compact(spark, frame(spark, []), str(tmp_path / "none")).keys == 0
    by_property = compacted(frame(spark, rows), "property:colour").collect()
    assert [one["key"] for one in by_property] == ["red"]


def test_a_report_counts_what_is_there(spark: SparkSession, small: Path, tmp_path: Path) -> None:
    done = report(spark, f"archive:{small}", str(tmp_path), title="A <b>title</b>")
    traffic = done.traffic
    assert (traffic.messages, traffic.topics) == (400, ["2013", "%RETRY%1"])
    assert sum(one.messages for one in traffic.slices) == 400
    assert sum(one.messages for one in traffic.sizes) == 400
    assert {one.bound_bytes for one in traffic.sizes} == {8}
    assert {(one.median_ms, one.p99_ms, one.max_ms) for one in traffic.slices} == {(7.0, 7.0, 7.0)}
    assert [(one.queue_id, one.messages, one.last_offset) for one in traffic.queues] == [
        (1, 100, 99),
        (0, 100, 99),
        (2, 100, 99),
        (3, 100, 99),
    ]
    page = (tmp_path / "report.html").read_text()
    assert "A &lt;b&gt;title&lt;/b&gt;" in page
    assert "<svg" in page
    assert pq.read_table(tmp_path / "slices.parquet").num_rows == len(traffic.slices)
    assert pq.read_table(tmp_path / "queues.parquet").num_rows == 4


def test_a_report_of_nothing_is_a_page_too(spark: SparkSession, tmp_path: Path) -> None:
    done = report(spark, frame(spark, []), str(tmp_path))
    assert done.traffic.messages == 0
    assert "no messages" in (tmp_path / "report.html").read_text()


def test_slices_are_of_the_span_asked_for(spark: SparkSession) -> None:
    late = [row(n, storeTimestamp=BEGIN + timedelta(minutes=n)) for n in range(180)]
    slices = traffic_of(frame(spark, late), bucket_ms=3_600_000).slices
    assert [one.messages for one in slices] == [60, 60, 60]


def test_a_topic_is_enriched_from_where_it_was(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    (tmp_path / "names.csv").write_text("carrier,name\nUA,United\n")
    broker.create_topic("to-enrich")
    settings: dict[str, Any] = {
        "namesrv": broker.namesrv,
        "table": str(tmp_path / "names.csv"),
        "on": ["carrier"],
        "schema": "id INT, carrier STRING",
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    target = str(tmp_path / "out")
    with Producer(broker.namesrv) as producer:
        for number, carrier in enumerate(("UA", "DL")):
            body = json.dumps({"id": number, "carrier": carrier})
            producer.send(Message("to-enrich", body))
            done = enrich(spark, "topic:to-enrich", target, **settings)
            assert done.rows == 1
    found = spark.read.parquet(target).orderBy("id").collect()
    assert [(one["id"], one["name"]) for one in found] == [(0, "United"), (1, None)]
    with pytest.raises(PipelineSettingError, match="a stream comes from topic:NAME"):
        enrich(spark, "store:/s", target, **settings)


def test_messages_get_the_columns_of_a_table(spark: SparkSession) -> None:
    bodies = [b'{"id": 1, "carrier": "UA"}', b'{"id": 2, "carrier": "??"}', b"no json"]
    messages = frame(spark, [row(n, body=body) for n, body in enumerate(bodies)])
    table = spark.createDataFrame([("UA", "United")], "carrier string, name string")
    schema = "id INT, carrier STRING"
    found = enriched(messages, table, ["carrier"], schema).orderBy("id").collect()
    assert [(one["id"], one["carrier"], one["name"]) for one in found] == [
        (None, None, None),
        (1, "UA", "United"),
        (2, "??", None),
    ]
    with pytest.raises(PipelineSettingError, match="the table has only carrier, name"):
        enriched(messages, table, ["id"], schema)


def test_a_task_of_which_nothing_comes_back_is_no_end_of_a_round() -> None:
    done = [(1, "[]"), (0, "[]")]
    assert files_of(done, 2) == [[], []]
    with pytest.raises(PipelineError, match=r"1 of 3 tasks came to no end .*number 2"):
        files_of(done, 3)
