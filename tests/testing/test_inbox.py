"""What a group received, as a test takes it."""

import time

import pytest

from mqcore import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage
from mqcore.errors import MQError
from mqcore.model.topics import SCHEDULE_TOPIC
from mqcore.testing import Broker, Inbox


@pytest.fixture
def broker(mqcore_session_broker: Broker) -> Broker:
    return mqcore_session_broker


def test_messages_are_taken_in_their_order(broker: Broker) -> None:
    broker.create_topic("inbox-order", queues=1)
    with (
        Producer(broker.namesrv) as producer,
        Inbox(broker.namesrv, "inbox-order", orderly=True) as inbox,
    ):
        for number in range(5):
            producer.send(Message("inbox-order", b"%d" % number))
        assert [message.body for message in inbox.take(2)] == [b"0", b"1"]
        assert [message.body for message in inbox.take(3)] == [b"2", b"3", b"4"]
        assert len(inbox.messages) == 5


def test_what_was_sent_before_is_received_too(broker: Broker) -> None:
    broker.create_topic("inbox-before")
    with Producer(broker.namesrv) as producer:
        producer.send(Message("inbox-before", b"early", tags="a"))
        producer.send(Message("inbox-before", b"other", tags="b"))
    with Inbox(broker.namesrv, "inbox-before", expression="a") as inbox:
        (message,) = inbox.take()
        assert (message.body, message.tags) == (b"early", "a")


def test_what_does_not_come_is_an_error(broker: Broker) -> None:
    broker.create_topic("inbox-none")
    came = pytest.raises(MQError, match=r"0 of 1 messages came within 0\.05 s")
    with Inbox(broker.namesrv, "inbox-none") as inbox, came:
        inbox.take(timeout_s=0.05)


def test_a_group_that_cannot_be_joined_is_an_error(broker: Broker) -> None:
    inbox = Inbox(broker.namesrv, "t", group="no good name!")
    with pytest.raises(MQError):
        inbox.start()
    inbox.close()


def test_a_retry_comes_when_time_has_passed(mqcore_broker: Broker) -> None:
    attempts: list[int] = []

    def handle(message: ReceivedMessage) -> None:
        attempts.append(message.attempt)
        if message.attempt == 1:
            raise ValueError("the first time it fails")

    broker = mqcore_broker
    broker.create_topic("again")
    with (
        Producer(broker.namesrv) as producer,
        PushConsumer(
            broker.namesrv,
            group="g",
            topics="again",
            handler=handle,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ),
        Inbox(broker.namesrv, "%RETRY%g", group="watcher") as retried,
    ):
        producer.send(Message("again", b"one"))
        last_s = time.monotonic() + 30
        while not broker.messages(SCHEDULE_TOPIC):
            assert time.monotonic() < last_s, "it was not given back"
        broker.advance(10)
        # The first retry is ten seconds later: it is there at once.
        retried.take()
        while attempts != [1, 2]:
            assert time.monotonic() < last_s, attempts
