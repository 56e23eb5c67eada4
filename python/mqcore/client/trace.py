"""The message trace: lines as the official client writes them, gathered and sent to a topic.

After `TraceDataEncoder` and `AsyncTraceDispatcher`, so that official tools read it. The lines are
pure functions; `Tracer` sends them, loses them rather than hold a send up, and counts what it lost.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from itertools import count, islice
from typing import Final

from mqcore.client.hooks import SendContext, SendHook
from mqcore.client.identity import unique_ids
from mqcore.client.instance import Instance
from mqcore.client.message import Message
from mqcore.client.outgoing import TRANSACTION_PREPARED, outgoing_of
from mqcore.client.results import SendStatus
from mqcore.client.sender import Sender
from mqcore.client.settings import ProducerSettings
from mqcore.clock import wall_ms
from mqcore.errors import MQError

__all__ = [
    "TRACE_TOPIC",
    "TraceHook",
    "Tracer",
    "end_transaction_line",
    "pub_line",
    "sub_after_line",
    "sub_before_line",
]

_log = logging.getLogger(__name__)

TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
_CONTENT: Final = "\x01"
_FIELD: Final = "\x02"
# `MessageType` by its ordinal.
NORMAL, HALF, COMMIT, DELAYED = 0, 1, 2, 3
# The official dispatcher's bounds: lines that wait, lines of a message, bytes of a message, and
# for how long a line waits for others.
_WAITING_MAX: Final = 2048
_LINES_MAX: Final = 20
_BODY_BYTES_MAX: Final = 128_000
_INTERVAL_S: Final = 5.0
_TIMEOUT_S: Final = 5.0
_numbers = count(1)


def _line(kind: str, *fields: object) -> str:
    # Java writes null as a word, and truth values in lower case.
    texts = ("null" if item is None else str(item) for item in fields)
    return _CONTENT.join((kind, *texts)) + _FIELD


def pub_line(
    *,
    began_ms: int,
    region_id: str,
    group: str,
    topic: str,
    message_id: str,
    tags: str | None,
    keys: str | None,
    address: str,
    body_bytes: int,
    cost_ms: int,
    message_type: int,
    offset_message_id: str,
    is_ok: bool,
) -> str:
    """Returns the line of a send.

    Args:
        began_ms: When it began, in ms since 1970.
        region_id: The broker's region.
        group: The producer's group, without the namespace.
        topic: The topic, without the namespace.
        message_id: The unique id.
        tags: The tag.
        keys: The keys, with blanks between.
        address: The broker's address.
        body_bytes: How long the body was, as it was sent.
        cost_ms: How long it took.
        message_type: The ordinal of `MessageType`.
        offset_message_id: The broker's id.
        is_ok: Whether the status is SEND_OK.
    """
    ok = "true" if is_ok else "false"
    return _line(
        "Pub",
        *(began_ms, region_id, group, topic, message_id, tags, keys, address),
        *(body_bytes, cost_ms, message_type, offset_message_id, ok),
    )


def sub_before_line(
    *,
    now_ms: int,
    region_id: str,
    group: str,
    request_id: str,
    message_id: str,
    retry_times: int,
    keys: str | None,
) -> str:
    """Returns the line of a message that a consumer is about to be given."""
    return _line("SubBefore", now_ms, region_id, group, request_id, message_id, retry_times, keys)


def sub_after_line(
    *,
    request_id: str,
    message_id: str,
    cost_ms: int,
    is_ok: bool,
    keys: str | None,
    context_code: int,
    now_ms: int,
    group: str,
) -> str:
    """Returns the line of a message that a consumer was given.

    Args:
        request_id: The id that its SubBefore line has.
        message_id: The unique id.
        cost_ms: How long it took.
        is_ok: Whether it was consumed.
        keys: The keys, with blanks between.
        context_code: The ordinal of `ConsumeReturnType`.
        now_ms: Now, in ms since 1970.
        group: The consumer's group, without the namespace.
    """
    ok = "true" if is_ok else "false"
    fields = (request_id, message_id, cost_ms, ok, keys, context_code, now_ms, group)
    return _line("SubAfter", *fields)


def end_transaction_line(
    *,
    now_ms: int,
    region_id: str,
    group: str,
    topic: str,
    message_id: str,
    tags: str | None,
    keys: str | None,
    address: str,
    transaction_id: str | None,
    state: str,
    is_from_check: bool,
) -> str:
    """Returns the line of a transaction that was ended.

    Args:
        now_ms: Now, in ms since 1970.
        region_id: The broker's region.
        group: The producer's group, without the namespace.
        topic: The topic, without the namespace.
        message_id: The unique id.
        tags: The tag.
        keys: The keys, with blanks between.
        address: The broker's address.
        transaction_id: The transaction.
        state: `COMMIT_MESSAGE`, `ROLLBACK_MESSAGE` or `UNKNOW`.
        is_from_check: Whether the broker had asked.
    """
    checked = "true" if is_from_check else "false"
    return _line(
        "EndTransaction",
        *(now_ms, region_id, group, topic, message_id, tags, keys, address),
        *(COMMIT, transaction_id, state, checked),
    )


class Tracer:
    """Gathers lines, and sends them as messages to the trace topic.

    Attributes:
        dropped: How many lines were lost because too many waited.
    """

    def __init__(
        self, instance: Instance, group: str, *, role: str = "PRODUCE", topic: str = TRACE_TOPIC
    ) -> None:
        """Prepares; `start` begins.

        Args:
            instance: Whose connections are used.
            group: The group that is traced.
            role: `PRODUCE` or `CONSUME`, part of the group that traces are sent as.
            topic: Where they go.
        """
        self.dropped = 0
        self.instance = instance
        self._topic = topic
        self._lines: deque[tuple[str, tuple[str, ...]]] = deque()
        self._settings = replace(ProducerSettings(), timeout_s=_TIMEOUT_S)
        self._sender = Sender(
            instance, f"_INNER_TRACE_PRODUCER-{group}-{role}-{next(_numbers)}", self._settings
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_full = asyncio.Event()

    def start(self) -> None:
        """Begins, on the running loop."""
        if self._task is None:
            self._loop = asyncio.get_running_loop()
            self._task = self._loop.create_task(self._run())

    def append(self, line: str, keys: Iterable[str]) -> None:
        """Takes a line; any thread may.

        Args:
            line: The line.
            keys: What it is found by: the message's unique id, and its keys.
        """
        if len(self._lines) >= _WAITING_MAX:
            self.dropped += 1
            return
        self._lines.append((line, tuple(keys)))
        if len(self._lines) == _LINES_MAX and self._loop is not None:
            self._loop.call_soon_threadsafe(self._is_full.set)

    async def close(self) -> None:
        """Sends what waits, and ends."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._flush()
        self._sender.close()
        if self.dropped:
            _log.warning("%d lines of the message trace were lost: too many at once", self.dropped)

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_INTERVAL_S):
                    await self._is_full.wait()
            except TimeoutError:
                pass
            self._is_full.clear()
            await self._flush()

    async def _flush(self) -> None:
        while self._lines:
            lines: list[str] = []
            keys: dict[str, None] = {}
            size = 0
            while self._lines and len(lines) < _LINES_MAX and size < _BODY_BYTES_MAX:
                line, named = self._lines.popleft()
                lines.append(line)
                keys.update(dict.fromkeys(named))
                size += len(line)
            try:
                await self._send("".join(lines), keys)
            except MQError as error:
                _log.warning(
                    "%d lines of the message trace were lost: %s", len(lines), error.message
                )

    async def _send(self, body: str, keys: Iterable[str]) -> None:
        # Keys beyond what a record can carry would cost the lines too.
        message = Message(self._topic, body, keys=tuple(islice(keys, 400)))
        # It is no part of the instance, which tells nobody else of routes that changed.
        route = await self.instance.route(self._topic, has_template=True)
        target = self._sender.targets.put(self._topic, route)
        now_ms = wall_ms()
        outgoing = outgoing_of(
            message,
            topic=target.topic,
            message_id=unique_ids().next(now_ms),
            born_ms=now_ms,
            settings=self._settings,
        )
        await self._sender.deliver(target, outgoing, message)


