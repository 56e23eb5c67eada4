"""Spans of sends and deliveries, through the SDK of OpenTelemetry and a broker in this process."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from client.serving import Cluster
from loops import run_on, until
from mqcore import ConsumeFrom, Message, Producer, ReceivedMessage, Reject, aio
from mqcore.client.spans import ConsumeSpans, SendSpans
from mqcore.errors import SendError

FIRST = ConsumeFrom.FIRST_OFFSET
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    yield exporter
    exporter.shutdown()


@pytest.fixture
def provider(spans: InMemorySpanExporter) -> Iterator[TracerProvider]:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(spans))
    yield made
    made.shutdown()


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def context_of(span: ReadableSpan) -> trace.SpanContext:
    found: trace.SpanContext | None = span.context
    assert found is not None
    return found


async def consumed(
    cluster: Cluster,
    provider: TracerProvider,
    topic: str,
    handler: Callable[..., Any],
    is_done: Callable[[], bool],
    **options: Any,
) -> None:
    """Consumes a topic with spans until a condition holds."""
    consumer = aio.PushConsumer(
        cluster.namesrv,
        group=f"reads-{topic}",
        topics=topic,
        handler=handler,
        hooks=[ConsumeSpans(provider)],
        consume_from=FIRST,
        **options,
    )
    async with consumer:
        await until(is_done)


@pytest.mark.parametrize("is_async", [True, False], ids=["coroutine", "function"])
def test_a_delivery_is_the_child_of_its_send(
    cluster: Cluster, provider: TracerProvider, spans: InMemorySpanExporter, is_async: bool
) -> None:
    topic = f"spans-{is_async}"
    seen: list[tuple[ReceivedMessage, trace.SpanContext]] = []

    def note(message: ReceivedMessage) -> None:
        seen.append((message, trace.get_current_span().get_span_context()))

    async def note_later(message: ReceivedMessage) -> None:
        await asyncio.sleep(0)
        note(message)

    async def run() -> None:
        tracer = provider.get_tracer("test")
        async with aio.Producer(
            cluster.namesrv, group="p", hooks=[SendSpans(provider)]
        ) as producer:
            with tracer.start_as_current_span("order"):
                await producer.send(Message(topic, b"one", tags="new", keys=["k1", "k2"]))
        handler = note_later if is_async else note
        await consumed(
            cluster, provider, topic, handler, lambda: bool(named(spans, f"process {topic}"))
        )

    run_on("uvloop", run())
    (order,), (send,), (process,) = (
        named(spans, name) for name in ("order", f"send {topic}", f"process {topic}")
    )
    assert send.parent is not None
    assert send.parent.span_id == context_of(order).span_id
    assert process.parent is not None
    assert process.parent.span_id == context_of(send).span_id
    assert context_of(process).trace_id == context_of(order).trace_id
    assert [link.context.span_id for link in process.links] == [context_of(send).span_id]
    ((message, current),) = seen
    assert current.span_id == context_of(process).span_id, "the handler sees its span"
    assert message.properties["traceparent"].split("-")[2] == f"{context_of(send).span_id:016x}"
    assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    shared = {
        "messaging.system": "rocketmq",
        "messaging.destination.name": topic,
        "messaging.message.id": message.message_id,
        "messaging.message.body.size": 3,
        "rocketmq.message.tag": "new",
        "rocketmq.message.keys": ("k1", "k2"),
    }
    host, _, port = cluster.broker.rpartition(":")
    span_attributes = attributes(send)
    assert span_attributes.items() >= shared.items()
    assert (span_attributes["server.address"], span_attributes["server.port"]) == (host, int(port))
    assert (
        span_attributes["messaging.operation.type"],
        span_attributes["rocketmq.message.type"],
    ) == ("send", "normal")
    span_attributes = attributes(process)
    assert span_attributes.items() >= shared.items()
    assert span_attributes["messaging.consumer.group.name"] == f"reads-{topic}"
    assert span_attributes["mqcore.consume.result"] == "success"
    assert process.status.status_code is StatusCode.UNSET


def test_a_context_of_the_message_s_own_is_kept(
    cluster: Cluster, provider: TracerProvider, spans: InMemorySpanExporter
) -> None:
    async def run() -> None:
        async with aio.Producer(
            cluster.namesrv, group="p", hooks=[SendSpans(provider)]
        ) as producer:
            await producer.send(Message("spans-own", b"x", properties={"traceparent": PARENT}))
        got: list[str] = []

        def note(message: ReceivedMessage) -> None:
            got.append(message.properties["traceparent"])

        done = lambda: bool(named(spans, "process spans-own"))  # noqa: E731
        await consumed(cluster, provider, "spans-own", note, done)
        assert got == [PARENT]

    run_on("uvloop", run())
    (send,), (process,) = named(spans, "send spans-own"), named(spans, "process spans-own")
    (link,) = send.links
    assert f"{link.context.trace_id:032x}" == PARENT.split("-")[1]
    assert process.parent is not None
    assert f"{process.parent.span_id:016x}" == PARENT.split("-")[2]


def test_messages_of_one_call_link_to_their_sends(
    cluster: Cluster, provider: TracerProvider, spans: InMemorySpanExporter
) -> None:
    topic = "spans-many"

    async def run() -> None:
        async with aio.Producer(
            cluster.namesrv, group="p", hooks=[SendSpans(provider)]
        ) as producer:
            first = await producer.send(Message(topic, b"1"))
            together = [Message(topic, b"2"), Message(topic, b"3")]
            await producer.send_batch(together, queue=first.queue)
        counts: list[int] = []

        def note(messages: Sequence[ReceivedMessage]) -> None:
            counts.append(len(messages))

        def is_done() -> bool:
            linked = sum(len(span.links) for span in named(spans, f"process {topic}"))
            return linked == 3

        await consumed(cluster, provider, topic, note, is_done, batch=8)
        assert sum(counts) == 3

    run_on("uvloop", run())
    sends = named(spans, f"send {topic}")
    assert [attributes(span).get("messaging.batch.message_count") for span in sends] == [None, 2]
    linked = [
        link.context.span_id for span in named(spans, f"process {topic}") for link in span.links
    ]
    alone, together = (context_of(span).span_id for span in sends)
    assert sorted(linked) == sorted([alone, together, together])


def test_what_fails_is_recorded(
    cluster: Cluster, provider: TracerProvider, spans: InMemorySpanExporter
) -> None:
    topic = "spans-bad"

    def handle(message: ReceivedMessage) -> None:
        if message.body == b"reject":
            raise Reject("never")
        raise ValueError("broken")

    async def run() -> None:
        async with aio.Producer(
            cluster.namesrv, group="p", hooks=[SendSpans(provider)]
        ) as producer:
            await producer.send(Message(topic, b"raise"))
            await producer.send(Message(topic, b"reject"))
            # The record has no space for it: the broker refuses.
            with pytest.raises(SendError):
                await producer.send(Message(topic, b"x", properties={"p": "x" * 32_700}))
        done = lambda: len(named(spans, f"process {topic}")) >= 2  # noqa: E731
        await consumed(cluster, provider, topic, handle, done)

    run_on("uvloop", run())
    sends = named(spans, f"send {topic}")
    refused = [span for span in sends if span.status.status_code is StatusCode.ERROR]
    assert refused
    assert attributes(refused[0])["error.type"] == "13"
    ended = {attributes(span)["error.type"] for span in named(spans, f"process {topic}")}
    assert ended == {"ValueError", "failed"}
    assert all(
        span.status.status_code is StatusCode.ERROR for span in named(spans, f"process {topic}")
    )


def test_the_setting_is_all_it_takes(cluster: Cluster, spans: InMemorySpanExporter) -> None:
    program = """
