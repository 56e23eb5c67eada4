"""What a producer knows of the topics that it sends to: route, next queue, the name in full.

Shared by the asyncio producer and the blocking one; a lookup in a dictionary, safe from any thread.
"""

from mqcore.client.faults import QueueChoice
from mqcore.client.routes import TopicRoute
from mqcore.model.queues import MessageQueue
from mqcore.model.subscriptions import java_hash

__all__ = ["Target", "Targets", "queue_of_key"]


class Target:
    """A topic that is sent to.

    Attributes:
        topic: Its name, the namespace included.
        queues: The queues that may be written.
        choice: Which of them is next.
    """

    __slots__ = ("choice", "queues", "topic")

    def __init__(self, topic: str, queues: tuple[MessageQueue, ...]) -> None:
        """Begins anywhere among the queues."""
        self.topic = topic
        self.queues = queues
        self.choice = QueueChoice()


class Targets:
    """The topics of one producer, by the name that users call them."""

    def __init__(self) -> None:
        """Begins without any."""
        self._by_name: dict[str, Target] = {}
        self._by_topic: dict[str, Target] = {}

    def known(self, name: str) -> Target | None:
        """Returns a topic that was sent to before."""
        return self._by_name.get(name)

    def put(self, name: str, route: TopicRoute) -> Target:
        """Takes the route of a topic; the position in its round robin stays."""
        target = self._by_topic.get(route.topic)
        if target is None:
            target = self._by_topic[route.topic] = Target(route.topic, route.write_queues)
        else:
            target.queues = route.write_queues
        self._by_name[name] = target
        return target

    def changed(self, topic: str, route: TopicRoute) -> None:
        """Hears of a changed route, by the topic's name in full."""
        target = self._by_topic.get(topic)
        if target is not None:
            target.queues = route.write_queues

    @property
    def topics(self) -> list[str]:
        """The topics' names in full."""
        return list(self._by_topic)


def queue_of_key(queues: tuple[MessageQueue, ...], key: str) -> MessageQueue:
    """Returns the queue of a sharding key, as `SelectMessageQueueByHash` chooses it."""
    # Java's abs of its smallest number is negative, and it takes 0 then.
    value = abs(java_hash(key))
    return queues[0 if value >> 31 else value % len(queues)]
