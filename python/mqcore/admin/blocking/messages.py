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

    def at(
        self, queue: MessageQueue, offset: int, limit: int = 1, *, sql: str = ""
    ) -> list[Message]:
        """Returns messages of a queue from an offset on (11); fewer where there are no more.

        Args:
            queue: Which.
            offset: First queue offset.
            limit: At most so many, 32 in one call.
            sql: Only messages for which this expression of SQL92 is true; empty for all.

        Raises:
            NoRouteError: No name server knows the topic, or the broker.
            ResponseError: It takes no expressions (`enablePropertyFilter`), or not this one.
        """
        return self._thread.run(lambda: self._core.at(queue, offset, limit, sql=sql))

    def recall(self, handle: str) -> str:
        """Takes a timed message back before its time (370); returns its unique id.

        Args:
            handle: As brokers of 5.3.2 and later give it with the answer to a send.

        Raises:
            MessageError: It is no handle.
            MQError: Name servers know no master of the broker in it.
            ResponseError: The broker refuses: recalls are off (`recallMessageEnable`), or the
                message was delivered.
        """
        return self._thread.run(lambda: self._core.recall(handle))

    def resume_check(self, offset_id: str) -> None:
        """Lets a half message that was given up be asked about again (323).

        Args:
            offset_id: The broker's id of it, in `TRANS_CHECK_MAX_TIME_TOPIC`.

        Raises:
            MQError: It is no such id.
            ResponseError: The broker refuses: there is no such message, or it was not given up.
        """
        self._thread.run(lambda: self._core.resume_check(offset_id))
