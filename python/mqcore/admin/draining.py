"""Takes a broker out of use: producers go over to others, consumers read what is left.

    draining = Draining(admin, "broker-a")
    left = await draining.look()          # changes nothing
    await draining.wipe()                 # name servers give no route for writing any more (205)
    await draining.refuse()               # the broker takes no sends (brokerPermission)
    ...until (await draining.look()).is_empty
    await undrained(admin, "broker-a")    # everything is as before

Everything that was done is in the servers: who is interrupted looks, and goes on. Brokers of
RocketMQ
are drained as ours are. For the command line and the console alike; waits for nothing by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from mqcore.admin.admin import Admin
from mqcore.admin.results import GroupProgress, TopicStats
from mqcore.errors import MQError, UsageError
from mqcore.model.topics import (
    DLQ_PREFIX,
    HALF_TOPIC,
    PERM_WRITE,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TopicConfig,
)

__all__ = ["DrainState", "Draining", "Lag", "undrained"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_PERMISSION: Final = "brokerPermission"
# Of a broker that does not show it: as it is by default.
_READ_WRITE: Final = "6"
_MASTER: Final = 0
# Questions at once: the broker has other work.
_AT_ONCE_MAX: Final = 16
# So many topics show whether a name server gives routes for writing: it wipes all of a broker.
_ROUTED_MAX: Final = 8
# A broker registers a change within a second or two.
_LOOKS: Final = 25
_LOOK_S: Final = 0.2
# Groups by which brokers read their own topics.
_TRANSACTIONS: Final = "CID_RMQ_SYS_TRANS"
_OWN_GROUPS: Final = ("CID_RMQ_SYS_", "CID_SYS_")


@dataclass(frozen=True, slots=True, order=True)
class Lag:
    """What a group has not read of a topic.

    Attributes:
        topic: Which.
        group: Who.
        messages: How many.
    """

    topic: str
    group: str
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainState:
    """What is left on a broker.

    Attributes:
        name: The broker's name.
        address: Its master.
        permission: Its `brokerPermission`.
        writable_at: Name servers that give routes for writing to it.
        ends: The sum of the ends of a topic's queues, by topic of users.
        lags: What groups have not read, the most first.
        unread: Topics with messages that no group has read anything of.
        delayed: Delayed messages that were not delivered yet.
        timed: Timed messages that wait, by topic.
        half: Half messages that were not looked at since they came.
        dead: Dead letters that are kept, by topic.
    """

    name: str
    address: str
    permission: int
    writable_at: tuple[str, ...]
    ends: Mapping[str, int] = field(default_factory=dict)
    lags: tuple[Lag, ...] = ()
    unread: Mapping[str, int] = field(default_factory=dict)
    delayed: int = 0
    timed: Mapping[str, int] = field(default_factory=dict)
    half: int = 0
    dead: Mapping[str, int] = field(default_factory=dict)

    @property
    def takes_sends(self) -> bool:
        """Whether the broker itself takes sends."""
        return bool(self.permission & PERM_WRITE)

    @property
    def lag(self) -> int:
        """Messages that groups have not read."""
        return sum(each.messages for each in self.lags)

    @property
    def pending(self) -> int:
        """Messages that come to their topics later: delayed ones, timed ones, half ones."""
        return self.delayed + sum(self.timed.values()) + self.half

    @property
    def is_empty(self) -> bool:
        """Whether it takes no sends, and nothing is left that somebody waits for."""
        return not (self.takes_sends or self.writable_at or self.lag or self.pending)

    def written_since(self, before: "DrainState") -> dict[str, int]:
        """Returns how many messages came since, by topic."""
        grown = {topic: end - before.ends.get(topic, 0) for topic, end in self.ends.items()}
        return {topic: count for topic, count in grown.items() if count > 0}

    def to_json(self) -> dict[str, Any]:
        """Returns it as one JSON object."""
        return {
            "broker": self.name,
            "address": self.address,
            "permission": self.permission,
            "writableAt": list(self.writable_at),
            "lag": self.lag,
            "lags": [
                {"topic": each.topic, "group": each.group, "messages": each.messages}
                for each in self.lags
            ],
            "unread": dict(self.unread),
            "delayed": self.delayed,
            "timed": dict(self.timed),
            "half": self.half,
            "deadLetters": dict(self.dead),
            "isEmpty": self.is_empty,
        }


class Draining:
    """The drain of one broker."""

    def __init__(self, admin: Admin, name: str) -> None:
        """Takes who asks, and the name of the broker."""
        self._admin = admin
        self._name = name

    async def look(self) -> DrainState:
        """Returns what is left. Changes nothing.

        Raises:
            UsageError: Name servers know no master of the name.
            MQError: A server does not answer.
        """
        admin, address = self._admin, await _master(self._admin, self._name)
        config = await admin.brokers.config(address)
        topics = await admin.topics.configs_at(address)
        known = await admin.topics.of_system()
        users = [name for name in topics if not _is_own(name, known)]
        stats = dict(zip(users, await _each(users, self._stats(address)), strict=True))
        progress = await admin.groups.all_progress_at(address)
        lags, read = _lags(progress, topics)
        ends = {name: sum(row.max_offset for row in each.queues) for name, each in stats.items()}
        kept = {
            name: sum(row.max_offset - row.min_offset for row in each.queues)
            for name, each in stats.items()
        }
        return DrainState(
            name=self._name,
            address=address,
            permission=int(config.get(_PERMISSION, _READ_WRITE)),
            writable_at=await self._writable_at(_routed(topics, users)),
            ends={name: end for name, end in ends.items() if not name.startswith(RETRY_PREFIX)},
            lags=lags,
            unread={
                name: count
                for name, count in kept.items()
                if count and name not in read and not name.startswith((RETRY_PREFIX, DLQ_PREFIX))
            },
            delayed=await self._delayed(address),
            timed=await self._timed(address),
            half=await self._half(address),
            dead={
                name: count for name, count in kept.items() if count and name.startswith(DLQ_PREFIX)
            },
        )

    async def wipe(self) -> None:
        """Lets name servers give no route for writing to the broker (205).

        They forget it where the broker registers a change: to be called again and again.

        Raises:
            MQError: A name server did not take it; it was sent to the others all the same.
        """
        await self._admin.brokers.set_writable(self._name, is_writable=False)

    async def refuse(self) -> None:
        """Lets the broker refuse sends, also after a start of its own or of name servers (25).

        Raises:
            MQError: It does not.
        """
        address = await _master(self._admin, self._name)
        permission = int((await self._admin.brokers.config(address)).get(_PERMISSION, _READ_WRITE))
        changes = {_PERMISSION: str(permission & ~PERM_WRITE)}
        await self._admin.brokers.change_config(address, changes)

    def _stats(self, address: str) -> Callable[[str], Awaitable[TopicStats]]:
        return lambda topic: self._admin.topics.stats_at(address, topic)

    async def _writable_at(self, topics: list[str]) -> tuple[str, ...]:
        """Returns the name servers by which one of some topics may be written here."""
        found = []
        for server in await self._admin.name_servers.addresses():
            for topic in topics:
                perm = await self._admin.name_servers.permission_at(server, topic, self._name)
                if perm & PERM_WRITE:
                    found.append(server)
                    break
        return tuple(found)

    async def _delayed(self, address: str) -> int:
        stats = await _unless_missing(self._admin.topics.stats_at(address, SCHEDULE_TOPIC))
        if stats is None:
            return 0
        done = await self._admin.brokers.delay_offsets(address)
        # Level n is in the queue n - 1.
        rows = ((row.max_offset, done.get(row.queue.queue_id + 1, 0)) for row in stats.queues)
        return sum(max(0, end - offset) for end, offset in rows)

    async def _timed(self, address: str) -> dict[str, int]:
        found = await _unless_missing(self._admin.brokers.timers(address)) or {}
        return {topic: count for topic, count in found.items() if count > 0}

    async def _half(self, address: str) -> int:
        asked = self._admin.groups.progress_at(address, _TRANSACTIONS, HALF_TOPIC)
        progress = await _unless_missing(asked)
        return 0 if progress is None else progress.lag


async def undrained(admin: Admin, name: str) -> tuple[str, ...]:
    """Lets a broker take sends again, and name servers give routes for writing.

    Returns:
        Name servers that made every topic of the broker writable (327), also those that were not
        before: their permissions come back with the broker's next registration of a change.

    Raises:
        MQError: A server does not answer, or refuses.
    """
    address = await _master(admin, name)
    permission = int((await admin.brokers.config(address)).get(_PERMISSION, _READ_WRITE))
    # Also where it is so already: brokers register anew with each change of it, and name servers
    # take the permissions of topics from there.
    await admin.brokers.change_config(address, {_PERMISSION: str(permission | PERM_WRITE)})
    topics = await admin.topics.configs_at(address)
    known = await admin.topics.of_system()
    some = _routed(topics, [each for each in topics if not _is_own(each, known)])[:1]
    for _look in range(_LOOKS):
        left = [
            server
            for server in await admin.name_servers.addresses()
            for topic in some
            if not await admin.name_servers.permission_at(server, topic, name) & PERM_WRITE
        ]
        if not left:
            return ()
        await asyncio.sleep(_LOOK_S)
    await admin.brokers.set_writable(name, is_writable=True)
    return tuple(left)


async def _master(admin: Admin, name: str) -> str:
    brokers = (await admin.brokers.cluster()).brokers
    address = brokers.get(name, {}).get(_MASTER)
    if address is None:
        names = ", ".join(sorted(brokers)) or "none"
        raise UsageError(f"name servers know no master of {name}; they know: {names}")
    return address


def _routed(topics: Mapping[str, TopicConfig], users: Iterable[str]) -> list[str]:
    """Returns some topics of users that may be written by their own permission."""
    written = (
        name
        for name in sorted(users)
        if topics[name].perm & PERM_WRITE and not name.startswith((RETRY_PREFIX, DLQ_PREFIX))
    )
    return [name for name, _ in zip(written, range(_ROUTED_MAX), strict=False)]


def _is_own(topic: str, system: set[str]) -> bool:
    return topic in system or topic.startswith(("rmq_sys_", "RMQ_SYS_"))


def _lags(
    progress: Mapping[str, GroupProgress], topics: Mapping[str, TopicConfig]
) -> tuple[tuple[Lag, ...], set[str]]:
    """Returns what groups have not read, and the topics that one of them reads."""
    found: list[Lag] = []
    read: set[str] = set()
    for group, each in progress.items():
        if group.startswith(_OWN_GROUPS):
            continue
        by_topic: dict[str, int] = {}
        for row in each.queues:
            by_topic[row.queue.topic] = by_topic.get(row.queue.topic, 0) + row.lag
        read.update(by_topic)
        found += [
            Lag(topic, group, count)
            for topic, count in by_topic.items()
            if count and topic in topics and not topic.startswith(DLQ_PREFIX)
        ]
    return tuple(sorted(found, key=lambda lag: (-lag.messages, lag))), read


async def _each(items: list[_Item], work: Callable[[_Item], Awaitable[_Result]]) -> list[_Result]:
    gate = asyncio.Semaphore(_AT_ONCE_MAX)

    async def one(item: _Item) -> _Result:
        async with gate:
            return await work(item)

    return list(await asyncio.gather(*(one(item) for item in items)))


async def _unless_missing(asking: Awaitable[_Result]) -> _Result | None:
    """Returns an answer; None of a broker that has no such part."""
    try:
        return await asking
    except MQError:
        return None
