"""Groups, synchronously: the methods of `mqcore.admin.groups`, on the loop's thread."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from mqcore.admin import groups as asynchronous
from mqcore.admin.results import GroupConnections, GroupProgress
from mqcore.client.blocking.loop_thread import LoopThread
from mqcore.model.groups import GroupConfig
from mqcore.model.queues import MessageQueue
from mqcore.model.request_modes import RequestMode

__all__ = ["Groups"]

_RETRIES = 16


class Groups:
    """The consumer groups of a cluster."""

    def __init__(self, thread: LoopThread, core: asynchronous.Groups) -> None:
        """Takes the loop, and the asyncio methods under it."""
        self._thread = thread
        self._core = core

    def configs(self, *, cluster: str | None = None) -> dict[str, dict[str, GroupConfig]]:
        """Returns all groups that brokers know: configurations by group and broker name (201)."""
        return self._thread.run(lambda: self._core.configs(cluster=cluster))

    def configs_at(self, address: str) -> dict[str, GroupConfig]:
        """Returns all groups that one broker knows, by name (201)."""
        return self._thread.run(lambda: self._core.configs_at(address))

    def progress_at(self, address: str, group: str, topic: str) -> GroupProgress:
        """Returns how far a group has read a topic on one broker (208).

        Every queue of the topic is in it, from 0 where nothing is committed.
        """
        return self._thread.run(lambda: self._core.progress_at(address, group, topic))

    def all_progress_at(self, address: str) -> dict[str, GroupProgress]:
        """Returns how far each group has read what one broker has, by group (317).

        A group that has committed nothing there is left out.
        """
        return self._thread.run(lambda: self._core.all_progress_at(address))

    def consume_again(self, group: str, client_id: str, topic: str, offset_id: str) -> str:
        """Lets a member consume a stored message now; returns how that ended (309).

        Args:
            group: Its group.
            client_id: The member.
            topic: The topic of the message.
            offset_id: The broker's id of the message.

        Returns:
            Such as `CR_SUCCESS` or `CR_LATER`, and what it remarks.

        Raises:
            MQError: It is no broker's id.
            ResponseError: The member is not online, or did not answer.
        """
        return self._thread.run(
            lambda: self._core.consume_again(group, client_id, topic, offset_id)
        )

    def put(
        self, group: GroupConfig, *, brokers: Iterable[str] = (), cluster: str | None = None
    ) -> list[str]:
        """Creates or replaces a group on brokers (200).

        Args:
            group: The group as it is to be.
            brokers: Addresses; without them all masters.
            cluster: Only the masters of this cluster.

        Returns:
            The addresses of the brokers that have it now.

        Raises:
            ResponseError: A broker refuses it.
            UsageError: An argument cannot work; nothing was sent.
        """
        return self._thread.run(lambda: self._core.put(group, brokers=brokers, cluster=cluster))

    def create(
        self,
        group: str,
        *,
        retries: int = _RETRIES,
        brokers: Iterable[str] = (),
        cluster: str | None = None,
    ) -> list[str]:
        """Creates a group with the defaults of brokers, or sets it back to them; see `put`.

        Args:
            group: Its name.
            retries: Deliveries again after which a message goes to the dead letters.
            brokers: Addresses; without them all masters.
            cluster: Only the masters of this cluster.

        Returns:
            The addresses of the brokers that have it now.

        Raises:
            ResponseError: A broker refuses it.
            UsageError: An argument cannot work; nothing was sent.
        """
        return self._thread.run(
            lambda: self._core.create(group, retries=retries, brokers=brokers, cluster=cluster)
        )

    def set_mode(self, wanted: RequestMode, *, cluster: str | None = None) -> list[str]:
        """Sets how members that are assigned their queues ask for a topic: pull or pop (401, 5.x).

        Args:
            wanted: The mode, with topic and group.
            cluster: Only on the masters of this cluster.

        Returns:
            The addresses of the brokers that have it now.

        Raises:
            ResponseError: A broker refuses: it has no such topic, or it is of 4.9.
        """
        return self._thread.run(lambda: self._core.set_mode(wanted, cluster=cluster))

    def delete(
        self, group: str, *, cluster: str | None = None, removes_offsets: bool = True
    ) -> list[str]:
        """Deletes a group, and its retry and dead letter topics (207, 215, 216).

        A group that is not there is no error.

        Args:
            group: Its name.
            cluster: Only on the masters of this cluster.
            removes_offsets: Whether brokers forget how far it has read.

        Returns:
            The addresses of the brokers.
        """
        return self._thread.run(
            lambda: self._core.delete(group, cluster=cluster, removes_offsets=removes_offsets)
        )

    def progress(
        self,
        group: str,
        *,
        topic: str | None = None,
        cluster: str | None = None,
        must_exist: bool = True,
    ) -> GroupProgress:
        """Returns how far a group has read (208).

        Args:
            group: Which; of a group that never committed there is no queue in the answer.
            topic: Only this topic, with all its queues, from 0 where nothing is committed.
            cluster: Only this cluster.
            must_exist: False saves a question where the group has read nothing: a name that nobody
                knows is no error then.

        Raises:
            MQError: There is no such group.
            NoRouteError: No name server knows the topic.
        """
        return self._thread.run(
            lambda: self._core.progress(group, topic=topic, cluster=cluster, must_exist=must_exist)
        )

    def connections(self, group: str, *, cluster: str | None = None) -> GroupConnections | None:
        """Returns the members of a group, None when nobody is online, or no such group (203)."""
        return self._thread.run(lambda: self._core.connections(group, cluster=cluster))

    def next_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Returns where a broker lets a group go on in a queue, None where the group decides (14).

        That is what it committed. Of a group that has committed nothing there it is 0 while the
        broker still has the first message in memory; otherwise its members begin by their own rule.

        Raises:
            NoRouteError: No name server knows the topic.
            MQError: The topic has no such broker.
        """
        return self._thread.run(lambda: self._core.next_offset(group, queue))

    def running_info(self, group: str, client_id: str, *, stacks: bool = False) -> dict[str, Any]:
        """Returns what a member reports of itself, by the official names (307).

        Args:
            group: Its group.
            client_id: Who.
            stacks: Whether it is to report the stacks of its threads.

        Raises:
            ResponseError: It is not online, or did not answer.
        """
        return self._thread.run(lambda: self._core.running_info(group, client_id, stacks=stacks))

    def reset_to_time(
        self, group: str, topic: str, time_ms: int | datetime, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Moves a group to a time in every queue of a topic (222).

        Brokers of 4.9 refuse it while nobody of the group is online, and where the group has not
        committed anything yet: then its offsets are written from here, as official tools do.

        Args:
            group: Which.
            topic: Which.
            time_ms: Unix ms, or a `datetime` with a time zone; `LATEST_MS` for behind the last
                message.
            force: Whether to move ahead too (brokers of 4.9).

        Returns:
            Where the group goes on, by queue.

        Raises:
            NoRouteError: No name server knows the topic.
            ResponseError: A broker refuses: it has no such group.
            UsageError: The time is a `datetime` without a time zone, or no time.
        """
        return self._thread.run(
            lambda: self._core.reset_to_time(group, topic, time_ms, force=force)
        )

    def reset_queue(self, group: str, queue: MessageQueue, offset: int) -> int:
        """Moves a group to an exact offset in one queue (222 with an offset: 5.x and mqcore).

        A broker of 4.9 would move all queues to a time: its offset is written from here, and only
        while nobody of the group is online, who would overwrite it.

        Returns:
            Where it goes on.

        Raises:
            NoRouteError: No name server knows the topic, or the broker.
            ResponseError: The broker refuses: the offset is not in the queue, or no such group.
            MQError: It is a broker of 4.9, and the group is online.
            UsageError: The offset is below 0, or no number.
        """
        return self._thread.run(lambda: self._core.reset_queue(group, queue, offset))

    def clone(self, source: str, target: str, topic: str | None = None) -> None:
        """Gives a group the offsets of another one (314).

        Args:
            source: Whose offsets.
            target: Who gets them.
            topic: Only in this topic.

        Raises:
            MQError: There is no group `source`.
            NoRouteError: No name server knows the topic.
        """
        self._thread.run(lambda: self._core.clone(source, target, topic))
