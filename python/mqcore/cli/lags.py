"""How far groups are behind: what they committed, and where they will begin in what they did not.

A broker reports offsets that a group committed. Where it committed nothing, its members begin by
the rule that they report; what is not known is None, never 0.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mqcore.client.starting_offset import ConsumeFrom
from mqcore.errors import NoRouteError
from mqcore.model.queues import MessageQueue
from mqcore.model.topics import RETRY_PREFIX

if TYPE_CHECKING:
    from mqcore.admin import Admin, GroupConnections, GroupProgress, QueueRange

__all__ = ["GroupLag", "QueueLag", "group_lag", "known_lag", "lag_cell"]

_BROADCASTING = "BROADCASTING"


@dataclass(frozen=True, slots=True)
class QueueLag:
    """How far a group is behind in one queue.

    Attributes:
        queue: Which.
        next_offset: Where the group goes on, or begins; None where nobody can know.
        end: Queue offset behind the last message.
        lag: Messages that wait for it; None where nobody can know.
        last_ms: When the message read last was stored, Unix ms; 0 for none.
        is_committed: Whether the group committed an offset in the topic.
    """

    queue: MessageQueue
    next_offset: int | None
    end: int
    lag: int | None
    last_ms: int = 0
    is_committed: bool = True

    def to_json(self) -> dict[str, Any]:
        """Returns it as one JSON object."""
        return {
            "topic": self.queue.topic,
            "broker": self.queue.broker_name,
            "queue": self.queue.queue_id,
            "next": self.next_offset,
            "end": self.end,
            "lag": self.lag,
            "last_ms": self.last_ms,
            "is_committed": self.is_committed,
        }


@dataclass(frozen=True, slots=True)
class GroupLag:
    """How far a group is behind.

    Attributes:
        group: Which.
        queues: Its queues: those that it committed, and those of topics that it subscribed.
        get_per_s: Messages that it takes per second, over the last minute.
        online: Its members, None when nobody is online.
    """

    group: str
    queues: tuple[QueueLag, ...]
    get_per_s: float
    online: "GroupConnections | None"

    @property
    def lag(self) -> int | None:
        """Messages that wait for it; None where nobody can know."""
        return sum_of(row.lag for row in self.queues)

    @property
    def topics(self) -> list[str]:
        """The topics that it reads, but for its own retry topic."""
        topics = {row.queue.topic for row in self.queues}
        return sorted(name for name in topics if not name.startswith(RETRY_PREFIX))

    def of_topic(self, topic: str) -> int | None:
        """Messages of one topic that wait for it; None where nobody can know."""
        return sum_of(row.lag for row in self.queues if row.queue.topic == topic)


def sum_of(lags: Iterable[int | None]) -> int | None:
    """Returns a sum; None where one is not known, or there is none."""
    known = list(lags)
    if not known or None in known:
        return None
    return sum(each or 0 for each in known)


def lag_cell(lag: int | None) -> object:
    """Returns a lag as tables show it: a dash where it is not known."""
    return "-" if lag is None else lag


async def group_lag(admin: "Admin", group: str, *, cluster: str | None = None) -> GroupLag:
    """Returns how far a group is behind; nothing but its name where brokers do not know it.

    Raises:
        MQError: A server does not answer, or refuses.
    """
    online = await admin.groups.connections(group, cluster=cluster)
    progress = await admin.groups.progress(group, cluster=cluster, must_exist=False)
    rows = _committed(progress)
    known = {row.queue.topic for row in rows}
    wanted = online.subscriptions if online is not None else {}
    for topic in wanted:
        if topic not in known and not topic.startswith(RETRY_PREFIX):
            assert online is not None
            rows += await _expected(admin, group, topic, online)
    return GroupLag(
        group, tuple(sorted(rows, key=lambda row: row.queue)), progress.get_per_s, online
    )


async def known_lag(admin: "Admin", group: str) -> GroupLag:
    """Returns how far a group is behind.

    Raises:
        MQError: There is no such group.
    """
    found = await group_lag(admin, group)
    if found.online is None and not found.queues:
        await require_group(admin, group)
    return found


async def require_group(admin: "Admin", group: str) -> None:
    """Refuses a group that no broker knows.

    Raises:
        MQError: There is no such group.
    """
    if group not in await admin.groups.configs():
        from mqcore.admin.groups import unknown_group

        raise unknown_group(group)


def _committed(progress: "GroupProgress") -> list[QueueLag]:
    return [
        QueueLag(row.queue, row.group_offset, row.broker_offset, row.lag, row.last_ms)
        for row in progress.queues
    ]


async def _expected(
    admin: "Admin", group: str, topic: str, online: "GroupConnections"
) -> list[QueueLag]:
    """Returns where members will begin in a topic in which their group has committed nothing."""
    try:
        stats = await admin.topics.stats(topic)
    except NoRouteError:
        return []
    rows = []
    for row in stats.queues:
        begin: int | None = None
        if online.message_model != _BROADCASTING:
            begin = await admin.groups.next_offset(group, row.queue)
            if begin is None:
                begin = _BEGINS.get(online.from_where, _unknown)(row)
        begin = None if begin is None else min(max(begin, row.min_offset), row.max_offset)
        lag = None if begin is None else row.max_offset - begin
        rows.append(QueueLag(row.queue, begin, row.max_offset, lag, is_committed=False))
    return rows


def _unknown(row: "QueueRange") -> int | None:
    # The time of CONSUME_FROM_TIMESTAMP is not reported; without a message it does not matter.
    return row.max_offset if row.count == 0 else None


# Where members begin by their own rule, by its official name.
_BEGINS: dict[str, Callable[["QueueRange"], int | None]] = {
    ConsumeFrom.FIRST_OFFSET.value: lambda row: row.min_offset,
    ConsumeFrom.LAST_OFFSET.value: lambda row: row.max_offset,
}
