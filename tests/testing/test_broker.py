"""The broker for tests: it starts, is disturbed, ends, and is gone."""

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqcore import Producer, ReceivedMessage, aio
from mqcore.client.message import Message
from mqcore.client.results import SendResult
from mqcore.errors import MQError, SendError, UsageError
from mqcore.model.topics import RETRY_PREFIX
from mqcore.testing import Broker, Inbox


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def sent(broker: Broker, *messages: Message, **settings: Any) -> list[SendResult]:
    async def send() -> list[SendResult]:
        async with aio.Producer(broker.namesrv, group="p", **settings) as producer:
            return [await producer.send(message) for message in messages]

    return asyncio.run(send())


def bodies(broker: Broker, topic: str = "t") -> list[bytes]:
    return sorted(message.body for message in broker.messages(topic))


def test_what_is_sent_is_there(broker: Broker) -> None:
    broker.create_topic("t", queues=1)
    sent(broker, Message("t", b"one"), Message("t", b"two"))
    assert bodies(broker) == [b"one", b"two"]
    assert bodies(broker, "none") == []


def test_a_restart_keeps_addresses_and_messages(broker: Broker) -> None:
    addresses = broker.namesrv, broker.address
    sent(broker, Message("t", b"one"))
    broker.restart()
    assert (broker.namesrv, broker.address) == addresses
    assert bodies(broker) == [b"one"]
    sent(broker, Message("t", b"two"))
    assert bodies(broker) == [b"one", b"two"]


def test_a_kill_leaves_an_unclean_store_that_has_everything(broker: Broker) -> None:
    sent(broker, *(Message("t", b"%d" % number) for number in range(100)))
    broker.kill()
    assert not broker.is_running
    assert (broker.directory / "abort").exists()
    assert not (broker.directory / "queues.manifest").exists()
    with socket.socket() as probe:
        host, port = broker.address.split(":")
        assert probe.connect_ex((host, int(port))) != 0
    broker.restart()
    assert sorted(bodies(broker), key=int) == [b"%d" % number for number in range(100)]


def test_a_kill_answers_nobody(broker: Broker) -> None:
    async def run() -> None:
        async with aio.Producer(broker.namesrv, group="p", retries=0) as producer:
            await producer.send(Message("t", b"one"))
            await asyncio.to_thread(broker.kill)
            with pytest.raises(MQError):
                await producer.send(Message("t", b"two"), timeout_s=1.0)

    asyncio.run(run())


def test_sends_are_refused_as_often_as_asked(broker: Broker) -> None:
    sent(broker, Message("t", b"zero"))
    broker.fail_sends(2)
    with pytest.raises(SendError, match="refused by a test"):
        sent(broker, Message("t", b"one"), retries=0)
    with pytest.raises(SendError):
        sent(broker, Message("new", b"two"), retries=0)
    sent(broker, Message("t", b"three"), Message("new", b"four"), retries=0)
    assert bodies(broker) == [b"three", b"zero"]
    assert bodies(broker, "new") == [b"four"]


def test_a_delayed_message_comes_when_time_has_passed(broker: Broker) -> None:
    # Level 5 waits a minute.
    sent(broker, Message("t", b"later", delay_level=5))
    broker.advance(30)
    assert bodies(broker) == []
    sent(broker, Message("t", b"later still", delay_level=5))
    broker.advance(31)
    assert bodies(broker) == [b"later"]
    broker.advance(30)
    assert bodies(broker) == [b"later", b"later still"]


def test_time_does_not_go_back(broker: Broker) -> None:
    with pytest.raises(ValueError, match="does not go back"):
        broker.advance(-1)


def test_behind_a_partition_nothing_is_answered_until_it_ends(broker: Broker) -> None:
    async def run() -> None:
        async with aio.Producer(broker.namesrv, group="p", retries=0) as producer:
            await producer.send(Message("t", b"one"))
            with broker.partition():
                with pytest.raises(MQError):
                    await producer.send(Message("t", b"two"), timeout_s=0.2)
                # Who comes anew waits too.
                async with aio.Producer(broker.namesrv, group="q", retries=0) as late:
                    with pytest.raises(MQError):
                        await late.send(Message("t", b"three"), timeout_s=0.2)
            await producer.send(Message("t", b"four"))

    asyncio.run(run())
    # What was on its way arrived afterwards: its sender could not know.
    assert {b"one", b"four"} <= set(bodies(broker))


def test_after_dropped_connections_a_client_comes_again(broker: Broker) -> None:
    async def run() -> None:
        async with aio.Producer(broker.namesrv, group="p") as producer:
            await producer.send(Message("t", b"one"))
            await asyncio.to_thread(broker.drop_connections)
            await producer.send(Message("t", b"two"))

    asyncio.run(run())
    assert bodies(broker) == [b"one", b"two"]


def test_the_async_face_has_the_same_names() -> None:
    async def run() -> None:
        async with Broker() as broker:
            await broker.create_topic("t", queues=1)
            async with aio.Producer(broker.namesrv, group="p") as producer:
                await producer.send(Message("t", b"one"))
                await broker.restart()
                await broker.drop_connections()
                await producer.send(Message("t", b"two", delay_level=3))
                await broker.advance(10)
            async with broker.partition():
                pass
            assert [message.body for message in await broker.messages("t")] == [b"one", b"two"]
            assert await broker.offsets("g", "t") == {}

    asyncio.run(run())


