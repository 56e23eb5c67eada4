"""Topics of batch queues (`queue.type=BatchCQ`): made, sent to, read, through stops and kills."""

import asyncio
import shutil
from collections.abc import Mapping

import mqcore
from live_broker import batch_fields
from mqcore import Message
from mqcore.native import Command
from mqcore.remoting import Client, RequestCode
from mqcore.testing import Broker

PATIENCE_S = 20.0


def ask(broker: Broker, code: int, ext: Mapping[str, object], body: bytes = b"") -> Command:
    texts = {name: str(value) for name, value in ext.items()}

    async def call() -> Command:
        async with Client() as client:
            return await client.call(broker.address, code, texts, body, timeout_s=PATIENCE_S)

    return asyncio.run(call())


def create(broker: Broker, topic: str, attributes: str) -> Command:
    ext = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": 1,
        "writeQueueNums": 1,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "attributes": attributes,
    }
    return ask(broker, RequestCode.UPDATE_AND_CREATE_TOPIC, ext)


def send_batch(broker: Broker, topic: str, *bodies: bytes) -> Command:
    """Sends a batch as a client of 5.x does: it has a key of its own."""
    body = b"".join(
        b"".join(number.to_bytes(4, "big") for number in (22 + len(part), 0, 0, 0, len(part)))
        + part
        + bytes(2)
        for part in bodies
    )
    return ask(broker, RequestCode.SEND_BATCH_MESSAGE, batch_fields(topic), body)


def send_all(broker: Broker, topic: str, number: int) -> list[bytes]:
    """Sends a message, a batch of 5.x, and batches of our client; returns the bodies."""
    alone, batch, parts, keyed = (
        [b"%d-%s-%d" % (number, kind, at) for at in range(count)]
        for kind, count in ((b"alone", 1), (b"batch", 3), (b"part", 2), (b"keyed", 4))
    )
    with mqcore.Producer(broker.namesrv, group="p") as producer:
        producer.send(Message(topic, alone[0], keys="k"))
        answer = send_batch(broker, topic, *batch)
        assert (answer.code, answer.ext["batchUniqId"]) == (0, "BATCH")
        (result,) = producer.send_batch([Message(topic, body) for body in parts])
        assert result.batch_id is None
        assert len(result.offset_message_id.split(",")) == len(parts)
    with mqcore.Producer(broker.namesrv, group="q", batch_keys=True) as producer:
        (result,) = producer.send_batch([Message(topic, body) for body in keyed])
        assert len({result.batch_id, *result.message_id.split(",")}) == len(keyed) + 1
        assert len(result.offset_message_id) == 32
    return alone + batch + parts + keyed


def read(broker: Broker, topic: str, start: int, count: int) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    with mqcore.PullConsumer(broker.namesrv, group="g") as consumer:
        (queue,) = consumer.topic_queues(topic)
        consumer.seek(queue, start)
        consumer.assign([queue])
        while len(found) < count:
            messages = consumer.poll(PATIENCE_S)
            assert messages, f"{len(found)} of {count}"
            found += [(message.queue_offset, message.body) for message in messages]
    return found


def test_a_topic_of_batch_queues_lives_through_stops_kills_and_the_loss_of_its_queues() -> None:
    with Broker() as broker:
        assert create(broker, "b", "+queue.type=BatchCQ").code == 0
        sent: list[bytes] = []
        for number in range(4):
            sent += send_all(broker, "b", number)
            assert read(broker, "b", 0, len(sent)) == list(enumerate(sent))
            # From the middle of a batch on, though the broker gives all of it.
            assert read(broker, "b", 2, len(sent) - 2) == list(enumerate(sent))[2:]
            if number in (1, 3):
                broker.kill()
            if number == 3:
                shutil.rmtree(broker.directory / "batchconsumequeue")
            broker.restart()
        assert read(broker, "b", 0, len(sent)) == list(enumerate(sent))
        assert (broker.directory / "batchconsumequeue" / "b" / "0").is_dir()
        assert not (broker.directory / "consumequeue" / "b").exists()


def test_a_topic_is_made_with_batch_queues_or_never_has_them() -> None:
    with Broker() as broker:
        assert create(broker, "plain", "").code == 0
        refused = create(broker, "plain", "+queue.type=BatchCQ")
        assert "unchangeable attribute" in (refused.remark or "")
        assert create(broker, "b", "+queue.type=BatchCQ").code == 0
        refused = create(broker, "b", "-queue.type")
        assert "unchangeable attribute" in (refused.remark or "")
        first = send_all(broker, "b", 0)
        # What is not in its queue yet when a topic is deleted comes into that of the next one.
        assert read(broker, "b", 0, len(first)) == list(enumerate(first))
        assert ask(broker, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "b"}).code == 0
        # Made anew with plain queues: a batch is its messages again.
        assert create(broker, "b", "").code == 0
        answer = send_batch(broker, "b", b"x", b"y")
        assert (answer.code, "batchUniqId" in answer.ext) == (0, False)
        assert read(broker, "b", 0, 2) == [(0, b"x"), (1, b"y")]
        assert ask(broker, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "b"}).code == 0
        assert create(broker, "b", "+queue.type=BatchCQ").code == 0
        again = send_all(broker, "b", 1)
        assert read(broker, "b", 0, len(again)) == list(enumerate(again))
        assert len(first) == len(again)
