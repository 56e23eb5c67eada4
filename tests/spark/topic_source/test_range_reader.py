"""Tasks: answers of any length, lost connections, refusals, holes, what retention took."""

import logging
from collections.abc import Iterator

import pytest
from pyspark.sql.types import LongType, StructField, StructType

import mqcore
from mqcore.client.pulling import pull_fields
from mqcore.errors import MQError, RemotingError, ResponseError
from mqcore.model.queues import MessageQueue
from mqcore.remoting import RequestCode, ResponseCode
from mqcore.spark.schema import project
from mqcore.spark.topic_source.cluster import Access, Cluster
from mqcore.spark.topic_source.data_loss import DataLossError, LossRule
from mqcore.spark.topic_source.planning import QueueRange
from mqcore.spark.topic_source.range_reader import Wanted, read_ranges
from mqcore.testing import Broker
from spark.topic_source.fake_cluster import as_any
from spark.topic_source.fake_link import FakeBroker, numbers

COUNT = 300
TOPIC = "kept"
OFFSETS = project(StructType([StructField("queueOffset", LongType())]))


@pytest.fixture(scope="module")
def records() -> Iterator[list[bytes]]:
    """Returns the records of a queue as a broker stored them, by offset."""
    with Broker() as broker:
        broker.create_topic(TOPIC, queues=1)
        with mqcore.Producer(broker.namesrv) as producer:
            producer.send_batch([mqcore.Message(TOPIC, b"%d" % n) for n in range(COUNT)])
        # Queues follow the log a moment later.
        broker.messages(TOPIC)
        address, found = broker.address, []
        cluster = Cluster(Access(broker.namesrv))
        queue = MessageQueue(TOPIC, "broker-test", 0)
        for offset in range(COUNT):
            fields = pull_fields(
                "TOOLS_CONSUMER",
                queue,
                offset,
                Wanted().subscription(TOPIC),
                count_max=1,
                suspend_ms=0,
                sends_subscription=True,
            )
            found.append(bytes(cluster.ask(address, RequestCode.PULL_MESSAGE, fields).body))
        yield found


def read(
    broker: FakeBroker, start: int, end: int, *, is_fatal: bool = True, tags: str = "*"
) -> list[int]:
    queue = QueueRange(MessageQueue(TOPIC, "b", 0), start, end)
    wanted, loss = Wanted(tags=tags, pull_rows=64), LossRule(is_fatal=is_fatal)
    return numbers(read_ranges(as_any(broker), [queue], wanted, OFFSETS, loss))


@pytest.mark.parametrize("per_answer", [1, 7, 32, 64])
def test_every_offset_comes_once_and_in_order(records: list[bytes], per_answer: int) -> None:
    assert read(FakeBroker(records, per_answer=per_answer), 3, 290) == list(range(3, 290))


def test_a_lost_connection_is_made_again_and_nothing_comes_twice(records: list[bytes]) -> None:
    broker = FakeBroker(records, per_answer=8)
    broker.breaks = [5, 0, 1, 12]
    assert read(broker, 0, COUNT) == list(range(COUNT))
    assert broker.renewed == 4, "it may have moved"


def test_who_never_answers_is_given_up_and_named(records: list[bytes]) -> None:
    broker = FakeBroker(records, per_answer=8)
    broker.breaks = [2, 0, 0, 0]
    with pytest.raises(RemotingError, match="queue 0: nothing from offset 16 on after 3 tries"):
        read(broker, 0, COUNT)


def test_a_busy_broker_is_asked_again_and_a_refusal_is_not(records: list[bytes]) -> None:
    broker = FakeBroker(records)
    broker.codes = [int(ResponseCode.SYSTEM_BUSY), int(ResponseCode.FLOW_CONTROL)]
    assert read(broker, 0, 40) == list(range(40))
    broker.codes = [int(ResponseCode.SYSTEM_ERROR)]
    with pytest.raises(ResponseError, match=r"refuses to give topic kept, queue 0.*as told"):
        read(broker, 0, 40)


def test_what_retention_took_is_loss_with_its_range(
    records: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(DataLossError, match="offsets 10 to 99 are gone"):
        read(FakeBroker(records, low=100), 10, 120)
    with caplog.at_level(logging.WARNING):
        assert read(FakeBroker(records, low=100), 10, 120, is_fatal=False) == list(range(100, 120))
    assert "offsets 10 to 99 are gone" in caplog.text
    with caplog.at_level(logging.WARNING):
        assert read(FakeBroker(records, low=100), 10, 90, is_fatal=False) == []


def test_a_queue_that_ends_early_is_loss(records: list[bytes]) -> None:
    with pytest.raises(DataLossError, match="ends at 300"):
        read(FakeBroker(records), 290, 310)
    assert read(FakeBroker(records), 290, 310, is_fatal=False) == list(range(290, 300))
    assert read(FakeBroker(records), 305, 310, is_fatal=False) == []


def test_a_hole_is_loss_unless_a_filter_made_it(records: list[bytes]) -> None:
    holed = [*records[:20], b"", b"", *records[22:]]
    with pytest.raises(DataLossError, match="2 of the offsets"):
        read(FakeBroker(holed), 0, 60)
    wanted = [*range(20), *range(22, 60)]
    assert read(FakeBroker(holed), 0, 60, is_fatal=False) == wanted


def test_a_torn_answer_is_an_error(records: list[bytes]) -> None:
    torn = [*records[:20], records[20][:-3], *records[21:]]
    with pytest.raises(MQError):
        read(FakeBroker(torn), 0, 60)


def test_a_broker_that_makes_no_progress_is_given_up(records: list[bytes]) -> None:
    with pytest.raises(RemotingError, match="with the next offset 0"):
        read(FakeBroker(records, per_answer=0), 0, 60)
