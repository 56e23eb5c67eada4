"""Tries that wait: a broker that is restarted, or cut off for a while, under sends that go on."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import mqcore
from client.serving import scripted
from loops import DEADLINE_S
from mqcore import Message, aio
from mqcore.errors import ClosedError, MQError, SendError, SendReason
from mqcore.remoting import Request
from mqcore.testing import Broker

_SENDERS = 4
# Sends of each sender before and after each restart.
_SENDS = 25
_RESTARTS = 2
_WINDOWS = {"without a window": "0", "with a window": "10"}


class Progress:
    """Counts sends, so that the broker is restarted in their midst; safe between threads."""

    def __init__(self) -> None:
        self.errors: list[MQError] = []
        self.sent: list[bytes] = []
        self.is_over = threading.Event()
        self._changed = threading.Condition()

    def note(self, body: bytes, error: MQError | None) -> None:
        with self._changed:
            if error is None:
                self.sent.append(body)
            else:
                self.errors.append(error)
            self._changed.notify_all()

    def wait_for_more(self, count: int) -> None:
        wanted = len(self.sent) + count
        with self._changed:
            is_there = self._changed.wait_for(
                lambda: bool(self.errors) or len(self.sent) >= wanted, DEADLINE_S
            )
        assert is_there
        assert self.errors == []


def _block(namesrv: str, progress: Progress) -> None:
    def send(producer: mqcore.Producer, name: int) -> None:
        number = 0
        while not progress.is_over.is_set():
            body = b"%d-%d" % (name, number)
            number += 1
            try:
                # Every other message must go to one queue.
                producer.send(Message("t", body, sharding_key="k" if number % 2 else None))
            except MQError as error:
                progress.note(body, error)
            else:
                progress.note(body, None)

    with mqcore.Producer(namesrv, group="g", timeout_s=DEADLINE_S) as producer:
        threads = [threading.Thread(target=send, args=(producer, at)) for at in range(_SENDERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _await(namesrv: str, progress: Progress, **options: Any) -> None:
    async def send(producer: aio.Producer, name: int) -> None:
        number = 0
        while not progress.is_over.is_set():
            body = b"%d-%d" % (name, number)
            number += 1
            try:
                await producer.send(Message("t", body))
            except MQError as error:
                progress.note(body, error)
            else:
                progress.note(body, None)

    async def work() -> None:
        async with aio.Producer(namesrv, group="g", timeout_s=DEADLINE_S, **options) as producer:
            await asyncio.gather(*(send(producer, at) for at in range(_SENDERS)))

    asyncio.run(work())


def _gather(namesrv: str, progress: Progress) -> None:
    _await(namesrv, progress, batching=True)


@pytest.mark.parametrize("window", _WINDOWS.values(), ids=_WINDOWS)
@pytest.mark.parametrize("senders", [_block, _await, _gather])
def test_a_broker_that_is_restarted_fails_no_send(
    senders: Callable[[str, Progress], None], window: str
) -> None:
    with Broker({"deduplicationWindowMinutes": window}) as broker:
        broker.create_topic("t")
        progress = Progress()
        thread = threading.Thread(target=senders, args=(broker.namesrv, progress))
        thread.start()
        try:
            for _ in range(_RESTARTS):
                progress.wait_for_more(_SENDS)
                broker.restart()
            progress.wait_for_more(_SENDS)
        finally:
            progress.is_over.set()
            thread.join(DEADLINE_S)
        assert not thread.is_alive()
        copies = Counter(message.body for message in broker.messages("t"))
        ids = Counter(message.properties["UNIQ_KEY"] for message in broker.messages("t"))
    # Everything is there, and copies have one id.
    assert progress.errors == []
    assert copies.keys() == set(progress.sent)
    assert len(ids) == len(copies)
    if window != "0":
        assert set(copies.values()) == {1}


@pytest.mark.parametrize("window", _WINDOWS.values(), ids=_WINDOWS)
def test_answers_that_come_too_late_make_copies_that_the_window_leaves_out(window: str) -> None:
    """A broker that is cut off gets every try afterwards."""
    with (
        Broker({"deduplicationWindowMinutes": window}) as broker,
        mqcore.Producer(
            broker.namesrv, group="g", timeout_s=DEADLINE_S, try_timeout_s=0.1
        ) as producer,
    ):
        broker.create_topic("t")
        assert producer.send(Message("t", b"before")).attempts == 1
        results: list[mqcore.SendResult] = []
        tried = threading.Event()
        sender = threading.Thread(
            target=lambda: results.append(producer.send(Message("t", b"late")))
        )
        with broker.partition():
            sender.start()
            # Long enough for several tries; that there were some is asserted below.
            tried.wait(0.8)
        sender.join(DEADLINE_S)
        (result,) = results
        stored = Counter(message.body for message in broker.messages("t"))
    assert result.attempts > 1
    assert (stored[b"late"] > 1) is (window == "0")
    assert stored[b"late"] >= 1


def test_a_broker_that_is_busy_for_a_moment_gets_the_message_in_the_end() -> None:
    with Broker() as broker, mqcore.Producer(broker.namesrv, group="g") as producer:
        broker.create_topic("t")
        broker.fail_sends(4)
        assert producer.send(Message("t", b"x")).attempts == 5
        broker.fail_sends(3)
        with (
            mqcore.Producer(broker.namesrv, group="o", official_retries=True) as official,
            pytest.raises(SendError, match="in 3 tries"),
        ):
            official.send(Message("t", b"x"))


def test_one_try_means_one_try() -> None:
    with scripted() as server:
        server.send = lambda request: request.answer(2, "busy")
        with (
            mqcore.Producer(server.address, group="g", retries=0) as producer,
            pytest.raises(SendError, match="in 1 try: ") as caught,
        ):
            producer.send(Message("t", b"x"))
    assert len(caught.value.attempts) == 1


def test_closing_ends_a_send_that_waits_for_its_next_try() -> None:
    with scripted() as server:
        tried = threading.Event()

        def refuse(request: Request) -> Any:
            tried.set()
            return request.answer(2, "busy")

        server.send = refuse
        producer = mqcore.Producer(server.address, group="g", timeout_s=DEADLINE_S)
        producer.start()
        errors: list[MQError] = []

        def send() -> None:
            try:
                producer.send(Message("t", b"x"))
            except MQError as error:
                errors.append(error)

        sender = threading.Thread(target=send)
        sender.start()
        assert tried.wait(DEADLINE_S)
        producer.close()
        sender.join(DEADLINE_S)
        (error,) = errors
    assert isinstance(error, SendError | ClosedError)
    if isinstance(error, SendError):
        assert error.reason is SendReason.STOPPED
