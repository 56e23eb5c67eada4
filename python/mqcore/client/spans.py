"""Spans of OpenTelemetry for sends and deliveries: hooks over its API, imported here alone.

The context of a send travels in the properties of the message as W3C has it (`traceparent`,
`tracestate`); the span of a delivery is its child. Names follow the semantic conventions of
messaging, which are "development": they stand in one table. A program that has no SDK pays for a
call that does nothing; one that does not ask for spans does not even import this file.
"""

import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from mqcore.client.consume_hooks import ConsumeContext, ConsumeHook
from mqcore.client.hooks import SendContext, SendHook
from mqcore.client.outgoing import PROPERTIES_BYTES_MAX, TRANSACTION_PREPARED
from mqcore.client.properties import properties_text
from mqcore.errors import MQError, ResponseError, SendError, UsageError

if TYPE_CHECKING:
    from mqcore.client.message import Message, ReceivedMessage

try:
    from opentelemetry import context as contexts
    from opentelemetry import propagate, trace
except ImportError as error:
    raise UsageError(
        "spans need the API of OpenTelemetry: pip install 'mqcore[otel]', or spans=False"
    ) from error

__all__ = ["ConsumeSpans", "SendSpans"]

# What a hook leaves in its notes.
_NOTE: Final = "mqcore.span"
_SHARDING_KEY: Final = "__SHARDINGKEY"
# The fields of the context that travels; another propagator may have others.
_TRACE_PARENT: Final = "traceparent"
# The span that this flow of control has made current, by its attachment.
_current: ContextVar[Any] = ContextVar("mqcore_span", default=None)

# Every name of the conventions that is used (of messaging, and of the registry for RocketMQ).
_SYSTEM: Final = "messaging.system"
_OPERATION: Final = "messaging.operation.name"
_OPERATION_TYPE: Final = "messaging.operation.type"
_TOPIC: Final = "messaging.destination.name"
_QUEUE: Final = "messaging.destination.partition.id"
_MESSAGE_ID: Final = "messaging.message.id"
_BODY_BYTES: Final = "messaging.message.body.size"
_COUNT: Final = "messaging.batch.message_count"
_CONSUMER_GROUP: Final = "messaging.consumer.group.name"
_ADDRESS: Final = "server.address"
_PORT: Final = "server.port"
_ERROR: Final = "error.type"
_TAG: Final = "rocketmq.message.tag"
_KEYS: Final = "rocketmq.message.keys"
_KIND: Final = "rocketmq.message.type"
_ORDER_GROUP: Final = "rocketmq.message.group"
_LEVEL: Final = "rocketmq.message.delay_time_level"
_DELIVER_AT: Final = "rocketmq.message.delivery_timestamp"
# Of ours: how a delivery ended, and which try it was.
_RESULT: Final = "mqcore.consume.result"
_TRY: Final = "mqcore.consume.attempt"


class SendSpans(SendHook):
    """A span for every try of a send; its context goes with the message.

    A message that brings a context of its own (a property `traceparent`) keeps it, and the span
    links to it.
    """

    def __init__(self, tracer_provider: "trace.TracerProvider | None" = None) -> None:
        """Takes who makes tracers; the program's own one when not given."""
        self._tracer = _tracer(tracer_provider)

    def before_send(self, context: SendContext) -> None:
        """Begins a span, and puts its context into what is sent."""
        message, outgoing = context.message, context.outgoing
        has_own = _TRACE_PARENT in message.properties
        span = self._tracer.start_span(
            f"send {message.topic}",
            kind=trace.SpanKind.PRODUCER,
            attributes=_send_attributes(context),
            links=_links([message.properties]) if has_own else (),
        )
        context.notes[_NOTE] = span
        if has_own:
            return
        carrier: dict[str, str] = {}
        propagate.inject(carrier, context=trace.set_span_in_context(span))
        outgoing.properties = _with(outgoing.properties, carrier)

    def after_send(self, context: SendContext) -> None:
        """Ends the span."""
        span: trace.Span | None = context.notes.pop(_NOTE, None)
        if span is None:
            return
        if context.result is not None:
            span.set_attribute(_MESSAGE_ID, context.result.message_id)
        if context.error is not None:
            _fail(span, context.error)
        span.end()


class ConsumeSpans(ConsumeHook):
    """A span for every call of a handler, current while it runs; for every poll one that is over.

    The span of a single message is a child of its send; one of several messages links to all sends.
    """

    def __init__(self, tracer_provider: "trace.TracerProvider | None" = None) -> None:
        """Takes who makes tracers; the program's own one when not given."""
        self._tracer = _tracer(tracer_provider)

    def before_consume(self, context: ConsumeContext) -> None:
        """Begins a span, and makes it the current one."""
        messages = context.messages
        parent = propagate.extract(messages[0].properties) if len(messages) == 1 else None
        operation = "receive" if context.is_poll else "process"
        span = self._tracer.start_span(
            f"{operation} {messages[0].topic}",
            context=parent,
            kind=trace.SpanKind.CONSUMER,
            attributes=_consume_attributes(context, operation),
            links=_links([message.properties for message in messages]),
        )
        token = contexts.attach(trace.set_span_in_context(span, parent))
        _current.set(token)
        context.notes[_NOTE] = (span, token)

    def after_consume(self, context: ConsumeContext) -> None:
        """Ends the span."""
        noted = context.notes.pop(_NOTE, None)
        if noted is None:
            return
        span, token = noted
        # A plain function may have given back what was awaited elsewhere: there is nothing to undo.
        if _current.get() is token:
            _current.set(None)
            contexts.detach(token)
        span.set_attribute(_RESULT, context.result.name.lower())
        if context.error is not None:
            _fail(span, context.error)
        elif not context.is_done:
            span.set_attribute(_ERROR, context.result.name.lower())
            span.set_status(trace.Status(trace.StatusCode.ERROR, context.result.name))
        span.end()


