"""Topics, synchronously: the methods of `mqcore.admin.topics`, on the loop's thread."""

from collections.abc import Iterable
from datetime import datetime

from mqcore.admin import topics as asynchronous
from mqcore.admin.results import TopicStats
from mqcore.client.blocking.loop_thread import LoopThread
from mqcore.client.routes import TopicRoute
from mqcore.model.queues import MessageQueue
from mqcore.model.topics import TopicConfig

__all__ = ["Topics"]

_QUEUES = 8


class Topics:
    """The topics of a cluster."""

    def __init__(self, thread: LoopThread, core: asynchronous.Topics) -> None:
        """Takes the loop, and the asyncio methods under it."""
        self._thread = thread
        self._core = core

    def names(self) -> list[str]:
        """Returns the names of all topics, those of the servers and of groups too (206)."""
        return self._thread.run(lambda: self._core.names())

    def of_cluster(self, cluster: str) -> list[str]:
        """Returns the names of the topics of one cluster (224).

        Raises:
            MQError: There is no such cluster.
        """
        return self._thread.run(lambda: self._core.of_cluster(cluster))

    def of_system(self) -> set[str]:
        """Returns the names that the servers use for themselves (304, 305)."""
        return self._thread.run(lambda: self._core.of_system())

    def route(self, topic: str) -> TopicRoute:
        """Returns where a topic is (105).

        Raises:
            NoRouteError: No name server knows it.
        """
        return self._thread.run(lambda: self._core.route(topic))

    def put(
        self,
        topic: TopicConfig,
        *,
        changes: Iterable[str] = (),
        brokers: Iterable[str] = (),
        cluster: str | None = None,
    ) -> list[str]:
        """Creates a topic, or changes it, on brokers (17).

        Args:
            topic: The topic as it is to be, but for its attributes.
            changes: Of its attributes: `+key=value` adds or changes one, `-key` takes one away.
            brokers: Addresses; without them all masters.
            cluster: Only the masters of this cluster.

        Returns:
            The addresses of the brokers that have it now.

        Raises:
            ResponseError: A broker refuses it.
            UsageError: An argument cannot work; nothing was sent.
        """
        return self._thread.run(
            lambda: self._core.put(topic, changes=changes, brokers=brokers, cluster=cluster)
        )

    def create(
        self,
        topic: str,
        *,
        queues: int = _QUEUES,
        ordered: bool = False,
        brokers: Iterable[str] = (),
        cluster: str | None = None,
    ) -> list[str]:
        """Creates a topic; see `put`.

        Args:
            topic: Its name.
            queues: Queues for reading and for writing, on each broker: 1 to 65,536.
            ordered: Whether it promises order.
            brokers: Addresses; without them all masters.
            cluster: Only the masters of this cluster.

        Returns:
            The addresses of the brokers that have it now.

        Raises:
            ResponseError: A broker refuses it.
            UsageError: An argument cannot work; nothing was sent.
        """
        return self._thread.run(
            lambda: self._core.create(
                topic, queues=queues, ordered=ordered, brokers=brokers, cluster=cluster
            )
        )

    def delete(self, topic: str, *, cluster: str | None = None) -> list[str]:
        """Deletes a topic with its messages: on masters, then on name servers (215, 216).

        A topic that is not there is no error.

        Returns:
            The addresses of the brokers.

        Raises:
            ResponseError: A broker refuses.
        """
        return self._thread.run(lambda: self._core.delete(topic, cluster=cluster))

    def delete_at(self, topic: str, broker: str) -> str:
        """Deletes a topic with its messages on one broker; the others keep theirs (215, 216, 217).

        Name servers forget the topic of that broker alone: the others are entered again at once,
        and register it once more.

        Args:
            topic: Which.
            broker: The broker's name.

        Returns:
            The address of the broker.

        Raises:
            NoRouteError: No name server knows the topic.
            MQError: It is not on such a broker.
            ResponseError: A broker refuses.
        """
        return self._thread.run(lambda: self._core.delete_at(topic, broker))

    def configs(self, topic: str) -> dict[str, TopicConfig]:
        """Returns a topic's configuration by broker name (351; 21 with brokers of 4.9).

        Raises:
            NoRouteError: No name server knows it.
        """
        return self._thread.run(lambda: self._core.configs(topic))

    def all_configs(self, *, cluster: str | None = None) -> dict[str, dict[str, TopicConfig]]:
        """Returns all topics that brokers know: configurations by topic and broker name (21)."""
        return self._thread.run(lambda: self._core.all_configs(cluster=cluster))

    def configs_at(self, address: str) -> dict[str, TopicConfig]:
        """Returns all topics that one broker knows, by name (21)."""
        return self._thread.run(lambda: self._core.configs_at(address))

    def stats_at(self, address: str, topic: str) -> TopicStats:
        """Returns how full the queues of a topic are on one broker (202).

        Raises:
            ResponseError: The broker has no such topic.
        """
        return self._thread.run(lambda: self._core.stats_at(address, topic))

    def config_at(self, address: str, topic: str) -> TopicConfig | None:
        """Returns a topic's configuration on one broker, None where it has no such topic.

        Args:
            address: The broker (351; 21 with brokers of 4.9).
            topic: Which.

        Raises:
            ResponseError: The broker refuses.
        """
        return self._thread.run(lambda: self._core.config_at(address, topic))

    def stats(self, topic: str) -> TopicStats:
        """Returns how full a topic's queues are (202).

        Raises:
            NoRouteError: No name server knows it.
        """
        return self._thread.run(lambda: self._core.stats(topic))

    def groups(self, topic: str) -> list[str]:
        """Returns the groups that read a topic, or have read it (300).

        Raises:
            NoRouteError: No name server knows it.
        """
        return self._thread.run(lambda: self._core.groups(topic))

    def offset_at(self, queue: MessageQueue, time_ms: int | datetime) -> int:
        """Returns the first offset of a queue at or behind a time (29).

        Args:
            queue: Which.
            time_ms: Unix ms, or a `datetime` with a time zone; before the first message means the
                first one, behind the last one the end (with brokers of 4.9 the last message).

        Raises:
            NoRouteError: No name server knows the topic, or the broker.
            UsageError: The time is a `datetime` without a time zone, or no time.
        """
        return self._thread.run(lambda: self._core.offset_at(queue, time_ms))
