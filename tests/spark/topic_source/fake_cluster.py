"""A cluster in memory for planners: queues with bounds, groups with offsets."""

from collections.abc import Iterable
from typing import Any

from mqcore.model.queues import MessageQueue
from mqcore.spark.topic_source.cluster import Access, QueueBounds


class FakeCluster:
    """What `Cluster` answers.

    Attributes:
        held: What queues hold.
        groups: Offsets of groups.
        committed: Commits in order.
    """

    def __init__(self, **queues: tuple[int, int]) -> None:
        """Takes bounds by queue, as `t0=(0, 10)` for queue 0 of topic t."""
        self.access = Access("127.0.0.1:9876")
        self.held = {
            MessageQueue(name[:-1], "b", int(name[-1])): QueueBounds(*bounds, last_ms=bounds[1])
            for name, bounds in queues.items()
        }
        self.groups: dict[tuple[str, MessageQueue], int] = {}
        self.committed: list[tuple[MessageQueue, int]] = []

    def put(self, name: str, low: int, high: int) -> None:
        """Sets what a queue holds."""
        queue = MessageQueue(name[:-1], "b", int(name[-1]))
        self.held[queue] = QueueBounds(low, high, last_ms=high)

    def drop(self, name: str) -> None:
        """Takes a queue away."""
        del self.held[MessageQueue(name[:-1], "b", int(name[-1]))]

    def bounds(self, topic: str) -> dict[MessageQueue, QueueBounds]:
        return {queue: held for queue, held in self.held.items() if queue.topic == topic}

    def topic_names(self) -> set[str]:
        return {queue.topic for queue in self.held}

    def system_names(self) -> set[str]:
        return {"SELF_MADE"}

    def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The message at offset n was stored at n + 1 ms."""
        held = self.held[queue]
        return max(held.min, min(timestamp_ms - 1, held.max))

    def group_offset(self, group: str, queue: MessageQueue) -> int | None:
        return self.groups.get((group, queue))

    def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        self.groups[group, queue] = offset
        self.committed.append((queue, offset))

    def make_group_known(self, group: str, queues: Iterable[MessageQueue]) -> None:
        """It is known."""

    def check_filter(self, topics: Iterable[str], group: str, sql: str) -> None:
        """Every expression is fine."""


def q(name: str) -> MessageQueue:
    """Returns the queue that a fake cluster calls so."""
    return MessageQueue(name[:-1], "b", int(name[-1]))


def as_any(value: object) -> Any:
    """Returns a model as the type that it models."""
    return value