class TraceHook(SendHook):
    """Writes a line for every try that a broker acknowledged: `SendMessageTraceHookImpl`."""

    def __init__(self, tracer: Tracer) -> None:
        """Takes who gathers lines."""
        self._tracer = tracer

    def after_send(self, context: SendContext) -> None:
        """Notes a send."""
        result, message, outgoing = context.result, context.message, context.outgoing
        if result is None or not result.is_trace_on or message.topic.startswith(TRACE_TOPIC):
            return
        is_alone = not outgoing.is_batch
        if outgoing.sys_flag & TRANSACTION_PREPARED:
            kind = HALF
        else:
            kind = DELAYED if message.is_delayed else NORMAL
        short = self._tracer.instance.short_name
        line = pub_line(
            began_ms=context.began_ms,
            region_id=result.region_id,
            group=short(context.group),
            topic=short(outgoing.topic),
            message_id=result.message_id,
            tags=message.tags if is_alone else None,
            keys=" ".join(message.keys) or None if is_alone else None,
            address=context.address,
            body_bytes=len(outgoing.body),
            cost_ms=wall_ms() - context.began_ms,
            message_type=kind,
            offset_message_id=result.offset_message_id,
            is_ok=result.status is SendStatus.SEND_OK,
        )
        self._tracer.append(line, (result.message_id, *(message.keys if is_alone else ())))
