"""Hooks around a consumer's handler, and the consumer's half of the message trace."""

import asyncio
import functools
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from client.model_cluster import record_of
from client.serving import Cluster, scripted, serving
from loops import run_on, until
from mqcore import ConsumeContext, ConsumeFrom, ConsumeHook, ConsumeResult, Message, Retry, aio
from mqcore.client import consume_hooks, trace
from mqcore.client.consume_hooks import Hooks
from mqcore.client.handler_jobs import is_coroutine_handler
from mqcore.client.instance import Instance
from mqcore.client.message import ReceivedMessage
from mqcore.client.outcomes import outcome_of
from mqcore.client.results import QueueRef
from mqcore.client.trace import Tracer
from mqcore.model.topics import TRACE_TOPIC
from mqcore.native import decode_records
from mqcore.remoting import Request, RequestCode

FIRST = ConsumeFrom.FIRST_OFFSET
SPAN: ContextVar[str] = ContextVar("SPAN", default="")


class Notes(ConsumeHook):
    """Remembers its calls, and sets a variable that the handler should see."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ConsumeContext]] = []

    def before_consume(self, context: ConsumeContext) -> None:
        context.notes["thread"] = threading.get_ident()
        SPAN.set("set by the hook")
        self.calls.append(("before", context))

    def after_consume(self, context: ConsumeContext) -> None:
        assert context.notes["thread"] == threading.get_ident()
        self.calls.append(("after", context))


class Broken(ConsumeHook):
    """Fails always."""

    def before_consume(self, context: ConsumeContext) -> None:
        raise RuntimeError(f"before {context}")

    def after_consume(self, context: ConsumeContext) -> None:
        raise RuntimeError(f"after {context}")


def message_of(topic: str = "T") -> ReceivedMessage:
    (record,) = decode_records(record_of(topic, 0, 7, b"x"))
    return ReceivedMessage(record, QueueRef(topic, "b", 0), topic)


def ended(handler: Any, timeout_ms: int = 0, argument: Any = None) -> tuple[Notes, Any]:
    """Calls a handler within hooks; returns their calls, and what came of it."""
    notes = Notes()
    is_single = argument is None
    argument = argument or message_of()
    hooks = Hooks("g", [Broken(), notes], timeout_ms)
    around = hooks.around(handler, is_single=is_single)
    assert is_coroutine_handler(around) is is_coroutine_handler(handler)
    try:
        value = around(argument)
        if asyncio.iscoroutine(value):
            value = asyncio.run(value)
    except BaseException as error:
        value = error
    assert [word for word, _ in notes.calls] == ["before", "after"]
    assert notes.calls[0][1] is notes.calls[1][1]
    return notes, value


def answers(kind: str, value: Any) -> Any:
    """Returns a handler of a kind that returns a value, or raises it."""

    def plain(found: Any) -> Any:
        del found
        assert SPAN.get() == "set by the hook"
        if isinstance(value, BaseException):
            raise value
        return value

    async def coroutine(found: Any) -> Any:
        await asyncio.sleep(0)
        return plain(found)

    def lazy(found: Any) -> Any:
        return coroutine(found)

    return {"plain": plain, "coroutine": coroutine, "lazy": lazy}[kind]


@pytest.mark.parametrize("kind", ["plain", "coroutine", "lazy"])
@pytest.mark.parametrize(
    ("value", "result"),
    [
        (None, ConsumeResult.SUCCESS),
        (True, ConsumeResult.SUCCESS),
        (False, ConsumeResult.FAILED),
        (Retry(), ConsumeResult.FAILED),
        (ValueError("v"), ConsumeResult.EXCEPTION),
        (7, ConsumeResult.RETURN_NULL),
    ],
)
def test_hooks_receive_how_a_call_ended(kind: str, value: Any, result: ConsumeResult) -> None:
    notes, answer = ended(answers(kind, value))
    # A hook changes nothing of what the consumer sees.
    assert answer is value
    context = notes.calls[1][1]
    assert context.result is result
    assert context.is_done is (result is ConsumeResult.SUCCESS)
    assert context.error is (value if isinstance(value, ValueError) else None)
    assert (context.group, [message.queue_offset for message in context.messages]) == ("g", [7])


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (None, ConsumeResult.TIME_OUT),
        (False, ConsumeResult.TIME_OUT),
        # The consumer cancels a coroutine that takes too long.
        (asyncio.CancelledError(), ConsumeResult.TIME_OUT),
        (ValueError("v"), ConsumeResult.EXCEPTION),
        (7, ConsumeResult.RETURN_NULL),
    ],
)
def test_a_call_that_took_too_long_is_reported(
    monkeypatch: pytest.MonkeyPatch, value: Any, result: ConsumeResult
) -> None:
    times = iter([1_000, 1_500])
    monkeypatch.setattr(consume_hooks, "wall_ms", lambda: next(times))
    notes, _ = ended(answers("plain", value), timeout_ms=500)
    context = notes.calls[1][1]
    assert (context.result, context.took_ms) == (result, 500)


def test_a_list_is_passed_as_it_is_and_without_hooks_nothing_is_between() -> None:
    batch = [message_of(), message_of()]
    notes, _ = ended(answers("plain", None), argument=batch)
    assert notes.calls[0][1].messages is batch
    handler = functools.partial(answers("plain", None))
    assert Hooks("g", [], 0).around(handler, is_single=True) is handler
    assert outcome_of(None).is_done


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A name server and a broker whose every delay is a second."""
    store_dir = tmp_path_factory.mktemp("store")
    with serving(store_dir, messageDelayLevel=" ".join(["1s"] * 18)) as running:
        yield running


