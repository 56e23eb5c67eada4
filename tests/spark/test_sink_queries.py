"""The sink inside Spark: batches, streams, tasks that fail, and the errors of wrong input."""

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import MapType, StringType, StructField, StructType

import mqcore.spark
from mqcore.native import ReceivedMessage
from mqcore.testing import Broker


def parts(message: ReceivedMessage) -> list[str]:
    """Returns query, batch, partition and attempt of a row."""
    return message.properties["SPARK_TASK"].split("/")


def numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).selectExpr(
        "cast(id as string) AS body", "concat('t', id % 3) AS tags"
    )


def stored(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    """Returns what the broker holds, as the source would give it."""
    schema = StructType(
        [
            StructField("topic", StringType()),
            StructField("body", StringType()),
            StructField("properties", MapType(StringType(), StringType())),
        ]
    )
    found = [
        (message.topic, message.body.decode(), message.properties)
        for message in broker.messages(topic)
    ]
    return spark.createDataFrame(found, schema)


def bodies(broker: Broker, topic: str) -> list[int]:
    return sorted(int(message.body) for message in broker.messages(topic))


def test_a_dataframe_is_written(spark: SparkSession, broker: Broker) -> None:
    rows = numbers(spark, 5_000)
    rows.write.format("mqcore").option("namesrv", broker.namesrv).option("topic", "batch").option(
        "runId", "nightly"
    ).mode("append").save()
    found = broker.messages("batch")
    assert sorted(int(message.body) for message in found) == list(range(5_000))
    assert Counter(message.tags for message in found) == {"t0": 1667, "t1": 1667, "t2": 1666}
    assert {tuple(parts(message)[:3]) for message in found} == {
        ("nightly", "0", "0"),
        ("nightly", "0", "1"),
    }


def fail_once(directory: Path) -> str:
    """Returns SQL's name of a function that fails in the first attempt of partition 1."""

    def failing(number: int) -> str:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 1 and context.attemptNumber() == 0 and number % 1_000 == 900:
            (directory / "failed").touch()
            raise ValueError("a test wants this task to fail")
        return str(number)

    session = SparkSession.getActiveSession()
    assert session is not None
    session.udf.register("fail_once", failing, StringType())
    return "fail_once"


def test_a_task_that_fails_is_repeated_and_its_repeats_are_dropped(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    name = fail_once(tmp_path)
    # Rows come to the sink in such batches: a first attempt has sent some when it fails.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 100)
    rows = spark.range(0, 4_000, 1, 2).selectExpr(f"lpad({name}(id), 1000, '0') AS body")
    rows.write.format("mqcore").options(
        namesrv=broker.namesrv, topic="failing", batchBytes="2k"
    ).mode("append").save()
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert (tmp_path / "failed").exists()
    found = Counter(bodies(broker, "failing"))
    assert set(found) == set(range(4_000)), "no row is missing"
    attempts = {parts(message)[3].split("-")[0] for message in broker.messages("failing")}
    all_rows = stored(spark, broker, "failing")
    left = mqcore.spark.drop_repeats(all_rows)
    assert left.columns == all_rows.columns
    assert Counter(int(row.body) for row in left.collect()) == Counter(range(4_000))
    assert attempts == {"0", "1"}
    assert sum(found.values()) > 4_000, "there was something to be dropped"


def test_repeats_of_whole_runs_are_dropped(spark: SparkSession, broker: Broker) -> None:
    for _ in range(2):
        numbers(spark, 300).write.format("mqcore").options(
            namesrv=broker.namesrv, topic="runs", runId="same"
        ).mode("append").save()
    assert len(broker.messages("runs")) == 600
    left = mqcore.spark.drop_repeats(stored(spark, broker, "runs"))
    assert sorted(int(row.body) for row in left.collect()) == list(range(300))


def test_repeats_are_dropped_of_what_is_read(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    for _ in range(2):
        numbers(spark, 300).write.format("mqcore").options(
            namesrv=broker.namesrv, topic="read", runId="same"
        ).mode("append").save()
    options = {"namesrv": broker.namesrv, "subscribe": "read", "includeProperties": "true"}
    read = spark.read.format("mqcore").options(**options).load()
    assert read.count() == 600
    left = mqcore.spark.drop_repeats(read)
    assert left.columns == read.columns
    assert sorted(int(row.body) for row in left.collect()) == list(range(300))
    stream = spark.readStream.format("mqcore").options(**options, startingOffsets="earliest").load()
    query = (
        mqcore.spark.drop_repeats(stream)
        .writeStream.format("memory")
        .queryName("left_of_stream")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert query.exception() is None
    found = spark.table("left_of_stream").collect()
    assert sorted(int(row.body) for row in found) == list(range(300))


def test_rows_that_were_read_are_written_as_they_are(spark: SparkSession, broker: Broker) -> None:
    numbers(spark, 200).selectExpr(
        "*", "concat('g', body % 3) AS messageGroup", "map('own', body) AS properties"
    ).write.format("mqcore").options(namesrv=broker.namesrv, topic="first").mode("append").save()
    read = (
        spark.read.format("mqcore")
        .options(namesrv=broker.namesrv, subscribe="first", includeProperties="true")
        .load()
    )
    read.write.format("mqcore").options(namesrv=broker.namesrv, topic="second").mode(
        "append"
    ).save()

    def known(topic: str) -> list[tuple[bytes, str | None, str | None, str | None, int]]:
        return sorted(
            (
                message.body,
                message.tags,
                message.properties["own"],
                message.properties["__SHARDINGKEY"],
                message.queue.queue_id,
            )
            for message in broker.messages(topic)
        )

    assert known("second") == known("first")


def test_a_stream_is_written_once_per_row(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()
    expected = 0
    for batch in range(2):
        rows = [{"n": expected + at} for at in range(500)]
        expected += len(rows)
        (source / f"{batch}.json").write_text("\n".join(map(json.dumps, rows)), "utf-8")
        query = (
            spark.readStream.schema("n bigint")
            .json(str(source))
            .selectExpr("cast(n AS string) AS body")
            .writeStream.format("mqcore")
            .options(namesrv=broker.namesrv, topic="stream", checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert query.exception() is None
    assert bodies(broker, "stream") == list(range(expected))
    found = broker.messages("stream")
    # One name over both runs of the query: that of its checkpoint.
    assert {parts(message)[0] for message in found} == {str(query.id).replace("-", "")[:16]}
    assert {parts(message)[1] for message in found} == {"0", "1"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"topik": "x"}, "has no option topik; did you mean topic?"),
        ({"topic": "x", "namesrv": "127.0.0.1:1"}, "writing to x: "),
    ],
)
def test_wrong_options_are_one_error_on_the_driver(
    spark: SparkSession, broker: Broker, options: dict[str, str], expected: str
) -> None:
    rows = numbers(spark, 1)
    with pytest.raises(Exception, match=r"OptionError|SinkError") as refused:
        rows.write.format("mqcore").options(**{"namesrv": broker.namesrv, **options}).mode(
            "append"
        ).save()
    assert expected in str(refused.value)


def test_a_topic_cannot_be_overwritten(spark: SparkSession, broker: Broker) -> None:
    with pytest.raises(Exception, match="a topic cannot be overwritten"):
        numbers(spark, 1).write.format("mqcore").options(namesrv=broker.namesrv, topic="kept").mode(
            "overwrite"
        ).save()


def test_a_row_that_cannot_go_is_named_on_the_driver(spark: SparkSession, broker: Broker) -> None:
    rows = spark.range(0, 10, 1, 1).select(
        f.when(f.col("id") != 7, f.col("id").cast("string")).alias("body")
    )
    with pytest.raises(Exception, match=r"partition 0, attempt \d, row 7 of its input cannot"):
        rows.write.format("mqcore").options(namesrv=broker.namesrv, topic="named").mode(
            "append"
        ).save()
