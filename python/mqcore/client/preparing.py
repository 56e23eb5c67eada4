"""What a producer makes of a message before it is sent: its id, its request, its queue.

Sends nothing; the producer of each API uses it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from mqcore.client.batches import batch_of
from mqcore.client.identity import UniqueIds
from mqcore.client.instance import Instance
from mqcore.client.message import Message
from mqcore.client.outgoing import Outgoing, outgoing_of
from mqcore.client.results import QueueRef
from mqcore.client.sender import check_queue
from mqcore.client.settings import ProducerSettings
from mqcore.client.topics import Target, queue_of_key
from mqcore.clock import wall_ms

__all__ = ["Preparing", "QueueSelector"]

# Chooses a queue: the queues that may be written, the message, and what the caller gave along.
QueueSelector: TypeAlias = Callable[[Sequence[QueueRef], Message, Any], QueueRef]


class Preparing:
    """A producer's way from messages to what is sent.

    Attributes:
        instance: The client.
        settings: How it sends.
    """

    instance: Instance
    settings: ProducerSettings
    _ids: UniqueIds

    def prepared_batch(self, target: Target, messages: Sequence[Message]) -> Outgoing:
        """Returns what is sent of checked messages, each with a new unique id."""
        return batch_of(
            messages,
            topic=target.topic,
            ids=self._ids,
            born_ms=wall_ms(),
            settings=self.settings,
            instance_id=self.instance.namespace,
        )

    def prepared(
        self,
        target: Target,
        message: Message,
        more: Mapping[str, str] | None = None,
        sys_flag: int = 0,
    ) -> Outgoing:
        """Returns what is sent of a checked message, with a new unique id.

        Args:
            target: Its topic.
            message: The message.
            more: Properties that the client sets itself.
            sys_flag: Transaction bits.
        """
        now_ms = wall_ms()
        return outgoing_of(
            message,
            topic=target.topic,
            message_id=self._ids.next(now_ms),
            born_ms=now_ms,
            settings=self.settings,
            instance_id=self.instance.namespace,
            more=more,
            sys_flag=sys_flag,
        )

    async def need_timers(self, target: Target) -> None:
        """Checks that the brokers of a topic deliver timed messages in time.

        Raises:
            UnsupportedError: One does not.
        """
        names = set(map(self.instance.broker_of, target.queues))
        await self.instance.need_timers(target.topic, names)

    def fixed_queue(
        self,
        target: Target,
        message: Message,
        queue: QueueRef | None,
        selector: QueueSelector | None,
        argument: Any,
    ) -> QueueRef | None:
        """Returns the one queue that a message must go to, None for any.

        Raises:
            UsageError: The queue is none of the topic's.
        """
        if queue is not None:
            return check_queue(queue, target)
        if selector is not None:
            return check_queue(selector(target.queues, message, argument), target)
        if message.sharding_key is not None and target.queues:
            return queue_of_key(target.queues, message.sharding_key)
        return None
