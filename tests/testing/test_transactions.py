"""Our producers of transactions, both faces, against a broker inside the test."""

import asyncio
import threading

import pytest

import mqcore
from mqcore import Message, ReceivedMessage, aio
from mqcore.testing import Broker

# However slowly a producer answers, no round gives up.
TIRELESS = {"transactionCheckMax": "1000000"}


def bodies(broker: Broker, topic: str = "t") -> list[bytes]:
    return sorted(message.body for message in broker.messages(topic))


def work_that_fails(producer: mqcore.TransactionProducer) -> None:
    with producer.transaction() as transaction:
        transaction.send(Message("t", b"rolled back"))
        raise KeyError("the work failed")


def test_the_blocking_producer_commits_rolls_back_and_is_asked() -> None:
    asked = threading.Event()

    def check(message: ReceivedMessage) -> bool:
        asked.set()
        return message.body == b"asked, done"

    with (
        Broker(TIRELESS) as broker,
        mqcore.TransactionProducer(broker.namesrv, group="p", check=check) as producer,
    ):
        broker.create_topic("t", queues=1)
        with producer.transaction() as transaction:
            transaction.send(Message("t", b"committed"))
        with pytest.raises(KeyError):
            work_that_fails(producer)
        for body in (b"asked, done", b"asked, undone"):
            producer.send_in_transaction(Message("t", body), lambda *_: None)
        broker.advance(60)
        assert asked.wait(30)
        # The answers leave without being waited for: the next round finds them, or asks again.
        while len(bodies(broker)) < 2:
            broker.advance(60)
        assert bodies(broker) == [b"asked, done", b"committed"]


def test_the_asyncio_producer_finds_its_transactions_after_a_kill() -> None:
    async def run() -> None:
        answered = asyncio.Event()

        async def check(message: ReceivedMessage) -> bool:
            answered.set()
            return message.body == b"left behind"

        async with Broker(TIRELESS) as broker:
            await broker.create_topic("t", queues=1)
            async with aio.TransactionProducer(broker.namesrv, group="p", check=check) as first:
                await first.send_in_transaction(Message("t", b"left behind"), lambda *_: None)
            await broker.kill()
            await broker.restart()
            async with aio.TransactionProducer(broker.namesrv, group="p", check=check) as second:
                async with second.transaction() as transaction:
                    await transaction.send(Message("t", b"new"))
                while len(await broker.messages("t")) < 2:
                    await broker.advance(60)
            assert answered.is_set()
            found = {message.body for message in await broker.messages("t")}
            assert found == {b"new", b"left behind"}

    asyncio.run(run())
