"""A producer as its instance sees it: a group, its topics, and who serves what brokers ask."""

from collections.abc import Collection, Mapping

from mqcore.client.routes import TopicRoute
from mqcore.client.sender import Sender
from mqcore.model.heartbeats import ConsumerData
from mqcore.remoting.dispatch import Handler

__all__ = ["ProducerPart"]


class ProducerPart:
    """The part of one producer.

    Attributes:
        handlers: What serves requests of brokers.
    """

    def __init__(self, sender: Sender, handlers: Mapping[int, Handler] | None = None) -> None:
        """Takes what knows the group and the topics."""
        self._sender = sender
        self.handlers: Mapping[int, Handler] = handlers or {}

    @property
    def group(self) -> str:
        """The group, the namespace included."""
        return self._sender.group

    def consumer_data(self) -> ConsumerData | None:
        """Returns None: a producer consumes nothing."""
        return None

    def topics(self) -> Collection[str]:
        """Returns the topics that were sent to."""
        return self._sender.targets.topics

    def on_route(self, topic: str, route: TopicRoute) -> None:
        """Sends to the queues of a changed route from now on."""
        self._sender.targets.changed(topic, route)