import sys, mqcore
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
with mqcore.Producer(sys.argv[1], group="p", spans=True) as producer:
    producer.send(mqcore.Message("spans-set", b"x"))
with mqcore.PullConsumer(
    sys.argv[1], group="g-set", topics="spans-set", spans=True,
    consume_from=mqcore.ConsumeFrom.FIRST_OFFSET,
) as consumer:
    while not consumer.poll(timeout_s=5):
        pass
print(*(span.name for span in exporter.get_finished_spans()), sep="\\n")
"""
    command = [sys.executable, "-c", program, cluster.namesrv]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["send spans-set", "receive spans-set"]
    assert spans.get_finished_spans() == ()


def test_who_asks_for_none_imports_none() -> None:
    program = """
import sys, mqcore
mqcore.Producer, mqcore.PushConsumer
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)


def test_the_synchronous_producer_s_span_is_a_child_too(
    cluster: Cluster, provider: TracerProvider, spans: InMemorySpanExporter
) -> None:
    tracer = provider.get_tracer("test")
    with (
        Producer(cluster.namesrv, group="p", hooks=[SendSpans(provider)]) as producer,
        tracer.start_as_current_span("order"),
    ):
        producer.send(Message("spans-sync", b"x"))
        producer.send_oneway(Message("spans-sync", b"y"))
    (order,) = named(spans, "order")
    sends = named(spans, "send spans-sync")
    assert len(sends) == 2
    for send in sends:
        assert send.parent is not None
        assert send.parent.span_id == context_of(order).span_id
