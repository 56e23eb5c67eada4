"""Single messages, synchronously: the methods of `mqcore.admin.messages`, on the loop's thread."""

from datetime import datetime

from mqcore.admin import messages as asynchronous
from mqcore.client.blocking.loop_thread import LoopThread
from mqcore.model.queues import MessageQueue
from mqcore.native import Message

__all__ = ["Messages"]

_KEY_MAX = 64
_FOREVER_MS = 2**63 - 1


class Messages:
    """The messages of a cluster."""

    def __init__(self, thread: LoopThread, core: asynchronous.Messages) -> None:
        """Takes the loop, and the asyncio methods under it."""
        self._thread = thread
        self._core = core

    def by_offset_id(self, offset_id: str) -> Message:
        """Returns the message that a broker's id names; asks the broker in the id (33).

        Args:
            offset_id: 32 or 56 hexadecimal digits: address and physical offset.

        Raises:
            MQError: It is no such id.
            ResponseError: There is no message at that address.
        """
        return self._thread.run(lambda: self._core.by_offset_id(offset_id))

    def by_unique_id(self, topic: str, message_id: str) -> list[Message]:
        """Returns the messages with a producer's id, oldest first (12).

        There is more than one where a send was repeated after it had been stored.

        Raises:
            NoRouteError: No name server knows the topic.
        """
        return self._thread.run(lambda: self._core.by_unique_id(topic, message_id))

    def by_key(
        self,
        topic: str,
        key: str,
        *,
        limit: int = _KEY_MAX,
        begin_ms: int | datetime = 0,
        end_ms: int | datetime = _FOREVER_MS,
    ) -> list[Message]:
        """Returns the newest messages with a key, oldest first (12).

        Args:
            topic: Its topic.
            key: One of the keys that the producer gave it.
            limit: At most so many from each broker; brokers give 64.
            begin_ms: Stored not before: Unix ms, or a `datetime` with a time zone.
            end_ms: Stored not behind: likewise.

        Raises:
            NoRouteError: No name server knows the topic.
        """
        return self._thread.run(
            lambda: self._core.by_key(topic, key, limit=limit, begin_ms=begin_ms, end_ms=end_ms)
        )

    def at(self, queue: MessageQueue, offset: int, limit: int = 1) -> list[Message]:
        """Returns messages of a queue from an offset on (11); fewer where there are no more.

        Args:
            queue: Which.
            offset: First queue offset.
            limit: At most so many, 32 in one call.

        Raises:
            NoRouteError: No name server knows the topic, or the broker.
        """
        return self._thread.run(lambda: self._core.at(queue, offset, limit))
