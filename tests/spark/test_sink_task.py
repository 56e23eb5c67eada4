"""A task of the sink against a broker, driven without Spark: rows arrive as in their columns."""

import random
import struct
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from mqcore.native import ReceivedMessage
from mqcore.spark.errors import RowRefusedError, SinkError
from mqcore.spark.topic_sink.columns import packed_columns, row_batches
from mqcore.testing import Broker
from spark.sink_task import batch_of, mark_of, write_rows


def marks(message: ReceivedMessage) -> tuple[str, int]:
    return message.properties["SPARK_TASK"], int(message.properties["SPARK_ROW"])


def test_a_row_arrives_as_in_its_columns(broker: Broker) -> None:
    batch = batch_of(
        {
            "body": [b"one", b"two"],
            "tags": ["red", None],
            "keys": ["k1 k2", ""],
            "properties": [[("colour", "red"), ("empty", ""), ("null", None)], None],
            "messageGroup": [None, "g"],
        }
    )
    mark = mark_of(3, batch=7, query="0f9a")
    report = write_rows(broker, [batch], mark, topic="columns")
    one, two = sorted(broker.messages("columns"), key=lambda message: message.body)[::1]
    assert (one.body, one.tags, one.keys, one.properties["colour"]) == (
        b"one",
        "red",
        ("k1", "k2"),
        "red",
    )
    assert not {"empty", "null", "__SHARDINGKEY"} & set(one.properties)
    assert (two.body, two.tags, two.keys) == (b"two", None, ())
    assert two.properties["__SHARDINGKEY"] == "g"
    assert [marks(one), marks(two)] == [(str(mark), 0), (str(mark), 1)]
    assert one.message_id != two.message_id
    assert report.rows == 2
    assert report.topic_rows == {"columns": 2}


def test_rows_in_random_batches_all_arrive_once(broker: Broker) -> None:
    chance = random.Random(7)
    rows = [
        (
            f"many{chance.randrange(3)}",
            chance.randbytes(chance.choice((1, 40, 3_000))),
            chance.choice((None, "a", "b")),
            chance.choice((None, 0, 1, 2)),
        )
        for _ in range(2_000)
    ]
    for number in range(3):
        broker.ensure_topic(f"many{number}", queues=3)

    def batches() -> Iterator[pa.RecordBatch]:
        left = rows
        while left:
            count = chance.randrange(1, 300)
            # A slice begins in the middle of its buffers.
            part = [("many0", b"before", None, None), *left[:count]]
            topics, bodies, tags, queues = zip(*part, strict=True)
            whole = batch_of({"topic": topics, "body": bodies, "tags": tags, "queueId": queues})
            yield whole.slice(1)
            left = left[count:]

    report = write_rows(broker, batches(), batchBytes="16k")
    found = [message for number in range(3) for message in broker.messages(f"many{number}")]
    by_row = {marks(message)[1]: message for message in found}
    assert len(found) == len(by_row) == report.rows == len(rows)
    for number, (topic, body, tags, queue) in enumerate(rows):
        message = by_row[number]
        assert (message.topic, message.body, message.tags) == (topic, body, tags)
        assert queue is None or message.queue.queue_id == queue
    for topic in Counter(row[0] for row in rows):
        last = [
            message
            for message in found
            if message.topic == topic and "SPARK_ROWS" in message.properties
        ]
        assert {message.properties["SPARK_ROWS"] for message in last} == {
            str(report.topic_rows[topic])
        }
        # They came in one request, in a row in one queue.
        offsets = sorted((message.queue.queue_id, message.queue_offset) for message in last)
        (queue,) = {queue for queue, _ in offsets}
        assert offsets == [(queue, offsets[0][1] + at) for at in range(len(offsets))]


def test_rows_of_a_group_keep_their_order_through_retries(broker: Broker) -> None:
    broker.ensure_topic("ordered", queues=4)
    count = 3_000
    groups = [f"g{number % 5}" for number in range(count)]
    bodies = [b"%d" % number + b"." * 200 for number in range(count)]
    broker.fail_sends(5)
    write_rows(
        broker,
        [batch_of({"body": bodies, "messageGroup": groups})],
        topic="ordered",
        batchBytes="8k",
        retryBackoffMs="1",
    )
    seen: dict[str, list[int]] = {}
    queues: dict[str, set[int]] = {}
    for message in broker.messages("ordered"):
        group = message.properties["__SHARDINGKEY"]
        seen.setdefault(group, []).append(marks(message)[1])
        queues.setdefault(group, set()).add(message.queue.queue_id)
    assert all(len(where) == 1 for where in queues.values())
    assert sum(map(len, seen.values())) == count
    assert all(rows == sorted(rows) for rows in seen.values())


