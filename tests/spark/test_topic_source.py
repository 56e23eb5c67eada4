"""Topics as DataFrames, in Spark itself: projection, filters, errors, broken streams."""

import json
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import mqcore
import mqcore.spark
from mqcore.spark.lag_listener import LagListener
from mqcore.testing import Broker

needs_limits = pytest.mark.skipif(
    find_spec("pyspark.sql.streaming.datasource") is None,
    reason="limits per trigger of Python sources came with Spark 4.2",
)
COUNT = 400
QUERY_S = 90


def filled(
    broker: Broker, topic: str, first: int, count: int, *, queue_at: int | None = None
) -> None:
    """Sends numbered messages, to one queue where it is given; returns when they can be read."""
    with mqcore.Producer(broker.namesrv) as producer:
        queue = None if queue_at is None else sorted(producer.queues(topic))[queue_at]
        tag = "even" if first % 2 == 0 else "odd"
        for start in range(first, first + count, 100):
            end = min(start + 100, first + count)
            producer.send_batch(
                [mqcore.Message(topic, b"%d" % n, tags=tag) for n in range(start, end)],
                queue=queue,
            )
    broker.messages(topic)


@pytest.fixture
def topic(broker: Broker) -> str:
    """Returns a topic of four queues that only this test uses."""
    name = f"s{uuid.uuid4().hex[:12]}"
    broker.create_topic(name, queues=4)
    return name


@pytest.fixture
def orders(broker: Broker, topic: str) -> str:
    """Returns a topic with messages in all queues."""
    for part in range(8):
        filled(broker, topic, part * 50, 50, queue_at=part % 4)
    return topic


def reading(
    spark: SparkSession, broker: Broker, topic: str, schema: str | None = None
) -> DataFrame:
    read = spark.read.format("mqcore").option("namesrv", broker.namesrv).option("subscribe", topic)
    return (read.schema(schema) if schema else read).load()


def test_a_topic_is_a_dataframe(spark: SparkSession, broker: Broker, orders: str) -> None:
    frame = reading(spark, broker, orders)
    assert frame.count() == COUNT
    found = frame.select(f.col("body").cast("string").cast("int").alias("n"), "queueId").collect()
    assert Counter(row.n for row in found) == Counter(range(400))
    with_map = (
        spark.read.format("mqcore")
        .options(namesrv=broker.namesrv, subscribe=orders, includeProperties="true")
        .load()
    )
    assert with_map.select(f.col("properties")["TAGS"].alias("tag")).distinct().count() == 1


def test_a_schema_is_the_projection(spark: SparkSession, broker: Broker, orders: str) -> None:
    frame = reading(spark, broker, orders, "queueOffset bigint, QUEUEID int")
    assert frame.columns == ["queueOffset", "QUEUEID"]
    by_queue = frame.groupBy("queueId").agg(f.max("queueOffset").alias("last")).collect()
    assert sum(row.last + 1 for row in by_queue) == COUNT


def test_filters_are_pushed_only_when_asked(
    spark: SparkSession, broker: Broker, orders: str
) -> None:
    read = spark.read.format("mqcore").options(
        namesrv=broker.namesrv, subscribe=orders, pushdown="true"
    )
    with pytest.raises(PySparkException, match=r"filterPushdown\.enabled"):
        read.load().filter("queueId = 2").count()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", True)
    try:
        whole = reading(spark, broker, orders).filter("queueId in (1, 2) and queueOffset < 30")
        narrow = read.load().filter("queueId in (1, 2) and queueOffset < 30")
        assert narrow.count() == whole.count() == 60
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"subscrib": "t"}, "did you mean subscribe"),
        ({"subscribe": "nosuchtopic"}, "topic nosuchtopic is not known"),
        ({"subscribe": "t", "namesrv": "127.0.0.1:1", "retries": "0"}, "no name server of"),
        ({"subscribe": "t", "startingOffsets": "latest"}, "begins at latest has no rows"),
    ],
)
def test_bad_input_is_one_clear_error_on_the_driver(
    spark: SparkSession, broker: Broker, options: dict[str, str], expected: str
) -> None:
    read = spark.read.format("mqcore").options(**{"namesrv": broker.namesrv} | options)
    with pytest.raises(PySparkException, match=expected):
        read.load().count()


def test_an_unknown_column_names_the_nearest(
    spark: SparkSession, broker: Broker, orders: str
) -> None:
    with pytest.raises(PySparkException, match="did you mean queueId"):
        reading(spark, broker, orders, "queueIt int").count()


def streaming(spark: SparkSession, namesrv: str, topic: str, **options: str) -> DataFrame:
    read = spark.readStream.format("mqcore").options(
        namesrv=namesrv, subscribe=topic, startingOffsets="earliest", **options
    )
    return read.schema("body binary, queueId int, queueOffset bigint").load()


