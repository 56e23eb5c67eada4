"""The questions of one page: one deadline, a bounded number at once; who does not answer is named.

The only module of the console that waits for servers. A server that let a question run into its
deadline is not asked again for some seconds, so that one that hangs costs one page, not each.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from mqcore.admin import Admin, ClusterInfo, GroupProgress
from mqcore.clock import monotonic_ms
from mqcore.errors import MQError, NameServerError, ResponseError
from mqcore.model.groups import GroupConfig
from mqcore.model.topics import TopicConfig
from mqcore.remoting import ResponseCode

__all__ = ["BrokerAt", "Fault", "Kept", "Questions", "Silences"]

_Result = TypeVar("_Result")
_Key = TypeVar("_Key", bound=Hashable)

# Brokers have other work.
_AT_ONCE_MAX: Final = 16
# How long a server that did not answer is left alone.
_SILENCE_MS: Final = 10_000
# How old a whole table may be that is shown: a page and the next one of the same table.
_KEPT_MS: Final = 2_000
# How old one may be that is shown, with a word about it, where its broker does not answer.
_STALE_MS: Final = 60_000
# A table of ten thousand topics takes longer than a figure: so much of the time for a question.
_TABLE_SHARE: Final = 1.5
_MASTER: Final = 0


@dataclass(frozen=True, slots=True)
class BrokerAt:
    """A broker as name servers know it.

    Attributes:
        name: Its name.
        broker_id: Its id; 0 is the master.
        address: Where it answers.
        cluster: Its cluster.
    """

    name: str
    broker_id: int
    address: str
    cluster: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A question without an answer.

    Attributes:
        where: The server.
        what: What was asked for.
        text: Why there is no answer.
    """

    where: str
    what: str
    text: str