def test_two_brokers_make_a_cluster() -> None:
    async def run(namesrv: str) -> set[str]:
        async with aio.Producer(namesrv, group="p") as producer:
            sent = [await producer.send(Message("both", b"x")) for _ in range(8)]
        return {result.queue.broker_name for result in sent}

    with (
        Broker({"brokerName": "a"}) as first,
        Broker({"brokerName": "b"}, namesrv=first.namesrv) as second,
    ):
        assert second.namesrv == first.namesrv
        first.create_topic("both", queues=2)
        second.create_topic("both", queues=2)
        assert asyncio.run(run(first.namesrv)) == {"a", "b"}
        second.kill()
        assert first.is_running


def test_each_broker_keeps_its_own_logs() -> None:
    level = logging.getLogger("mqcore").level
    with Broker() as first:
        with Broker() as second:
            assert f"serves {first.address}" in first.log_text
            assert f"serves {second.address}" not in first.log_text
            assert f"serves {second.address}" in second.log_text
        # The end of one is none of the other's business.
        before = len(first.logs)
        first.restart()
        assert len(first.logs) > before
    assert logging.getLogger("mqcore").level == level


def broker_threads() -> set[threading.Thread]:
    """Returns the threads of all brokers here; some belong to fixtures of the session."""
    return {each for each in threading.enumerate() if each.name.startswith("mqcore-test-")}


def test_nothing_is_left_of_it() -> None:
    before = broker_threads()
    with Broker() as broker:
        directory = broker.directory
        assert directory.is_dir()
    broker.close()
    assert not directory.exists()
    assert broker_threads() <= before
    with pytest.raises(MQError, match="was closed"):
        broker.start()


def test_a_directory_of_ones_own_stays(tmp_path: Path) -> None:
    with Broker(directory=tmp_path) as broker:
        sent(broker, Message("t", b"one"))
    with Broker(directory=tmp_path) as broker:
        assert bodies(broker) == [b"one"]


def test_settings_are_official_keys() -> None:
    with Broker({"autoCreateTopicEnable": "false"}) as broker, pytest.raises(MQError):
        sent(broker, Message("nowhere", b"x"))


def test_what_cannot_start_is_closed() -> None:
    before = broker_threads()
    with pytest.raises(MQError):
        Broker({"messageDelayLevel": "nonsense"}).start()
    assert broker_threads() <= before


def test_a_broker_that_was_not_started_is_an_error() -> None:
    before = threading.active_count()
    broker = Broker()
    assert threading.active_count() == before
    try:
        with pytest.raises(MQError, match="context manager"):
            _ = broker.namesrv
        with pytest.raises(MQError, match="context manager"):
            _ = broker.directory
        with pytest.raises(MQError, match="restart"):
            broker.kill()
    finally:
        broker.close()


def test_the_retry_topic_is_read_like_another(broker: Broker) -> None:
    assert broker.messages(f"{RETRY_PREFIX}g") == []


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"autoCreateTopicEnabel": "false"},
            "no key 'autoCreateTopicEnabel': did you mean autoCreateTopicEnable?",
        ),
        ({"listenPort": 0.5}, "settings: listenPort: a str, bool or int is expected, not 0.5"),
        ({"listenPort": None}, "listenPort: a str, bool or int is expected, not None"),
        ("autoCreateTopicEnable", "settings: a mapping is expected, not str"),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        Broker(settings)
    assert str(caught.value).endswith(expected)


def test_values_may_be_truths_and_numbers() -> None:
    settings = {"autoCreateTopicEnable": False, "defaultTopicQueueNums": 2}
    with Broker(settings) as broker, Producer(broker.namesrv) as producer:
        with pytest.raises(MQError, match="autoCreateTopicEnable=true"):
            producer.send(Message("missing", b"x"))
        broker.create_topic("there")
        assert producer.send(Message("there", b"x")).is_ok
    with Broker({"autoCreateTopicEnable": True}) as broker, Producer(broker.namesrv) as producer:
        assert producer.send(Message("missing", b"x")).is_ok


def test_stored_messages_are_those_that_consumers_get() -> None:
    with Broker(log_level="WARNING") as broker, Producer(broker.namesrv) as producer:
        message = Message("kinds", b"x" * 9000, tags="a", keys="k", properties={"p": "1"})
        sent = producer.send(message)
        with Inbox(broker.namesrv, "kinds") as inbox:
            (came,) = inbox.take()
        (stored,) = broker.messages("kinds")
        assert type(stored) is type(came) is ReceivedMessage
        # Inflated, as a consumer sees it.
        assert stored.body == came.body == b"x" * 9000
        assert stored.properties == came.properties
        assert (stored.queue, stored.message_id) == (came.queue, sent.message_id)
        assert broker.logs == []


@pytest.mark.parametrize("time", ["1m", None, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(broker: Broker, time: Any) -> None:
    with pytest.raises(UsageError, match=r"^time: seconds, or a timedelta"):
        broker.advance(time)


@pytest.mark.parametrize("times", [-1, "2", None])
def test_a_number_of_refusals_is_one(broker: Broker, times: Any) -> None:
    with pytest.raises(UsageError, match=r"^times: a number from 0 on"):
        broker.fail_sends(times)