def test_delayed_rows_go_singly_with_their_delay(broker: Broker) -> None:
    batch = batch_of(
        {
            "body": [b"level", b"now"],
            "delayLevel": [1, None],
        }
    )
    assert write_rows(broker, [batch], topic="delayed").rows == 2
    assert [message.body for message in broker.messages("delayed")] == [b"now"]
    level = [m for m in broker.messages("SCHEDULE_TOPIC_XXXX") if m.body == b"level"]
    assert [message.properties["REAL_TOPIC"] for message in level] == ["delayed"]


@pytest.mark.parametrize("compression", ["zlib", "lz4", "zstd"])
def test_bodies_are_made_small_and_read_whole(broker: Broker, compression: str) -> None:
    bodies = [b"a" * 9_000, b"short", b"b" * 9_000, random.Random(1).randbytes(9_000)]
    topic = f"small-{compression}"
    write_rows(broker, [batch_of({"body": bodies})], topic=topic, compression=compression)
    found = broker.messages(topic)
    assert sorted(message.body for message in found) == sorted(bodies)
    stored = {message.body[:1]: message.record.stored_body_len_bytes for message in found}
    assert stored[b"a"] < 200
    assert stored[b"s"] == 5


def test_a_row_that_fills_a_request_goes_alone(broker: Broker) -> None:
    large = b"x" * (4 << 20)
    write_rows(broker, [batch_of({"body": [b"1", large, b"2"]})], topic="large")
    assert sorted(len(message.body) for message in broker.messages("large")) == [1, 1, 4 << 20]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"body": [b"a", None]}, "row 1 of its input cannot be sent: its body is null"),
        ({"body": [b"a", b""]}, "row 1 of its input cannot be sent: its body is empty"),
        ({"body": [b"a", b"x" * 70_000]}, "has 70000 bytes, of 65536 that a message may have"),
        ({"body": [b"a"], "queueId": [9]}, "topic refused has no queue 9 to write"),
        (
            {"body": [b"a"], "queueId": [0], "brokerName": ["x"]},
            "topic refused has no queue x:0 to write",
        ),
        ({"body": [b"a"], "tags": ["a\x02b"]}, 'property "TAGS": its value holds a separator'),
        ({"body": [b"a"], "properties": [[(" ", "v")]]}, "its name is blank"),
        ({"body": [b"a"], "keys": ["k" * 33_000]}, "bytes together, of 32767 that fit"),
        ({"body": [b"a"], "delayLevel": [-1]}, "its delay level is -1"),
    ],
)
def test_a_row_that_cannot_go_is_named(
    broker: Broker, columns: dict[str, list[object]], expected: str
) -> None:
    with pytest.raises(RowRefusedError) as refused:
        write_rows(broker, [batch_of(columns)], mark_of(5), topic="refused", maxMessageBytes="64k")
    assert expected in refused.value.message
    assert refused.value.message.startswith("partition 5, attempt 0, row ")


def test_a_time_of_delivery_needs_a_broker_with_timers() -> None:
    batch = batch_of({"body": [b"a"], "deliverTimestamp": [datetime.now(UTC)]})
    with (
        Broker({"timerWheelEnable": "false"}) as broker,
        pytest.raises(SinkError, match="delivers timed messages at once"),
    ):
        write_rows(broker, [batch], topic="timed")


def test_a_row_comes_at_its_time(broker: Broker) -> None:
    later = datetime.now(UTC) + timedelta(minutes=10)
    batch = batch_of({"body": [b"now", b"later"], "deliverTimestamp": [None, later]})
    write_rows(broker, [batch], topic="timed")
    assert [each.body for each in broker.messages("timed")] == [b"now"]
    broker.advance(timedelta(minutes=11))
    assert {each.body for each in broker.messages("timed")} == {b"now", b"later"}