@dataclass(slots=True)
class Silences:
    """Servers that did not answer lately.

    Attributes:
        until_ms: Until when each is left alone, on a monotonic clock.
    """

    until_ms: dict[str, int] = field(default_factory=dict)

    def note(self, where: str) -> None:
        """Notes a server that let a question run into its deadline."""
        self.until_ms[where] = monotonic_ms() + _SILENCE_MS

    def left_s(self, where: str) -> int:
        """Returns for how many seconds a server is still left alone, 0 for one that is asked."""
        left_ms = self.until_ms.get(where, 0) - monotonic_ms()
        if left_ms <= 0:
            self.until_ms.pop(where, None)
            return 0
        return -(-left_ms // 1_000)


@dataclass(slots=True)
class Kept:
    """Whole tables of brokers, kept for two seconds; forgotten when something is changed here.

    A broker that does not answer is shown as it was for a minute.

    Attributes:
        found: When each was read, and what it was.
    """

    found: dict[tuple[str, str], tuple[int, Any]] = field(default_factory=dict)

    def value(self, key: tuple[str, str]) -> Any:
        """Returns a table that is fresh, else None."""
        at_ms, value = self.found.get(key, (0, None))
        return value if value is not None and monotonic_ms() - at_ms <= _KEPT_MS else None

    def stale(self, key: tuple[str, str]) -> tuple[int, Any] | None:
        """Returns how old a table is in seconds, and the table; None where it is too old."""
        at_ms, value = self.found.get(key, (0, None))
        age_ms = monotonic_ms() - at_ms
        return (age_ms // 1_000, value) if value is not None and age_ms <= _STALE_MS else None

    def put(self, key: tuple[str, str], value: Any) -> None:
        """Keeps a table; those that are too old go."""
        now_ms = monotonic_ms()
        self.found = {k: each for k, each in self.found.items() if now_ms - each[0] <= _STALE_MS}
        self.found[key] = (now_ms, value)

    def forget(self) -> None:
        """Forgets all: something was changed."""
        self.found.clear()


class Questions:
    """What one page asks.

    Attributes:
        admin: The administrator, for requests that one page alone makes.
        faults: The questions without an answer so far.
    """

    def __init__(
        self, admin: Admin, silences: Silences, kept: Kept, *, question_s: float, page_s: float
    ) -> None:
        """Takes the administrator, and what is known of the servers; the page's time begins."""
        self.admin = admin
        self.faults: list[Fault] = []
        self._silences = silences
        self._kept = kept
        self._question_s = question_s
        self._ends_ms = monotonic_ms() + int(page_s * 1_000)
        self._gate = asyncio.Semaphore(_AT_ONCE_MAX)
        self._cluster: ClusterInfo | None = None

    def is_silent(self, where: str) -> bool:
        """Returns whether a server left a question of this page without an answer."""
        return any(fault.where == where for fault in self.faults)

    async def ask(
        self,
        where: str,
        what: str,
        make: Callable[[], Awaitable[_Result]],
        *,
        deadline_s: float | None = None,
        share: float = 1.0,
    ) -> _Result | None:
        """Asks one server; None where it does not answer, which is a fault of the page then.

        Args:
            where: The server's address, or a word for several.
            what: What is asked for, in words.
            make: Begins the question.
            deadline_s: Longer than others: it is waited for a client.
            share: How much of the time for a question it may take.
        """
        left_s = self._silences.left_s(where)
        if left_s:
            text = f"did not answer lately; it is asked again in {left_s} s"
            self.faults.append(Fault(where, what, text))
            return None
        async with self._gate:
            left_ms = self._ends_ms - monotonic_ms()
            limit_s = deadline_s or min(share * self._question_s, left_ms / 1_000)
            try:
                async with asyncio.timeout(max(0.0, limit_s)):
                    return await make()
            except TimeoutError:
                if left_ms > 0:
                    self._silences.note(where)
                text = (
                    f"no answer within {limit_s:.1f} s" if left_ms > 0 else "the page's time was up"
                )
            except MQError as error:
                text = error.message
            except (ValueError, KeyError, TypeError, AttributeError, LookupError) as error:
                # An answer that makes no sense is the broker's fault, and must not end a page.
                text = f"an answer that makes no sense: {error!r}"[:300]
        self.faults.append(Fault(where, what, text))
        return None

    async def ask_if_known(
        self, where: str, what: str, make: Callable[[], Awaitable[_Result]]
    ) -> _Result | None:
        """Asks one server what some releases do not know: None where it does not, without a fault.

        Args:
            where: The server's address.
            what: What is asked for, in words.
            make: Begins the question.
        """
        found = await self.each_if_known({where: where}, what, lambda _key: make())
        return found.get(where)

    async def each_if_known(
        self,
        addresses: Mapping[_Key, str],
        what: str,
        make: Callable[[_Key], Awaitable[_Result]],
        *,
        unknown: ResponseCode = ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    ) -> dict[_Key, _Result | None]:
        """Asks for several things that some servers do not know: None of those, without a fault.

        Args:
            addresses: The server of each.
            what: What is asked for, in words.
            make: Begins the question for one.
            unknown: With what a server answers that does not know it.
        """

        async def known(key: _Key) -> tuple[_Result | None]:
            try:
                return (await make(key),)
            except ResponseError as error:
                if error.code != unknown:
                    raise
            return (None,)

        found = await self.each(addresses, what, known)
        return {key: each for key, (each,) in found.items()}

    async def each(
        self,
        addresses: Mapping[_Key, str],
        what: str,
        make: Callable[[_Key], Awaitable[_Result]],
        *,
        share: float = 1.0,
    ) -> dict[_Key, _Result]:
        """Asks for several things at once; what is without an answer is not in the result.

        Args:
            addresses: The server of each.
            what: What is asked for, in words.
            make: Begins the question for one.
            share: How much of the time for a question each may take.
        """
        keys = list(addresses)
        found = await asyncio.gather(
            *(self.ask(addresses[key], what, _bound(make, key), share=share) for key in keys)
        )
        return {key: each for key, each in zip(keys, found, strict=True) if each is not None}

    async def cluster(self) -> ClusterInfo:
        """Returns the brokers that name servers know.

        Raises:
            NameServerError: No name server answers.
        """
        if self._cluster is None:
            try:
                async with asyncio.timeout(self._question_s):
                    self._cluster = await self.admin.brokers.cluster()
            except TimeoutError as error:
                servers = ", ".join(await self.admin.name_servers.addresses())
                text = f"no name server answers within {self._question_s} s: {servers}"
                raise NameServerError(text, causes={}) from error
        return self._cluster

    async def brokers(self) -> list[BrokerAt]:
        """Returns the brokers, by name and id."""
        info = await self.cluster()
        return [
            BrokerAt(name, broker_id, address, info.cluster_of(name))
            for name, by_id in info.brokers.items()
            for broker_id, address in by_id.items()
        ]

    async def deciders(self) -> dict[str, str]:
        """Returns whom to ask of each broker name: the master, or the first that is left."""
        info = await self.cluster()
        return {
            name: by_id.get(_MASTER) or next(iter(by_id.values()))
            for name, by_id in info.brokers.items()
            if by_id
        }

    async def topics(self) -> dict[str, dict[str, TopicConfig]]:
        """Returns the topics of all brokers, by topic and broker name: one question a broker."""
        return await self._tables("topics", self.admin.topics.configs_at)

    async def topic_names(self) -> frozenset[str]:
        """Returns the names of all topics, by a name server: less work than their tables."""
        where, what = "name servers", "names of topics"
        known: frozenset[str] | None = self._kept.value((what, where))
        if known is None:
            names = await self.ask(where, what, self.admin.topics.names, share=_TABLE_SHARE)
            known = frozenset(names or ())
            if names is not None:
                self._kept.put((what, where), known)
        return known

    async def groups(self) -> dict[str, dict[str, GroupConfig]]:
        """Returns the groups of all brokers, by group and broker name: one question a broker."""
        return await self._tables("groups", self.admin.groups.configs_at)

    async def progress(self) -> dict[str, GroupProgress]:
        """Returns how far every group is, by group: two questions a broker."""
        tables = await self._tables("progress of groups", self.admin.groups.all_progress_at)
        return {
            group: GroupProgress(
                group,
                tuple(row for part in parts.values() for row in part.queues),
                sum(part.get_per_s for part in parts.values()),
            )
            for group, parts in tables.items()
        }

    async def _tables(
        self, what: str, read: Callable[[str], Awaitable[Mapping[str, _Result]]]
    ) -> dict[str, dict[str, _Result]]:
        async def table(name: str) -> Mapping[str, _Result]:
            key = (what, addresses[name])
            known: Mapping[str, _Result] | None = self._kept.value(key)
            if known is None:
                known = await read(addresses[name])
                self._kept.put(key, known)
            return known

        addresses = await self.deciders()
        found: dict[str, dict[str, _Result]] = {}
        tables = await self.each(addresses, what, table, share=_TABLE_SHARE)
        for broker in addresses.keys() - tables.keys():
            stale = self._kept.stale((what, addresses[broker]))
            if stale is not None:
                tables[broker] = stale[1]
                self._note_stale(addresses[broker], what, stale[0])
        for broker in sorted(tables):
            for name, row in tables[broker].items():
                found.setdefault(name, {})[broker] = row
        return dict(sorted(found.items()))

    def _note_stale(self, where: str, what: str, age_s: int) -> None:
        """Adds to the faults about a table that it is shown as it was."""
        self.faults = [
            replace(each, text=f"{each.text}; shown as of {age_s} s ago")
            if (each.where, each.what) == (where, what)
            else each
            for each in self.faults
        ]

    def changed(self) -> None:
        """Forgets tables: something was changed."""
        self._kept.forget()


def _bound(
    make: Callable[[_Key], Awaitable[_Result]], key: _Key
) -> Callable[[], Awaitable[_Result]]:
    return lambda: make(key)