def to_parquet(frame: DataFrame, where: Path, *, available_now: bool) -> StreamingQuery:
    write = frame.writeStream.format("parquet").option("path", str(where / "rows"))
    write = write.option("checkpointLocation", str(where / "checkpoint"))
    if available_now:
        return write.trigger(availableNow=True).start()
    return write.trigger(processingTime="0 seconds").start()


def numbers(spark: SparkSession, where: Path) -> Counter[int]:
    frame = spark.read.parquet(str(where / "rows"))
    return Counter(int(row.body) for row in frame.select("body").collect())


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """Returns a broker that a test may kill."""
    with Broker() as started:
        started.create_topic("flights", queues=4)
        yield started


@needs_limits
def test_a_killed_broker_and_a_restarted_query_give_each_row_once(
    spark: SparkSession, own_broker: Broker, tmp_path: Path
) -> None:
    limits = {"maxOffsetsPerTrigger": "150", "retries": "0"}
    filled(own_broker, "flights", 0, 200)
    frame = streaming(spark, own_broker.namesrv, "flights", **limits)
    query = to_parquet(frame, tmp_path, available_now=False)
    query.processAllAvailable()
    own_broker.kill()
    with pytest.raises(PySparkException):
        query.awaitTermination(QUERY_S)
    own_broker.restart()
    filled(own_broker, "flights", 200, 200)
    again = to_parquet(frame, tmp_path, available_now=True)
    assert again.awaitTermination(QUERY_S)
    assert len(again.recentProgress) >= 2
    filled(own_broker, "flights", 400, 5)
    last = to_parquet(frame, tmp_path, available_now=True)
    assert last.awaitTermination(QUERY_S)
    assert numbers(spark, tmp_path) == Counter(range(405))


def test_a_task_that_fails_is_run_again_over_the_same_rows(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    filled(broker, topic, 0, 100)
    marks = tmp_path / "marks"
    marks.mkdir()

    def fails_once(batches: Iterator[object]) -> Iterator[object]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        mark = marks / str(context.partitionId())
        if not mark.exists():
            mark.touch()
            raise RuntimeError("a task that fails once")

    frame = streaming(spark, broker.namesrv, topic, minPartitions="2")
    frame = frame.mapInArrow(fails_once, frame.schema)
    query = to_parquet(frame, tmp_path, available_now=True)
    assert query.awaitTermination(QUERY_S)
    assert numbers(spark, tmp_path) == Counter(range(100))


def test_the_group_shows_even_the_last_batch(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    filled(broker, topic, 0, 100)
    group = f"g{topic}"
    committed = threading.Event()

    class Committing(LagListener):
        def report(self, end_offset: str | None) -> None:
            super().report(end_offset)
            if sum(broker.offsets(group, topic).values()) == 100:
                committed.set()

    listener = Committing()
    spark.streams.addListener(listener)
    try:
        frame = streaming(spark, broker.namesrv, topic, group=group)
        query = to_parquet(frame, tmp_path, available_now=True)
        assert query.awaitTermination(QUERY_S)
        assert committed.wait(QUERY_S)
    finally:
        spark.streams.removeListener(listener)
    left = mqcore.spark.lag(spark, group, namesrv=broker.namesrv)
    assert {row.lag for row in left.collect()} == {0}
    assert left.count() == 4


@needs_limits
def test_backlog_is_in_the_progress_of_a_query(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    filled(broker, topic, 0, 100)
    frame = streaming(spark, broker.namesrv, topic, maxOffsetsPerTrigger="40")
    query = to_parquet(frame, tmp_path, available_now=True)
    assert query.awaitTermination(QUERY_S)
    source = query.recentProgress[0].sources[0]
    assert sum(json.loads(source.endOffset)["q"].values()) == 40
    assert sum(json.loads(source.latestOffset)["q"].values()) == 100


def test_the_catalogue_of_a_cluster(spark: SparkSession, broker: Broker, orders: str) -> None:
    spark.conf.set("spark.mqcore.namesrv", broker.namesrv)
    try:
        found = mqcore.spark.topics(spark)
        (row,) = found.filter(f.col("topic") == orders).collect()
        assert (row.brokers, row.queues, row.messages) == (1, 4, COUNT)
        assert row.lastStoreTimestamp is not None
        names = {each.topic for each in found.collect()}
        assert not any(name.startswith(("%", "rmq_sys", "SCHEDULE", "TBW")) for name in names)
        more = mqcore.spark.topics(spark, system=True)
        assert more.count() > found.count()
    finally:
        spark.conf.unset("spark.mqcore.namesrv")
    with pytest.raises(mqcore.MQError, match=r"spark\.mqcore\.namesrv"):
        mqcore.spark.topics(spark)
