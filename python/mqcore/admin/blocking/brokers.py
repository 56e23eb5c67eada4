"""Brokers, synchronously: the methods of `mqcore.admin.brokers`, on the loop's thread."""

from collections.abc import Mapping

from mqcore.admin import brokers as asynchronous
from mqcore.admin.broker_settings import BrokerSetting
from mqcore.admin.limits import BrokerLimits
from mqcore.admin.results import (
    ClusterInfo,
    Connected,
    CounterWindow,
    HandOver,
    ReplicationStatus,
)
from mqcore.admin.slow import SlowRequests
from mqcore.client.blocking.loop_thread import LoopThread
from mqcore.occupancy import Occupied

__all__ = ["Brokers"]


class Brokers:
    """The brokers of a cluster. An address is `host:port`."""

    def __init__(self, thread: LoopThread, core: asynchronous.Brokers) -> None:
        """Takes the loop, and the asyncio methods under it."""
        self._thread = thread
        self._core = core

    def cluster(self) -> ClusterInfo:
        """Returns the brokers that name servers know (106)."""
        return self._thread.run(lambda: self._core.cluster())

    def runtime(self, address: str) -> dict[str, str]:
        """Returns a broker in figures, by the official names (28)."""
        return self._thread.run(lambda: self._core.runtime(address))

    def replication(self, address: str) -> ReplicationStatus:
        """Returns how far the slaves of a broker are, or how it follows its master (907).

        Raises:
            ResponseError: The broker does not know the request: one of 4.9.
        """
        return self._thread.run(lambda: self._core.replication(address))

    def config(self, address: str) -> dict[str, str]:
        """Returns a broker's settings by their official keys (26)."""
        return self._thread.run(lambda: self._core.config(address))

    def change_config(self, address: str, changes: Mapping[str, str]) -> None:
        """Changes settings that may change while a broker runs (25).

        Raises:
            ResponseError: One may not; nothing was changed.
            UsageError: It is no mapping, or a value has more than one line.
        """
        self._thread.run(lambda: self._core.change_config(address, changes))

    def settings(self, address: str) -> list[BrokerSetting]:
        """Returns the settings of a broker of mqcore, by name, with where each value comes from.

        Raises:
            ResponseError: The broker does not know the request: it is none of mqcore.
        """
        return self._thread.run(lambda: self._core.settings(address))

    def memory(self, address: str) -> Occupied:
        """Returns what a broker of mqcore and its store occupy, and what holds its memory.

        Raises:
            ResponseError: The broker does not know the request: it is none of mqcore.
        """
        return self._thread.run(lambda: self._core.memory(address))

    def counter(self, address: str, name: str, key: str) -> dict[str, CounterWindow] | None:
        """Returns a counter over the last `minute`, `hour` and `day`, None for one not there (315).

        Args:
            address: The broker.
            name: Such as `TOPIC_PUT_NUMS` or `GROUP_GET_NUMS`.
            key: A topic, or `topic@group`.
        """
        return self._thread.run(lambda: self._core.counter(address, name, key))

    def producers(self, address: str, group: str) -> list[Connected]:
        """Returns the members of a producer group that a broker knows (204)."""
        return self._thread.run(lambda: self._core.producers(address, group))

    def all_producers(self, address: str) -> dict[str, tuple[Connected, ...]]:
        """Returns the members of all producer groups that a broker knows (328, from 4.9.4)."""
        return self._thread.run(lambda: self._core.all_producers(address))

    def timers(self, address: str) -> dict[str, int]:
        """Returns how many timed messages wait on a broker, by topic (61, 5.x).

        Raises:
            ResponseError: It has no timers, or does not know them.
        """
        return self._thread.run(lambda: self._core.timers(address))

    def delay_offsets(self, address: str) -> dict[int, int]:
        """Returns how far a broker has delivered each delay level: messages, by level (45)."""
        return self._thread.run(lambda: self._core.delay_offsets(address))

    def delete_expired(self, address: str) -> None:
        """Lets a broker remove the log files that it need not keep any longer (329)."""
        self._thread.run(lambda: self._core.delete_expired(address))

    def limits(self, address: str) -> BrokerLimits:
        """Returns the limits of a broker of mqcore that are at work, and whom they hold back.

        Raises:
            ResponseError: The broker does not know the request: it is none of mqcore.
        """
        return self._thread.run(lambda: self._core.limits(address))

    def slow_requests(self, address: str, *, after: int = 0, limit: int = 100) -> SlowRequests:
        """Returns the slowest requests of a broker of mqcore in the last 16 minutes.

        Args:
            address: The broker.
            after: The `mark` of an answer before: only what was answered behind it.
            limit: How many at the most.

        Raises:
            ResponseError: It is no broker of mqcore.
            UsageError: A number is none.
        """
        return self._thread.run(lambda: self._core.slow_requests(address, after=after, limit=limit))

    def set_writable(self, broker_name: str, *, is_writable: bool) -> None:
        """Lets name servers give routes for writing to a broker, or not (327, 205).

        Name servers forget it when the broker registers a change, or when they start anew.

        Raises:
            MQError: A name server did not take it; it was sent to the others all the same.
        """
        self._thread.run(lambda: self._core.set_writable(broker_name, is_writable=is_writable))

    def hand_over(self, address: str, to: str | None = None) -> HandOver:
        """Lets a master under a controller hand its role to a slave; returns how far it is.

        It goes on by itself: `handed_over` returns how far, until `is_over`.

        Args:
            address: The master, a broker of mqcore.
            to: The address of the slave; None for the one in sync that has most.

        Raises:
            ResponseError: It cannot be handed over now; nothing has changed.
            UsageError: An address is no text.
        """
        return self._thread.run(lambda: self._core.hand_over(address, to))

    def plan_hand_over(self, address: str, to: str | None = None) -> HandOver:
        """Returns to whom a master would hand its role; changes nothing. See `hand_over`."""
        return self._thread.run(lambda: self._core.plan_hand_over(address, to))

    def handed_over(self, address: str) -> HandOver:
        """Returns how far the last hand-over of a broker of mqcore is."""
        return self._thread.run(lambda: self._core.handed_over(address))