def test_a_topic_of_a_row_is_checked_before_anything_is_packed(broker: Broker) -> None:
    for topics, expected in (
        (["fine", None], "row 1 of its input cannot be sent: its topic is null"),
        (["fine", "not fine"], "row 1 of its input cannot be sent: topic 'not fine'"),
    ):
        with pytest.raises(RowRefusedError) as refused:
            write_rows(broker, [batch_of({"body": [b"a", b"b"], "topic": topics})])
        assert expected in refused.value.message


def test_rows_that_were_read_are_written_without_the_ids_of_others(broker: Broker) -> None:
    properties = [
        ("TAGS", "red"),
        ("KEYS", "k"),
        ("UNIQ_KEY", "of another"),
        ("SPARK_TASK", "of another"),
        ("CLUSTER", "of another"),
        ("mine", "yes"),
    ]
    write_rows(broker, [batch_of({"body": [b"a"], "properties": [properties]})], topic="again")
    (message,) = broker.messages("again")
    assert (message.tags, message.keys, message.properties["mine"]) == ("red", ("k",), "yes")
    assert "of another" not in message.properties.values()


def test_a_busy_broker_is_tried_again(broker: Broker) -> None:
    broker.fail_sends(3)
    batch = batch_of({"body": [b"a", b"b"]})
    assert write_rows(broker, [batch], topic="busy", retryBackoffMs="1").rows == 2
    assert len(broker.messages("busy")) == 2


def test_a_broker_that_stays_busy_fails_the_task(broker: Broker) -> None:
    broker.fail_sends(2)
    with pytest.raises(SinkError) as given_up:
        write_rows(
            broker, [batch_of({"body": [b"a"]})], topic="busier", retries="1", retryBackoffMs="1"
        )
    assert "partition 0, attempt 0: topic busier: a request of 1 rows" in given_up.value.message
    assert "2 tries" in given_up.value.message
    assert not broker.messages("busier")


def test_an_attempt_that_ends_early_never_looks_whole(broker: Broker) -> None:
    good = batch_of({"body": [b"a" * 100] * 1_000})
    bad = batch_of({"body": [b"a", None]})
    with pytest.raises(RowRefusedError):
        write_rows(broker, [good, bad], topic="early", batchBytes="10k")
    found = broker.messages("early")
    assert all("SPARK_ROWS" not in message.properties for message in found)


def test_rows_of_a_spark_without_arrow_streams_are_the_same(broker: Broker) -> None:
    schema = StructType(
        [
            StructField("body", BinaryType()),
            StructField("properties", MapType(StringType(), StringType())),
            StructField("queueId", IntegerType()),
        ]
    )
    made = Row("body", "properties", "queueId")
    rows = [made(bytearray(b"%d" % row), {"row": str(row)}, row % 2) for row in range(12_000)]
    batches = list(row_batches(rows, schema))
    assert [batch.num_rows for batch in batches] == [10_000, 2_000]
    write_rows(broker, batches, topic="rows")
    found = broker.messages("rows")
    assert len(found) == len(rows)
    assert all(message.properties["row"] == message.body.decode() for message in found)
    assert all(message.queue.queue_id == int(message.body) % 2 for message in found)


def test_no_rows_make_no_request(broker: Broker) -> None:
    empty = batch_of({"body": [b"a"]}).slice(0, 0)
    report = write_rows(broker, [empty], topic="nothing")
    assert (report.rows, report.topic_rows) == (0, {})
    assert not broker.messages("nothing")


def test_a_topic_that_is_nowhere_is_one_sentence() -> None:
    with (
        Broker({"autoCreateTopicEnable": "false"}) as broker,
        pytest.raises(SinkError, match=r"partition 0, attempt 0: .*nowhere"),
    ):
        write_rows(broker, [batch_of({"body": [b"a"]})], topic="nowhere")


def test_a_batch_that_ends_behind_its_data_is_refused() -> None:
    ends = bytearray(8)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"abc")]
    body = pa.Array.from_buffers(pa.binary(), 1, buffers, null_count=0)
    batch = pa.RecordBatch.from_arrays([body], names=["body"])
    # PyArrow checks offsets only while a batch is made.
    ends[4:] = struct.pack("i", 9)
    with pytest.raises(pa.ArrowInvalid, match="larger than values array"):
        packed_columns(batch, {"body": 0})
