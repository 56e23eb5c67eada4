"""Batches and streams against a broker, without Spark: what the engine would call, in its order."""

import json
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, LessThan, LessThanOrEqual
from pyspark.sql.types import StructType

import mqcore
from mqcore.errors import MQError, NoRouteError
from mqcore.spark.options import OptionError
from mqcore.spark.schema import CORRUPT_NAME, READ_COLUMNS
from mqcore.spark.topic_source.data_loss import DataLossError
from mqcore.spark.topic_source.legacy_stream_reader import LegacyTopicStreamReader
from mqcore.spark.topic_source.options import read_options
from mqcore.spark.topic_source.reading import batch_reader, stream_reader
from mqcore.testing import Broker

pytest.importorskip("pyspark.sql.streaming.datasource", reason="its engine is that of Spark 4.2")
from spark.topic_source.engine import EVERYTHING, Engine, TaskFailed

TYPES = {
    "bigint": "long",
    "int": "integer",
    "map<string,string>": {
        "type": "map",
        "keyType": "string",
        "valueType": "string",
        "valueContainsNull": True,
    },
}


def columns(*names: str) -> StructType:
    """Returns a schema of our columns, as Spark passes it."""
    ddl = {column.name: column.ddl for column in READ_COLUMNS}
    fields = [
        {"name": name, "type": TYPES.get(ddl[name], ddl[name]), "nullable": True, "metadata": {}}
        for name in names
    ]
    return StructType.fromJson({"type": "struct", "fields": fields})


COLUMNS = columns("topic", "queueId", "queueOffset", "body")


@pytest.fixture
def topic(broker: Broker) -> str:
    """Returns a topic of four queues that only this test uses."""
    name = f"t{uuid.uuid4().hex[:12]}"
    broker.create_topic(name, queues=4)
    return name


def until_readable(broker: Broker, topic: str) -> None:
    """Returns when what is acknowledged can be pulled: queues follow the log a moment later."""
    broker.messages(topic)


def send(broker: Broker, topic: str, count: int, *, tag: str | None = None, first: int = 0) -> None:
    """Sends numbered messages over all queues."""
    with mqcore.Producer(broker.namesrv) as producer:
        for number in range(first, first + count):
            producer.send(mqcore.Message(topic, b"%d" % number, tags=tag, keys=f"k{number}"))
    until_readable(broker, topic)