async def traced_lines(cluster: Cluster, count: int, word: str) -> list[list[str]]:
    """Returns the lines of the trace that hold a word, as their fields, once there are enough."""
    found: list[list[str]] = []
    async with aio.PullConsumer(
        cluster.namesrv, group=f"reads-{word}", topics=TRACE_TOPIC, consume_from=FIRST
    ) as consumer:
        async for batch in consumer.batches():
            lines = [line for message in batch for line in message.body_text().split("\x02")]
            found += [line.split("\x01") for line in lines if word in line]
            if len(found) >= count:
                return found
    raise AssertionError(found)


@pytest.mark.parametrize("kind", ["plain", "orderly", "coroutine", "poll"])
def test_consuming_is_traced_beside_sending(cluster: Cluster, kind: str) -> None:
    async def work() -> None:
        topic = f"traced-{kind}"
        async with aio.Producer(cluster.namesrv, group=f"pg-{kind}", trace=True) as producer:
            sent = await producer.send(Message(topic, "x", keys=["k", "l"]))
        options: dict[str, Any] = {"group": topic, "topics": topic, "consume_from": FIRST}
        options["trace"] = True
        if kind == "poll":
            async with aio.PullConsumer(cluster.namesrv, **options) as polling:
                (message,) = await polling.poll(30.0)
                assert message.message_id == sent.message_id
        else:
            done = asyncio.Event()
            loop = asyncio.get_running_loop()

            def plain(message: ReceivedMessage) -> bool:
                if message.reconsume_times:
                    loop.call_soon_threadsafe(done.set)
                return bool(message.reconsume_times)

            async def coroutine(message: ReceivedMessage) -> bool:
                return plain(message)

            options["handler"] = coroutine if kind == "coroutine" else plain
            options["orderly"] = kind == "orderly"
            async with aio.PushConsumer(cluster.namesrv, suspend_s=0.01, **options):
                await done.wait()
        rounds = 1 if kind == "poll" else 2
        lines = await traced_lines(cluster, 2 * rounds + 1, sent.message_id)
        (pub,) = [line for line in lines if line[0] == "Pub"]
        assert pub[3:6] == [f"pg-{kind}", topic, sent.message_id]
        befores = [line for line in lines if line[0] == "SubBefore"]
        assert [line[3] for line in befores] == [topic] * rounds
        assert [line[5:] for line in befores] == [
            [sent.message_id, str(times), "k l"] for times in range(rounds)
        ]
        afters = [line for line in lines if line[0] == "SubAfter"]
        assert [line[1] for line in afters] == [line[4] for line in befores]
        assert len({line[1] for line in afters}) == rounds
        expected = [("true", "0")] if kind == "poll" else [("false", "4"), ("true", "0")]
        assert [(line[4], line[6]) for line in afters] == expected
        assert {line[8] for line in afters} == {topic}

    run_on("asyncio", work())


def test_a_consumer_of_the_trace_is_not_traced_for_ever(cluster: Cluster) -> None:
    async def work() -> None:
        async with aio.Producer(cluster.namesrv, group="pg-loop", trace=True) as producer:
            sent = await producer.send(Message("traced-loop", "x"))
        async with aio.PullConsumer(
            cluster.namesrv,
            group="reads-loop",
            topics=TRACE_TOPIC,
            consume_from=FIRST,
            trace=True,
        ) as consumer:
            seen = ""
            while sent.message_id not in seen:
                seen = "".join(m.body_text() for m in await consumer.poll(30.0))
            assert consumer.tracer is not None
            await consumer.tracer.close()
            assert not [m for m in await consumer.poll(0.0) if "reads-loop" in m.body_text()]

    run_on("asyncio", work())


def test_lines_that_nobody_takes_are_counted_and_hold_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trace, "_CLOSE_S", 0.05)
    monkeypatch.setattr(trace, "_TIMEOUT_S", 3600.0)

    async def work() -> None:
        with scripted() as server:

            async def never(request: Request) -> None:
                del request
                await asyncio.Event().wait()

            server.send = never
            async with Instance(server.address) as instance:
                tracer = Tracer(instance, "g", role="CONSUME")
                tracer.start()
                for _ in range(3000):
                    tracer.append("line\x02", ("k",))
                assert tracer.dropped == 3000 - 2048
                await until(lambda: RequestCode.SEND_MESSAGE_V2 in server.codes())
                await tracer.close()
                assert tracer.dropped == 3000

    run_on("asyncio", work())
