"""Spark through failovers: the master of three brokers is killed in the middle of reads and writes.

A stream reads each row once, the sink with delivery exactly-once writes each row once, and a batch
write loses none; no query fails because another broker is master.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mqcore
import mqcore.spark
from faults.trio import Trio, asked, trio
from interop.patience import eventually
from mqcore.remoting import RequestCode
from spark.exact_sink import DECISIONS
from spark.test_topic_source import numbers, streaming, to_parquet

TOPIC = "flights"
QUERY_S = 150
ROWS_OF_FILE = 1_000
FILES = 6
_KEYS = {
    # What Spark sends at once.
    "maxMessageSize": str(1 << 20),
    "mappedFileSizeCommitLog": str(4 << 20),
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "1000",
}
# Goes on until there is another master.
_PATIENT = {"retries": "60", "retryBackoffMs": "200", "batchBytes": "4k"}


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Trio]:
    """Returns three brokers of one name with two topics."""
    with trio(tmp_path / "brokers", keys=_KEYS) as all_:
        all_.wait_until_ready()
        all_.create_topics(TOPIC)
        all_.create_topics(DECISIONS, queues=1)
        yield all_


@contextmanager
def killed_behind(three: Trio, stored: Callable[[], int], count: int) -> Iterator[list[str]]:
    """Kills the master when so much is there, and lets it come back; yields whom it has killed."""
    killed: list[str] = []

    def work() -> None:
        eventually(stored, lambda found: found >= count)
        master = three.master()
        master.broker.kill()
        killed.append(master.name)
        eventually(lambda: three.state().get("masterAddress") not in (None, master.address), bool)
        master.broker.start()

    thread = threading.Thread(target=work, name="kill the master")
    thread.start()
    try:
        yield killed
    finally:
        thread.join(QUERY_S)
    assert killed


def messages_in(three: Trio, topic: str) -> int:
    """Returns how many messages a topic has at the brokers, as far as anybody answers."""
    for member in three.members:
        found = 0
        for queue_id in range(4):
            ext = {"topic": topic, "queueId": str(queue_id)}
            answer = asked(member.address, RequestCode.GET_MAX_OFFSET, ext)
            found += 0 if answer is None else int(answer.ext.get("offset", 0))
        if found:
            return found
    return 0


def send(three: Trio, first: int, count: int) -> None:
    """Sends numbered messages, each until it is acknowledged."""
    with mqcore.Producer(three.namesrv_addresses, timeout_s=30.0, try_timeout_s=1.0) as producer:
        for number in range(first, first + count):
            producer.send(mqcore.Message(TOPIC, b"%d" % number))


def read(spark: SparkSession, three: Trio) -> Counter[int]:
    """Returns the rows of the topic as a batch reads them."""
    frame = spark.read.format("mqcore").options(namesrv=three.namesrv_addresses, subscribe=TOPIC)
    rows = frame.load().select("body").collect()
    return Counter(int(row.body) for row in rows)


@pytest.mark.matrix
def test_a_stream_reads_each_row_once_while_the_master_is_killed(
    spark: SparkSession, three: Trio, tmp_path: Path
) -> None:
    send(three, 0, 200)
    frame = streaming(spark, three.namesrv_addresses, TOPIC, maxOffsetsPerTrigger="150")
    query = to_parquet(frame, tmp_path, available_now=False)
    try:
        query.processAllAvailable()
        with killed_behind(three, lambda: messages_in(three, TOPIC), 300):
            send(three, 200, 400)
        query.processAllAvailable()
        assert query.exception() is None
    finally:
        query.stop()
    found = numbers(spark, tmp_path)
    assert set(found) == set(range(600))
    # What was stored twice is what a send had to try twice.
    assert found == read(spark, three)


@pytest.mark.matrix
def test_a_batch_write_loses_nothing_while_the_master_is_killed(
    spark: SparkSession, three: Trio
) -> None:
    count = 20_000
    rows = spark.range(0, count, 1, 4).selectExpr("lpad(cast(id AS string), 200, '0') AS body")
    with killed_behind(three, lambda: messages_in(three, TOPIC), 500):
        rows.write.format("mqcore").options(
            namesrv=three.namesrv_addresses, topic=TOPIC, **_PATIENT
        ).mode("append").save()
    frame = (
        spark.read.format("mqcore")
        .options(namesrv=three.namesrv_addresses, subscribe=TOPIC, includeProperties="true")
        .load()
    )
    left = mqcore.spark.drop_repeats(frame).select("body").collect()
    assert Counter(int(row.body) for row in left) == Counter(range(count))


def test_exactly_once_is_once_while_the_master_is_killed(
    spark: SparkSession, three: Trio, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(FILES):
        rows = range(number * ROWS_OF_FILE, (number + 1) * ROWS_OF_FILE)
        text = "\n".join(json.dumps({"n": row}) for row in rows)
        (source / f"{number}.json").write_text(text, "utf-8")
    with killed_behind(three, lambda: messages_in(three, TOPIC), ROWS_OF_FILE):
        query = (
            spark.readStream.schema("n bigint")
            .option("maxFilesPerTrigger", 1)
            .json(str(source))
            .selectExpr("cast(n AS string) AS body")
            .writeStream.format("mqcore")
            .options(
                namesrv=three.namesrv_addresses,
                topic=TOPIC,
                delivery="exactly-once",
                checkpointLocation=str(tmp_path / "checkpoint"),
                **_PATIENT,
            )
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(QUERY_S)
        assert query.exception() is None
    assert read(spark, three) == Counter(range(FILES * ROWS_OF_FILE))