def _tracer(provider: "trace.TracerProvider | None") -> "trace.Tracer":
    from mqcore.version import __version__

    return trace.get_tracer("mqcore", __version__, tracer_provider=provider)


def _send_attributes(context: SendContext) -> dict[str, Any]:
    message, outgoing = context.message, context.outgoing
    host, _, port = context.address.rpartition(":")
    attributes: dict[str, Any] = {
        _SYSTEM: "rocketmq",
        _OPERATION: "send",
        _OPERATION_TYPE: "send",
        _TOPIC: message.topic,
        _QUEUE: f"{context.queue.broker_name}:{context.queue.queue_id}",
        _MESSAGE_ID: outgoing.message_id,
        _BODY_BYTES: len(outgoing.body),
        _ADDRESS: host,
        _PORT: int(port),
    }
    if outgoing.is_batch:
        attributes[_COUNT] = outgoing.message_id.count(",") + 1
        return attributes | {_KIND: "normal"}
    if message.delay_level:
        attributes[_LEVEL] = message.delay_level
    if message.deliver_at_ms:
        attributes[_DELIVER_AT] = message.deliver_at_ms
    if message.sharding_key is not None:
        attributes[_ORDER_GROUP] = message.sharding_key
    return attributes | _named(message.tags, message.keys) | {_KIND: _kind(context)}


def _kind(context: SendContext) -> str:
    message: Message = context.message
    if context.outgoing.sys_flag & TRANSACTION_PREPARED:
        return "transaction"
    if message.is_delayed:
        return "delay"
    return "normal" if message.sharding_key is None else "fifo"


def _consume_attributes(context: ConsumeContext, operation: str) -> dict[str, Any]:
    messages = context.messages
    first: ReceivedMessage = messages[0]
    attributes: dict[str, Any] = {
        _SYSTEM: "rocketmq",
        _OPERATION: operation,
        _OPERATION_TYPE: operation,
        _TOPIC: first.topic,
        _QUEUE: f"{first.queue.broker_name}:{first.queue.queue_id}",
        _CONSUMER_GROUP: context.group,
    }
    if len(messages) > 1:
        return attributes | {_COUNT: len(messages)}
    attributes |= _named(first.tags, first.keys)
    if _SHARDING_KEY in first.properties:
        attributes[_ORDER_GROUP] = first.properties[_SHARDING_KEY]
    body_bytes = first.record.stored_body_len_bytes
    tries = first.reconsume_times + 1
    return attributes | {_MESSAGE_ID: first.message_id, _BODY_BYTES: body_bytes, _TRY: tries}


def _named(tags: str | None, keys: Sequence[str]) -> dict[str, Any]:
    attributes: dict[str, Any] = {} if tags is None else {_TAG: tags}
    return attributes | {_KEYS: list(keys)} if keys else attributes


def _links(carriers: Sequence[Mapping[str, str]]) -> list["trace.Link"]:
    """Returns links to the sends that messages carry."""
    links = []
    for carrier in carriers:
        # Asked of an empty context: what is current here is no part of the message.
        extracted = propagate.extract(carrier, context=contexts.Context())
        found = trace.get_current_span(extracted).get_span_context()
        if found.is_valid:
            links.append(trace.Link(found))
    return links


def _fail(span: "trace.Span", error: BaseException) -> None:
    """Notes why it failed: by the broker's code where it has one."""
    why = error
    if isinstance(error, SendError) and error.attempts:
        # The error of the last try is more exact.
        why = error.attempts[-1][1]
    name = str(why.code) if isinstance(why, ResponseError) else type(why).__qualname__
    span.set_attribute(_ERROR, name)
    if not isinstance(error, MQError):
        span.record_exception(error)
    span.set_status(trace.Status(trace.StatusCode.ERROR, str(error)))


def _with(text: str, pairs: Mapping[str, str]) -> str:
    """Returns properties with pairs in place of those of an earlier try.

    As they are where the record has no space for them.
    """
    for name in pairs:
        text = re.sub(f"(^|\x02){re.escape(name)}\x01[^\x02]*\x02", r"\1", text)
    grown = text + properties_text(pairs)
    # One character is four bytes at the most.
    fits = len(grown) * 4 <= PROPERTIES_BYTES_MAX or len(grown.encode()) <= PROPERTIES_BYTES_MAX
    return grown if fits else text
