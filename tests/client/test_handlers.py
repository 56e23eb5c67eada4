"""Handlers that cannot work are refused before there is a message."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from threading import Event
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

import mqcore
from mqcore import ReceivedMessage, aio
from mqcore.errors import UsageError
from mqcore.testing import Broker


def _of_nothing() -> None:
    pass


def _of_two(message: ReceivedMessage, producer: object) -> None:
    del message, producer


def _by_name(*, message: ReceivedMessage) -> None:
    del message


async def _awaited_of_two(message: ReceivedMessage, producer: object) -> None:
    del message, producer


def _with_yield(message: ReceivedMessage) -> Iterator[bytes]:
    yield message.body


async def _with_async_yield(message: ReceivedMessage) -> AsyncIterator[bytes]:
    yield message.body


class _Callable:
    def __call__(self, message: ReceivedMessage) -> None:
        del message


def _made(kind: Any, handler: object, **options: Any) -> Any:
    return kind("127.0.0.1:1", group="g", topics="t", handler=handler, **options)


@pytest.mark.parametrize("kind", [mqcore.PushConsumer, aio.PushConsumer])
@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (None, "a callable is expected, not NoneType"),
        (_of_nothing, "the message, which _of_nothing does not take: too many positional"),
        (_of_two, "does not take: missing a required argument: 'producer'"),
        (_awaited_of_two, "does not take: missing a required argument: 'producer'"),
        (_by_name, "does not take: "),
        (_with_yield, "_with_yield has a yield"),
        (_with_async_yield, "_with_async_yield has a yield"),
    ],
)
def test_a_handler_that_cannot_be_called_is_refused(kind: Any, handler: object, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        _made(kind, handler)
    assert str(caught.value).startswith("handler: ")
    assert why in str(caught.value)


def test_a_handler_of_lists_is_asked_for_one() -> None:
    with pytest.raises(UsageError, match="one argument, a list of messages, which"):
        _made(mqcore.PushConsumer, _of_two, batch=8)


@pytest.mark.parametrize(
    "handler", [print, _Callable(), [].append, partial(_of_two, producer=1), lambda *_: None]
)
def test_whatever_takes_one_argument_is_a_handler(handler: Callable[..., None]) -> None:
    _made(mqcore.PushConsumer, handler)


class _WithFunc:
    """Has a `func` that is its own affair, as a mock has whatever is asked for."""

    def __call__(self, message: ReceivedMessage) -> None:
        del message

    @property
    def func(self) -> object:
        raise AssertionError("a handler's own attributes are none of ours")


@pytest.mark.parametrize("hooks", [(), (mqcore.ConsumeHook(),)])
def test_attributes_of_a_handler_are_left_alone(hooks: Any) -> None:
    _made(mqcore.PushConsumer, _WithFunc(), hooks=hooks)


@pytest.mark.parametrize("kind", [Mock, AsyncMock])
def test_what_a_mock_returns_is_no_answer_and_is_reported(
    kind: type[Mock], caplog: pytest.LogCaptureFixture
) -> None:
    called, done = Event(), Event()

    def answer(_: ReceivedMessage) -> object:
        called.set()
        return Mock()

    handler: Any = kind(side_effect=answer)
    with Broker() as broker, mqcore.Producer(broker.namesrv, group="p") as producer:
        producer.send("t", b"one")
        options: dict[str, Any] = {"handler": handler, "topics": "t", "consume_from": "earliest"}
        with mqcore.PushConsumer(broker.namesrv, group="g", **options):
            assert called.wait(10)
        handler.side_effect = None
        handler.return_value = None
        options["hooks"] = [_Heard(done)]
        with mqcore.PushConsumer(broker.namesrv, group="h", **options):
            assert done.wait(10)
    assert "the handler returned <" in caplog.text
    assert "None, True, False, Retry() or Reject() are expected" in caplog.text
    assert handler.call_count == 2


class _Heard(mqcore.ConsumeHook):
    """Notes that a message was done."""

    def __init__(self, done: Event) -> None:
        self._done = done

    def after_consume(self, context: mqcore.ConsumeContext) -> None:
        if context.is_done:
            self._done.set()


@pytest.mark.parametrize("kind", [mqcore.TransactionProducer, aio.TransactionProducer])
@pytest.mark.parametrize("check", [_of_nothing, _of_two, _with_yield])
def test_a_check_that_cannot_be_called_is_refused(kind: Any, check: Any) -> None:
    with pytest.raises(UsageError, match=r"^check: "):
        kind("127.0.0.1:1", group="g", check=check)
    with pytest.raises(UsageError, match=r"^check: "):
        kind("127.0.0.1:1", group="g").on_check(check)


def test_work_that_cannot_be_called_sends_no_half_message() -> None:
    message = mqcore.Message("t", b"one")
    wrong: list[Any] = [lambda _: True, _of_nothing, None, "work"]

    async def with_asyncio(namesrv: str) -> None:
        async with aio.TransactionProducer(namesrv, group="g") as producer:
            for work in wrong:
                with pytest.raises(UsageError, match=r"^work: "):
                    await producer.send_in_transaction(message, work)

    with Broker() as broker:
        with mqcore.TransactionProducer(broker.namesrv, group="g") as producer:
            for work in wrong:
                with pytest.raises(UsageError, match=r"^work: "):
                    producer.send_in_transaction(message, work)
        asyncio.run(with_asyncio(broker.namesrv))
        assert broker.messages("RMQ_SYS_TRANS_HALF_TOPIC") == []
