"""Traces, synchronously: the methods of `mqcore.admin.traces`, on the loop's thread."""

from datetime import datetime

from mqcore.admin import traces as asynchronous
from mqcore.client.blocking.loop_thread import LoopThread
from mqcore.model.topics import TRACE_TOPIC
from mqcore.model.traces import MessageTrace

__all__ = ["Traces"]

_FOREVER_MS = 2**63 - 1


class Traces:
    """The traced messages of a cluster."""

    def __init__(self, thread: LoopThread, core: asynchronous.Traces) -> None:
        """Takes the loop, and the asyncio methods under it."""
        self._thread = thread
        self._core = core

    def by_id(
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
        return self._thread.run(
            lambda: self._core.by_id(
                message_id, trace_topic=trace_topic, begin_ms=begin_ms, end_ms=end_ms
            )
        )

    def by_key(
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
        return self._thread.run(
            lambda: self._core.by_key(
                key, trace_topic=trace_topic, begin_ms=begin_ms, end_ms=end_ms
            )
        )
