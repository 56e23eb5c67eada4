"""What is to be sent as a `Message`, or as a topic and a body: in each method, of both APIs."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mqcore
from interop.patience import eventually
from mqcore import Message, ReceivedMessage, TransactionState, aio
from mqcore.errors import MessageError
from mqcore.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker for all of them."""
    with Broker() as running:
        yield running


def _bodies(broker: Broker, topic: str) -> Counter[bytes]:
    return Counter(message.body for message in broker.messages(topic))


def test_a_topic_and_a_body_are_sent(broker: Broker) -> None:
    broker.create_topic("plain", queues=2)
    with mqcore.Producer(broker.namesrv, group="g") as producer:
        assert producer.send("plain", b"1").is_ok
        queue = producer.queues("plain")[1]
        assert producer.send("plain", "2", queue=queue, timeout_s=10.0).queue == queue
        producer.send_oneway("plain", bytearray(b"3"), queue=queue)
        ticket = producer.send_soon("plain", b"4")
        producer.flush()
        assert ticket.result().is_ok
        (batch,) = producer.send_batch("plain", [b"5", "6"], queue=queue)
        assert batch.is_ok
        # Behind it on that queue, so that all are stored.
        assert producer.send(Message("plain", b"7"), queue=queue).is_ok
    assert set(_bodies(broker, "plain")) >= {b"1", b"2", b"4", b"5", b"6", b"7"}
    assert eventually_has(broker, "plain", b"3")


def eventually_has(broker: Broker, topic: str, body: bytes) -> bool:
    """Returns whether a message that was sent one way arrives."""
    return eventually(lambda: body in _bodies(broker, topic), bool)


def test_the_asyncio_producer_takes_both_forms(broker: Broker) -> None:
    broker.create_topic("both", queues=1)

    async def work() -> None:
        async with aio.Producer(broker.namesrv, group="g") as producer:
            assert (await producer.send("both", b"1")).is_ok
            assert (await producer.send(Message("both", b"2"), timeout_s=10.0)).is_ok
            await producer.send_oneway("both", b"3")
            assert (await producer.send_soon("both", b"4")).is_ok
            await producer.send_batch("both", [b"5", b"6"])
            await producer.send("both", b"7")
        async with aio.Producer(broker.namesrv, group="g2", batching=True) as producer:
            assert (await producer.send("both", b"8")).is_ok

    asyncio.run(work())
    assert _bodies(broker, "both") == Counter([b"%d" % n for n in range(1, 9)])


def test_transactions_take_both_forms(broker: Broker) -> None:
    broker.create_topic("halves", queues=1)
    with (
        mqcore.TransactionProducer(broker.namesrv, group="gt") as producer,
        producer.transaction() as transaction,
    ):
        transaction.send("halves", b"1")
        transaction.send(Message("halves", b"2"))

    async def work() -> None:
        async with (
            aio.TransactionProducer(broker.namesrv, group="gt") as producer,
            producer.transaction() as transaction,
        ):
            await transaction.send("halves", b"3")
            assert transaction.state is TransactionState.UNKNOWN

    asyncio.run(work())
    for body in (b"1", b"2", b"3"):
        assert eventually_has(broker, "halves", body)


def test_a_request_takes_both_forms(broker: Broker) -> None:
    broker.create_topic("asked", queues=1)
    with mqcore.Producer(broker.namesrv, group="ga") as producer:

        def answer(message: ReceivedMessage) -> None:
            producer.reply(message, message.body.upper())

        with mqcore.PushConsumer(
            broker.namesrv,
            group="gc",
            topics="asked",
            handler=answer,
            consume_from=mqcore.ConsumeFrom.FIRST_OFFSET,
        ):
            assert producer.request("asked", b"why", timeout_s=20.0).body == b"WHY"
            assert producer.request(Message("asked", b"how"), timeout_s=20.0).body == b"HOW"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda producer: producer.send("t"), r"a topic and a body: \('t', b'...'\)"),
        (lambda producer: producer.send(Message("t", b"x"), b"y"), "a topic is expected before"),
        (lambda producer: producer.send(b"t", b"y"), "a topic is expected before"),
        (lambda producer: producer.send(None), "a mqcore.Message is expected, not NoneType"),
        (lambda producer: producer.send("t", 5), "body"),
        (lambda producer: producer.send("t", b""), "the body is empty"),
        (lambda producer: producer.send_soon("t"), "a mqcore.Message is expected"),
        (lambda producer: producer.send_oneway("t"), "a mqcore.Message is expected"),
        (lambda producer: producer.request("t"), "a mqcore.Message is expected"),
        (lambda producer: producer.send_batch("t"), "bodies are missing"),
        (lambda producer: producer.send_batch("t", b"x"), "bodies are missing"),
        (lambda producer: producer.send_batch(Message("t", b"x")), "not one Message: give a list"),
        (lambda producer: producer.send_batch(5), "not one int: give a list"),
        (lambda producer: producer.send_batch([Message("t", b"x")], [b"y"]), "bodies already"),
    ],
)
def test_what_is_neither_form_is_refused(
    broker: Broker, call: Callable[[Any], Any], text: str
) -> None:
    with (
        mqcore.Producer(broker.namesrv, group="g") as producer,
        pytest.raises(MessageError, match=text),
    ):
        call(producer)

    async def work() -> None:
        async with aio.Producer(broker.namesrv, group="g") as other:
            with pytest.raises(MessageError, match=text):
                await call(other)

    asyncio.run(work())
