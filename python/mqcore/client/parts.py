"""What a producer or a consumer is to the instance that it belongs to. Knows neither.

A part is registered under its group. The instance keeps the routes of its topics fresh, sends its
group in heartbeats, and hands it the requests that brokers send for its group.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from mqcore.client.routes import TopicRoute
from mqcore.model.heartbeats import ConsumerData
from mqcore.remoting.dispatch import Handler

__all__ = ["Part"]


class Part(Protocol):
    """A producer or a consumer. All calls come from the event loop of the instance."""

    @property
    def group(self) -> str:
        """Its group, the namespace included."""
        ...

    def consumer_data(self) -> ConsumerData | None:
        """Returns what its heartbeat contains; None for a producer, whose group is all."""
        ...

    def topics(self) -> Collection[str]:
        """Returns the topics whose routes it needs fresh, their namespace included."""
        ...

    def on_route(self, topic: str, route: TopicRoute) -> None:
        """Hears of a route that changed. It must not wait."""
        ...

    @property
    def handlers(self) -> Mapping[int, Handler]:
        """What serves requests of brokers for its group, by request code."""
        ...
