"""The message trace: the lines of sends and of consuming, gathered and sent to a topic.

After `AsyncTraceDispatcher` and the two official hooks, so that official tools read it. `Tracer`
loses lines rather than hold anybody up, and counts what it lost; `trace_lines` writes them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from itertools import count, islice
from typing import Final

from mqcore.client.consume_hooks import ConsumeContext, ConsumeHook
from mqcore.client.hooks import SendContext, SendHook
from mqcore.client.identity import unique_ids
from mqcore.client.instance import Instance
from mqcore.client.message import Message
from mqcore.client.outgoing import TRANSACTION_PREPARED, outgoing_of
from mqcore.client.properties import MSG_REGION, TRACE_ON
from mqcore.client.results import SendStatus
from mqcore.client.sender import Sender
from mqcore.client.settings import ProducerSettings
from mqcore.client.trace_lines import (
    DELAYED,
    HALF,
    NORMAL,
    pub_line,
    sub_after_line,
    sub_before_line,
)
from mqcore.clock import wall_ms
from mqcore.errors import MQError
from mqcore.model.topics import TRACE_TOPIC

__all__ = ["ConsumeTraceHook", "TraceHook", "Tracer"]

_log = logging.getLogger(__name__)

# The official dispatcher's bounds: lines that wait, lines of a message, bytes of a message, and
# for how long a line waits for others.
_WAITING_MAX: Final = 2048
_LINES_MAX: Final = 20
_BODY_BYTES_MAX: Final = 128_000
_INTERVAL_S: Final = 5.0
_TIMEOUT_S: Final = 5.0
# How long closing sends what waits (official: WAIT_FOR_SHUTDOWN).
_CLOSE_S: Final = 5.0
_numbers = count(1)
# Where the two halves of a consumer's trace meet.
_NOTE: Final = "mqcore.trace"


class Tracer:
    """Gathers lines, and sends them as messages to the trace topic.

    Attributes:
        dropped: How many lines were lost because too many waited, or nobody took them at the end.
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
        self._is_notified = False
        self._is_closing = False

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
        if len(self._lines) >= _LINES_MAX and not self._is_notified and self._loop is not None:
            self._is_notified = True
            self._loop.call_soon_threadsafe(self._is_full.set)

    async def close(self) -> None:
        """Sends what waits, for 5 s at the most, and ends."""
        self._is_closing = True
        self._is_full.set()
        if self._task is not None:
            done, _ = await asyncio.wait([self._task], timeout=_CLOSE_S)
            if not done:
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self.dropped += len(self._lines)
        self._lines.clear()
        if self.dropped:
            _log.warning(
                "%d lines of the message trace were lost: they came too fast", self.dropped
            )

    async def _run(self) -> None:
        while not self._is_closing:
            try:
                async with asyncio.timeout(_INTERVAL_S):
                    await self._is_full.wait()
            except TimeoutError:
                pass
            self._is_full.clear()
            self._is_notified = False
            try:
                await self._flush()
            except Exception:
                # Whatever it was, a trace that nobody sends is worse.
                _log.exception("lines of the message trace were lost")

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
            except asyncio.CancelledError:
                self.dropped += len(lines)
                raise
            except MQError as error:
                _log.warning(
                    "%d lines of the message trace were lost: %s", len(lines), error.message
                )

    async def _send(self, body: str, keys: Iterable[str]) -> None:
        # Keys beyond what a record can carry would cost the lines too.
        message = Message(self._topic, body, keys=tuple(islice(keys, 400)))
        # It is no part of the instance, which notifies nobody else of routes that changed.
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


class ConsumeTraceHook(ConsumeHook):
    """Writes a line for every message before and after: `ConsumeMessageTraceHookImpl`."""

    def __init__(self, tracer: Tracer) -> None:
        """Takes who gathers lines."""
        self._tracer = tracer

    def before_consume(self, context: ConsumeContext) -> None:
        """Notes messages that the handler is about to get, and which of them are traced."""
        traced = [
            message
            for message in context.messages
            if message.properties.get(TRACE_ON) != "false"
            and not message.topic.startswith(TRACE_TOPIC)
        ]
        request_id = unique_ids().next(context.began_ms)
        context.notes[_NOTE] = (request_id, traced)
        group = self._tracer.instance.short_name(context.group)
        for message in traced:
            line = sub_before_line(
                now_ms=context.began_ms,
                # Brokers of 4.9 leave it out; the line has null then, as the official one does.
                region_id=message.properties.get(MSG_REGION),
                group=group,
                request_id=request_id,
                message_id=message.message_id,
                retry_times=message.reconsume_times,
                keys=message.record.keys,
            )
            self._tracer.append(line, (message.message_id, *message.keys))

    def after_consume(self, context: ConsumeContext) -> None:
        """Notes what came of them."""
        request_id, traced = context.notes[_NOTE]
        group = self._tracer.instance.short_name(context.group)
        # The official time of a message is its part of the call's.
        cost_ms = context.took_ms // len(context.messages)
        for message in traced:
            line = sub_after_line(
                request_id=request_id,
                message_id=message.message_id,
                cost_ms=cost_ms,
                is_ok=context.is_done,
                keys=message.record.keys,
                context_code=context.result.value,
                now_ms=context.began_ms + context.took_ms,
                group=group,
            )
            self._tracer.append(line, (message.message_id, *message.keys))