def rows(reader: Any) -> list[dict[str, Any]]:
    return [
        row
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def sorted_rows(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in found)


def bodies(found: list[dict[str, Any]]) -> Counter[int]:
    return Counter(int(row["body"]) for row in found)


@pytest.fixture
def read(broker: Broker) -> Callable[..., list[dict[str, Any]]]:
    """Reads a batch with options."""

    def run(schema: StructType = COLUMNS, **options: str) -> list[dict[str, Any]]:
        return rows(batch_reader({"namesrv": broker.namesrv} | options, schema))

    return run


def test_all_columns_are_what_was_sent(
    broker: Broker, topic: str, read: Callable[..., list[dict[str, Any]]]
) -> None:
    began = datetime.now(UTC)
    with mqcore.Producer(broker.namesrv) as producer:
        given = {"colour": "grün"}
        message = mqcore.Message(topic, "späť", tags="blue", keys=["a", "b"], properties=given)
        sent = producer.send(message)
    until_readable(broker, topic)
    names = [column.name for column in READ_COLUMNS if column.name != "_corrupt"]
    (row,) = read(columns(*names), subscribe=topic)
    assert row["topic"] == topic
    assert row["brokerName"] == sent.queue.broker_name
    assert (row["queueId"], row["queueOffset"]) == (sent.queue.queue_id, sent.queue_offset)
    assert row["msgId"] == sent.message_id
    assert (row["tags"], row["keys"], row["body"]) == ("blue", "a b", "späť".encode())
    assert row["bodyLength"] == len("späť".encode())
    assert dict(row["properties"])["colour"] == "grün"
    assert abs((row["storeTimestamp"] - began).total_seconds()) < 600
    assert row["deliverTimestamp"] is None
    assert row["storeHost"] == broker.address


def test_every_message_once_however_it_is_cut(
    broker: Broker, topic: str, read: Callable[..., list[dict[str, Any]]]
) -> None:
    send(broker, topic, 200)
    wanted = Counter(range(200))
    assert bodies(read(subscribe=topic)) == wanted
    assert bodies(read(subscribe=topic, maxRowsPerPartition="7")) == wanted
    assert bodies(read(subscribe=topic, minPartitions="11", pullBatchSize="3")) == wanted
    assert bodies(read(subscribe=topic, maxBytesPerPartition="1k", batchRows="5")) == wanted
    planned = batch_reader(
        {"namesrv": broker.namesrv, "subscribe": topic, "maxRowsPerPartition": "7"}, COLUMNS
    ).partitions()
    assert len(planned) >= 200 // 7


def test_offsets_come_without_records_and_are_the_same(
    broker: Broker, topic: str, read: Callable[..., list[dict[str, Any]]]
) -> None:
    send(broker, topic, 60, tag="kept")
    send(broker, topic, 60, tag="not", first=60)
    names = ("topic", "brokerName", "queueId", "queueOffset", "physicalOffset")
    whole = read(columns(*names, "body"), subscribe=topic)
    for row in whole:
        del row["body"]
    for options in ({}, {"pullBatchSize": "7"}, {"maxRowsPerPartition": "11"}):
        assert sorted_rows(read(columns(*names), subscribe=topic, **options)) == sorted_rows(whole)
    kept = read(columns("queueId", "queueOffset"), subscribe=topic, filter="kept")
    assert len(kept) == 60, "filters look at records"
    late = read(columns("queueId"), subscribe=topic, endingTimestamp="2000-01-01T00:00:00Z")
    assert not late


def test_offsets_bound_a_batch(
    broker: Broker, topic: str, read: Callable[..., list[dict[str, Any]]]
) -> None:
    send(broker, topic, 80)
    name = "broker-test"
    held = Counter(row["queueId"] for row in read(subscribe=topic))
    start = {topic: {name: {str(n): -2 for n in range(4)} | {"1": 5}}}
    end = {topic: {name: {str(n): -1 for n in range(4)} | {"2": 3}}}
    found = read(subscribe=topic, startingOffsets=json.dumps(start), endingOffsets=json.dumps(end))
    by_queue = Counter(row["queueId"] for row in found)
    assert by_queue == {0: held[0], 1: held[1] - 5, 2: 3, 3: held[3]}
    one = read(assign=json.dumps({topic: {name: [2]}}))
    assert {row["queueId"] for row in one} == {2}
    beyond = json.dumps({topic: {name: {str(n): 999 for n in range(4)}}})
    with pytest.raises(DataLossError, match="offset 999 was reached before"):
        read(subscribe=topic, endingOffsets=beyond)
    assert len(read(subscribe=topic, endingOffsets=beyond, failOnDataLoss="false")) == 80


def test_times_bound_a_batch(
    broker: Broker, topic: str, read: Callable[..., list[dict[str, Any]]]
) -> None:
    send(broker, topic, 40)
    stored = columns("storeTimestamp", "body")
    times = sorted({row["storeTimestamp"] for row in read(stored, subscribe=topic)})
    middle = times[len(times) // 2]
    ms = str(round(middle.timestamp() * 1000))
    late = read(
        stored, subscribe=topic, startingTimestamp=ms, startingOffsetsByTimestampStrategy="latest"
    )
    early = read(stored, subscribe=topic, endingTimestamp=ms)
    assert {row["storeTimestamp"] for row in late} == {at for at in times if at >= middle}
    assert {row["storeTimestamp"] for row in early} == {at for at in times if at < middle}
    assert len(late) + len(early) == 40


def test_tags_are_filtered_by_the_broker(
    broker: Broker, topic: str, read: Callable[..., list[dict[str, Any]]]
) -> None:
    # Two texts with the same hash in Java: the broker lets both pass.
    for tag, first in (("Aa", 0), ("BB", 10), ("c", 20), (None, 30)):
        send(broker, topic, 10, tag=tag, first=first)
    assert bodies(read(subscribe=topic, filter="Aa")) == Counter(range(10))
    assert bodies(read(subscribe=topic, subExpression="BB || c")) == Counter(range(10, 30))
    assert len(read(subscribe=topic)) == 40


def test_a_pattern_reads_topics_of_users(
    broker: Broker, topic: str, read: Callable[..., list[dict[str, Any]]]
) -> None:
    send(broker, topic, 3)
    found = read(subscribePattern=f"{topic}|%RETRY%.*|TBW102|SELF_TEST_TOPIC")
    assert {row["topic"] for row in found} == {topic}


def test_only_what_is_asked_for_travels(
    broker: Broker, topic: str, read: Callable[..., list[dict[str, Any]]]
) -> None:
    send(broker, topic, 3)
    found = read(columns("bodyLength", "queueId"), subscribe=topic)
    assert [list(row) for row in found] == [["bodyLength", "queueId"]] * 3


def test_without_bodies_all_else_is_the_same(
    broker: Broker, topic: str, read: Callable[..., list[dict[str, Any]]]
) -> None:
    send(broker, topic, 3)
    bodies = {"body", "bodyLength"}
    others = [column.name for column in READ_COLUMNS if column.name not in bodies | {CORRUPT_NAME}]
    whole = read(columns("body", "bodyLength", *others), subscribe=topic)
    assert all(row["bodyLength"] == len(row["body"]) > 0 for row in whole)
    kept = [{name: row[name] for name in others} for row in whole]
    assert read(columns(*others), subscribe=topic) == kept


def test_an_empty_topic_has_no_task(
    topic: str, read: Callable[..., list[dict[str, Any]]], broker: Broker
) -> None:
    reader = batch_reader({"namesrv": broker.namesrv, "subscribe": topic}, COLUMNS)
    assert reader.partitions() == []
    assert read(subscribe=topic) == []


def test_what_is_not_there_is_reported(
    topic: str, read: Callable[..., list[dict[str, Any]]]
) -> None:
    with pytest.raises(NoRouteError, match="topic nosuch is not known at name servers"):
        read(subscribe="nosuch")
    with pytest.raises(OptionError, match="assign names queues that are not there"):
        read(assign=json.dumps({topic: {"broker-test": [9]}}))
    with pytest.raises(MQError, match="check the option namesrv"):
        rows(
            batch_reader(
                {"namesrv": "127.0.0.1:1", "subscribe": "t", "retries": "0"},
                COLUMNS,
            )
        )


def test_pushed_filters_leave_less_and_lose_nothing(broker: Broker, topic: str) -> None:
    for tag, first in (("a", 0), ("b", 50)):
        send(broker, topic, 50, tag=tag, first=first)
    whole = columns("topic", "queueId", "queueOffset", "tags", "storeTimestamp", "body")
    options = {"namesrv": broker.namesrv, "subscribe": topic, "pushdown": "true"}
    everything = rows(batch_reader(options, whole))

    def pushed(*filters: Any) -> list[dict[str, Any]]:
        reader: Any = batch_reader(options, whole)
        assert list(reader.pushFilters(list(filters))) == list(filters), "Spark tests them too"
        return rows(reader)

    assert {row["queueId"] for row in pushed(In(("queueId",), (1, 3)))} == {1, 3}
    assert {row["tags"] for row in pushed(EqualTo(("tags",), "b"))} == {"b"}
    assert pushed(EqualTo(("topic",), "other")) == []
    low = pushed(GreaterThanOrEqual(("queueOffset",), 4), LessThan(("queueOffset",), 9))
    assert {row["queueOffset"] for row in low} == set(range(4, 9))
    moment = sorted(row["storeTimestamp"] for row in everything)[60]
    late = pushed(GreaterThanOrEqual(("storeTimestamp",), moment))
    assert Counter(row["body"] for row in late) == Counter(
        row["body"] for row in everything if row["storeTimestamp"] >= moment
    )
    for each in sorted({row["storeTimestamp"] for row in everything}):
        upto = pushed(LessThanOrEqual(("storeTimestamp",), each))
        assert len(upto) == sum(row["storeTimestamp"] <= each for row in everything)
    early = pushed(LessThan(("storeTimestamp",), moment))
    kept = {row["body"] for row in early}
    assert kept >= {row["body"] for row in everything if row["storeTimestamp"] < moment}
    assert all(row["storeTimestamp"] <= moment for row in early)


# Streams.


@pytest.fixture(params=["4.2", "4.0"])
def engine(request: pytest.FixtureRequest, broker: Broker) -> Callable[..., Engine]:
    """Makes queries as Spark of both kinds runs them."""
    is_legacy = request.param == "4.0"

    def run(**options: str) -> Engine:
        given = {"namesrv": broker.namesrv} | options

        def make() -> Any:
            if is_legacy:
                return LegacyTopicStreamReader(read_options(given, is_stream=True), COLUMNS)
            return stream_reader(given, COLUMNS)

        return Engine(make, is_legacy=is_legacy)

    return run


def test_a_stream_begins_at_the_end_and_misses_nothing(
    broker: Broker, topic: str, engine: Callable[..., Engine]
) -> None:
    send(broker, topic, 10)
    query = engine(subscribe=topic)
    query.trigger()
    assert query.rows == []
    for first in (10, 20, 30):
        send(broker, topic, 10, first=first)
        assert query.trigger()
    assert not query.trigger()
    assert bodies(query.rows) == Counter(range(10, 40))


def test_a_first_batch_that_failed_is_the_same_after_a_restart(
    broker: Broker, topic: str, engine: Callable[..., Engine]
) -> None:
    send(broker, topic, 10)
    query = engine(subscribe=topic)
    # Spark before 4.2 looks for the end first, and so begins there.
    begins = 15 if query.is_legacy else 10
    if not query.is_legacy:
        query.reader.initialOffset()
    send(broker, topic, 5, first=10)
    with pytest.raises(TaskFailed):
        query.trigger(fails=True)
    send(broker, topic, 5, first=15)
    query.restart()
    query.trigger()
    query.trigger()
    assert bodies(query.rows) == Counter(range(begins, 20))


def test_each_failure_and_restart_gives_each_row_once(
    broker: Broker, topic: str, engine: Callable[..., Engine]
) -> None:
    query = engine(subscribe=topic, startingOffsets="earliest")
    for number in range(6):
        send(broker, topic, 7, first=7 * number)
        if number % 2:
            with pytest.raises(TaskFailed):
                query.trigger(fails=True)
            query.restart()
        query.trigger()
        if number == 3:
            query.restart()
    query.trigger()
    assert bodies(query.rows) == Counter(range(42))


def test_a_topic_that_grows_is_read_whole(
    broker: Broker, topic: str, engine: Callable[..., Engine]
) -> None:
    query = engine(subscribe=topic)
    query.trigger()
    send(broker, topic, 8)
    query.trigger()
    broker.create_topic(topic, queues=8)
    send(broker, topic, 40, first=8)
    query.trigger()
    assert bodies(query.rows) == Counter(range(48))
    assert {row["queueId"] for row in query.rows} == set(range(8))


def test_the_group_shows_the_progress(
    broker: Broker, topic: str, engine: Callable[..., Engine]
) -> None:
    group = f"g{topic}"
    query = engine(subscribe=topic, startingOffsets="earliest", group=group)
    send(broker, topic, 12)
    query.trigger()
    assert sum(broker.offsets(group, topic).values()) == 0, "the batch is not known to be done"
    send(broker, topic, 4, first=12)
    query.trigger()
    assert sum(broker.offsets(group, topic).values()) == 12
    query.restart()
    send(broker, topic, 1, first=16)
    query.trigger()
    assert sum(broker.offsets(group, topic).values()) == 16


def test_limits_make_batches_and_available_now_ends(broker: Broker, topic: str) -> None:
    send(broker, topic, 50)
    given = {
        "namesrv": broker.namesrv,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "20",
    }
    query = Engine(lambda: stream_reader(given, COLUMNS))
    query.available_now()
    assert [len(batch) for batch in query.batches] == [20, 20, 10]
    assert bodies(query.rows) == Counter(range(50))
    once = Engine(lambda: stream_reader(given, COLUMNS))
    once.trigger(limit=EVERYTHING)
    assert len(once.rows) == 50
    by_bytes = given | {"maxBytesPerTrigger": "2k"}
    small = Engine(lambda: stream_reader(by_bytes, COLUMNS))
    small.available_now()
    assert len(small.batches) > 3
    assert bodies(small.rows) == Counter(range(50))


def test_limits_before_4_2_are_refused(broker: Broker, topic: str) -> None:
    given = {"namesrv": broker.namesrv, "subscribe": topic, "maxOffsetsPerTrigger": "9"}
    with pytest.raises(OptionError, match=r"need Spark 4\.2"):
        LegacyTopicStreamReader(read_options(given, is_stream=True), COLUMNS)
    given["legacyRateLimit"] = "true"
    LegacyTopicStreamReader(read_options(given, is_stream=True), COLUMNS)


def test_a_broker_that_was_killed_goes_on() -> None:
    with Broker() as own:
        own.create_topic("killed", queues=2)
        send(own, "killed", 20)
        given = {
            "namesrv": own.namesrv,
            "subscribe": "killed",
            "startingOffsets": "earliest",
            "retries": "0",
        }
        query = Engine(lambda: stream_reader(given, COLUMNS))
        query.trigger()
        own.kill()
        with pytest.raises(MQError):
            query.trigger()
        own.restart()
        send(own, "killed", 20, first=20)
        query.restart()
        query.trigger()
        assert bodies(query.rows) == Counter(range(40))
