"""The message trace, read back: what became of a message, by its id or by a key.

Asks the trace topic by the keys that clients gave their lines, then the topics the message may lie
in. Knows no way to show it.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from mqcore.admin.arguments import of_type, unix_ms
from mqcore.admin.messages import Messages
from mqcore.errors import MQError, NoRouteError
from mqcore.model.topics import DLQ_PREFIX, RETRY_PREFIX, TRACE_TOPIC
from mqcore.model.trace_lines import Line, lines_of
from mqcore.model.traces import GroupTrace, MessageTrace, Reported, StoredCopy, trace_of
from mqcore.native import Message

__all__ = ["Traces"]

# What a broker gives for one question; more is asked for by the time before the oldest.
_PAGE_MAX: Final = 64
# A message with more pages of lines than this has a trouble that the newest lines show.
_PAGES_MAX: Final = 16
# Messages of one key: more are no answer that anybody reads.
_IDS_MAX: Final = 32
_FOREVER_MS: Final = 2**63 - 1


class Traces:
    """The traced messages of a cluster."""

    def __init__(self, messages: Messages) -> None:
        """Takes the way to messages."""
        self._messages = messages

    async def by_id(
        self,
        message_id: str,
        *,
        trace_topic: str = TRACE_TOPIC,
        begin_ms: int | datetime = 0,
        end_ms: int | datetime = _FOREVER_MS,
    ) -> MessageTrace | None:
        """Returns what became of a message; None where no line is about it (12).

        Its copies are looked for in its own topic and in the topics for retries and dead letters of
        the groups that have lines of it, as far as brokers still have them.

        Args:
            message_id: The producer's id.
            trace_topic: Where clients write their traces.
            begin_ms: Lines stored not before: Unix ms, or a `datetime` with a time zone.
            end_ms: Lines stored not behind: likewise.

        Raises:
            NoRouteError: No name server knows the trace topic: brokers make it with
                `traceTopicEnable`.
        """
        of_type("message_id", message_id, str)
        begin, end = unix_ms("begin_ms", begin_ms), unix_ms("end_ms", end_ms)
        reported = await self._reported_lines(message_id, trace_topic, begin, end)
        trace = trace_of(message_id, reported)
        return None if trace is None else await self._with_copies(trace)

    async def by_key(
        self,
        key: str,
        *,
        trace_topic: str = TRACE_TOPIC,
        begin_ms: int | datetime = 0,
        end_ms: int | datetime = _FOREVER_MS,
    ) -> list[MessageTrace]:
        """Returns what became of the messages with a key, oldest first; the newest 32 (12).

        Args:
            key: One of the keys that the producer gave them.
            trace_topic: Where clients write their traces.
            begin_ms: Lines stored not before: Unix ms, or a `datetime` with a time zone.
            end_ms: Lines stored not behind: likewise.

        Raises:
            NoRouteError: No name server knows the trace topic.
        """
        of_type("key", key, str)
        begin, end = unix_ms("begin_ms", begin_ms), unix_ms("end_ms", end_ms)
        reported = await self._reported_lines(key, trace_topic, begin, end)
        ids = dict.fromkeys(each.line.message_id for each in reported if _has_key(each.line, key))
        found = []
        for message_id in list(ids)[-_IDS_MAX:]:
            # Lines without the key, such as that of a recall, are found by the id alone.
            trace = await self.by_id(
                message_id, trace_topic=trace_topic, begin_ms=begin, end_ms=end
            )
            if trace is not None:
                found.append(trace)
        return found

    async def _reported_lines(
        self, key: str, trace_topic: str, begin_ms: int, end_ms: int
    ) -> list[Reported[Line]]:
        """Returns the lines under a key, oldest first."""
        pages: dict[str, Message] = {}
        for _ in range(_PAGES_MAX):
            found = await self._messages.by_key(
                trace_topic, key, limit=_PAGE_MAX, begin_ms=begin_ms, end_ms=end_ms
            )
            new = [message for message in found if message.message_id not in pages]
            pages |= {message.message_id: message for message in new}
            if not new or len(found) < _PAGE_MAX:
                break
            end_ms = found[0].store_timestamp_ms
        ordered = sorted(pages.values(), key=lambda each: each.store_timestamp_ms)
        return [
            Reported(line, message.born_host.rpartition(":")[0] or message.born_host)
            for message in ordered
            for line in _lines(message)
        ]

    async def _with_copies(self, trace: MessageTrace) -> MessageTrace:
        groups = []
        for group in trace.groups:
            topics = (f"{RETRY_PREFIX}{group.group}", f"{DLQ_PREFIX}{group.group}")
            copies = await self._copies(topics if group.group else (), trace.message_id)
            groups.append(GroupTrace(group.group, group.deliveries, copies))
        own = (trace.topic,) if trace.topic is not None else ()
        copies = await self._copies(own, trace.message_id)
        return replace(trace, copies=copies, groups=tuple(groups))

    async def _copies(self, topics: Iterable[str], message_id: str) -> tuple[StoredCopy, ...]:
        """Returns the copies in topics, oldest first; a topic that is not there has none."""
        found: list[Message] = []
        for topic in topics:
            try:
                found += await self._messages.by_unique_id(topic, message_id)
            except NoRouteError:
                continue
        found.sort(key=lambda each: each.store_timestamp_ms)
        return tuple(
            StoredCopy(
                topic=each.topic,
                queue_id=each.queue_id,
                queue_offset=each.queue_offset,
                offset_id=each.message_id,
                store_host=each.store_host,
                stored_ms=each.store_timestamp_ms,
                reconsume_times=each.reconsume_times,
            )
            for each in found
        )


def _has_key(line: Line, key: str) -> bool:
    keys: str | None = getattr(line, "keys", None)
    return key in (keys or "").split()


def _lines(message: Message) -> list[Line]:
    try:
        return list(lines_of(message.body))
    except MQError:
        # A body that cannot be inflated has no lines.
        return []
