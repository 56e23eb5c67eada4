"""A slave takes the tables of its master over: topics, groups, offsets, delays, request modes.

Offsets that consumers committed here while the master was away are handed to it: who asks it next
does not fall back.

`SlaveSynchronize` of the official broker. A table is read whole before anything changes, written
before its version counts, and an answer that cannot be read leaves everything as it was: where the
official slave removes every topic first, a bad one leaves it without.

How far the master has delivered delayed messages, revived popped ones and asked about transactions
counts here only when the log has come to where the master's ended then: what it delivered must be
here, or a slave that becomes master would never deliver it. Under a controller so much must be
confirmed too: what is not may be cut when another one is elected. There all offsets wait for that:
one that a pop has moved rests on a check point in the log, by which the message comes back.

A master of mqcore notifies us of a topic or group that it has made, and acknowledges it when it was
taken here (`TAKE_TABLES`); its offsets are asked for every second. An official one is asked every
10 s.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.consumer_offsets import (
    SEPARATOR,
    OffsetTable,
    ahead_of,
    changed_since,
    is_own,
    parse_offsets,
    split_key,
)
from mqcore.broker.lost_topics import lost_topics
from mqcore.broker.replication.asking import MasterCalls, report_as
from mqcore.broker.settled import reign_of
from mqcore.broker.state import BrokerState
from mqcore.broker.table_followers import ACCESS, GROUPS, MODES, TOPICS
from mqcore.errors import BadJsonError, RefusedError
from mqcore.model.reading import as_int
from mqcore.model.relaxed_json import parse_object
from mqcore.model.versions import DataVersion
from mqcore.native import Command
from mqcore.periodic import PeriodicTask, PeriodicTasks
from mqcore.remoting import (
    Dispatcher,
    Link,
    OwnRequestCode,
    Request,
    RequestCode,
    ResponseCode,
    expect,
)

__all__ = ["Beside", "MetadataSync"]

_log = logging.getLogger("mqcore.broker")

# Takes what a master hands over beside its tables.
Beside: TypeAlias = Callable[[bytes], Awaitable[None]]
# What is asked for, and what takes the answer's body.
_Step: TypeAlias = tuple[RequestCode | OwnRequestCode, Callable[[bytes], Awaitable[None]]]

# As the slave of 4.9 asks; one of 5.3 asks once a minute. A topic is unknown here for so long.
_PERIOD_S = 10.0
_FIRST_S = 1.0
# While the master is not known, or does not answer.
_RETRY_S = 1.0
# While the master does not know us: changes that it acknowledges wait for that.
_NAME_S = 0.1
# Offsets that are handed to the master in a round: a second's work at most; the rest has the next.
_HANDED_MAX = 4_096
# Offsets of a master of mqcore are asked for this often, and it is looked for topics that are in no
# table; with large tables less often, so that it takes no more than a part of the time.
_OFFSETS_S = 1.0
_OFFSETS_PAUSE_TIMES = 20
# As long as the log is waited for until progress counts: where it keeps up it is there at once.
_COME_S = 2.0
_COME_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class _Offsets:
    """Offsets that a master has answered (43).

    Attributes:
        own: How far it has delivered by itself: its own groups.
        rest: Those of consumers.
        body: The answer.
    """

    own: dict[str, dict[int, int]]
    rest: dict[str, dict[int, int]]
    body: bytes


class MetadataSync:
    """Follows the tables of a master."""

    def __init__(
        self,
        state: BrokerState,
        persistence: ConfigPersistence,
        *,
        controller_id: int = 0,
        beside: Beside | None = None,
        was_master: bool = False,
    ) -> None:
        """Prepares; `start` begins.

        Args:
            state: The broker.
            persistence: What writes the tables.
            controller_id: Its id at its controller; 0 without one.
            beside: Takes what a master hands over beside the tables, with the role.
            was_master: Whether the broker was the master until now: the next one may lack offsets.
        """
        self._state = state
        self._persistence = persistence
        self._controller_id = controller_id
        self._beside = beside
        dispatcher = Dispatcher({OwnRequestCode.TAKE_TABLES: self._notified})
        self._calls = MasterCalls(state, dispatcher)
        self._tasks = PeriodicTasks()
        self._rounds: list[PeriodicTask] = []
        # One taking of tables after the other: what was asked for first is older.
        self._taking = asyncio.Lock()
        # The connection on which the master knows us; None where it is no master of mqcore.
        self._known_on: Link | None = None
        self._is_notified = False
        # Where the log ended when it was looked for topics without a row, and which there were.
        self._looked_at = -1
        self._unknown: set[str] = set()
        # The offsets of the master, and ours behind them, when they were taken last; what was
        # committed here since we began and the master may not have.
        self._offsets_taken: dict[str, dict[int, int]] = {}
        self._offsets_left: OffsetTable = state.fast_path.offsets.snapshot()
        self._committed: set[tuple[str, int]] = set()
        if was_master:
            self._committed = {
                (key, queue_id)
                for key, queues in self._offsets_left.items()
                if not is_own(key)
                for queue_id in queues
            }
        # What the master has answered last, until it counts.
        self._offsets: _Offsets | None = None
        self._delays: bytes | None = None

    def start(self) -> None:
        """Begins, one table after the other."""
        every = self._tasks.every
        self._rounds = [
            every(
                "follow tables",
                self._follow,
                period_s=lambda: _OFFSETS_S,
                first_s=0.0,
                retry_s=_NAME_S,
                report=report_as("the master does not notify of its tables"),
            ),
            every(
                "tables of the master",
                self._round,
                period_s=lambda: _PERIOD_S,
                first_s=_FIRST_S,
                retry_s=_RETRY_S,
                report=report_as("the tables of the master were not taken"),
            ),
        ]

    def wake(self) -> None:
        """Asks at once: there is another master."""
        for each in self._rounds:
            each.wake()

    async def stop(self) -> None:
        """Ends; a table that is being taken is taken whole."""
        await self._tasks.stop()
        await self._calls.close()

    async def _round(self) -> float | None:
        return None if await self.sync() else _RETRY_S

    async def _follow(self) -> float | None:
        """Lets the master know that we take its tables; takes progress. Returns the pause."""
        address = self._calls.address
        if not address:
            return None
        began_s = asyncio.get_running_loop().time()
        link = await self._calls.link(address)
        if link is not self._known_on:
            own = {
                "address": self._state.address,
                "controllerId": str(self._controller_id),
            }
            answer = await self._calls.ask(address, OwnRequestCode.FOLLOW_TABLES, own)
            # Another code is one of an official master, or of one that is not master yet.
            self._is_notified = answer.code == ResponseCode.SUCCESS
            if self._is_notified or answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                self._known_on = link
            else:
                expect(answer, address, *_NOT_MASTER_YET)
                return _NAME_S
        if await asyncio.to_thread(self._has_unknown):
            await self.sync()
        elif self._is_notified:
            progress = (
                (RequestCode.GET_ALL_CONSUMER_OFFSET, self._hold_offsets),
                (RequestCode.GET_ALL_DELAY_OFFSET, self._hold_delays),
            )
            async with self._taking:
                await self._take_all(address, progress)
        took_s = asyncio.get_running_loop().time() - began_s
        return max(_OFFSETS_S, took_s * _OFFSETS_PAUSE_TIMES)

    def _has_unknown(self) -> bool:
        """Returns whether the log has brought a topic that is in no table, since the last look.

        Its master may be gone before the next round. Looks through all queues: for a thread.
        """
        state = self._state
        end = state.store.stats().appended
        if end == self._looked_at:
            return False
        self._looked_at = end
        unknown = lost_topics(
            ((queue.topic, queue.queue_id) for queue in state.store.queues()),
            list(state.topics.topics),
        )
        new = unknown.keys() - self._unknown
        self._unknown = set(unknown)
        return bool(new)

    async def _notified(self, request: Request) -> Command:
        """TAKE_TABLES: the master has changed tables, or hands its role over."""
        names = [name for name in request.ext.get("tables", "").split(",") if name]
        address = self._calls.address
        if not address or request.link is not self._calls.open_link(address):
            raise RefusedError("it is not our master", code=ResponseCode.SYSTEM_ERROR)
        if names:
            steps = self._steps()
            async with self._taking:
                for name in names:
                    await self._take(address, *steps[name])
        else:
            await self.sync()
            if self._beside is not None:
                await self._beside(request.body)
        return request.answer()

    def _steps(self) -> dict[str, _Step]:
        """Returns the tables by name, in the order in which all are taken."""
        persistence = self._persistence
        return {
            TOPICS: (RequestCode.GET_ALL_TOPIC_CONFIG, persistence.follow_topics),
            "offsets": (RequestCode.GET_ALL_CONSUMER_OFFSET, self._hold_offsets),
            "delays": (RequestCode.GET_ALL_DELAY_OFFSET, self._hold_delays),
            GROUPS: (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, persistence.follow_groups),
            MODES: (RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, persistence.follow_modes),
            ACCESS: (OwnRequestCode.ACCESS_TABLES, self._follow_access),
        }

    async def _follow_access(self, body: bytes) -> None:
        await self._state.access.follow(body)
        self._state.replicas.gives_access = True

    async def sync(self) -> bool:
        """Takes every table once; returns whether the master is known.

        Raises:
            MQError: The master did not answer, or a table cannot be read or written. Tables before
                it were taken.
        """
        address = self._calls.address
        if not address:
            return False
        async with self._taking:
            steps = self._steps()
            access = steps.pop(ACCESS)
            await self._take_all(address, steps.values())
            async with self._tasks.step:
                await self._persistence.offsets.save()
            # The last: a broker that is no Super user there has everything else.
            self._state.replicas.gives_access = False
            await self._take(address, *access)
            self._state.replicas.synced_ms = self._state.now_ms()
            return True

    async def _take_all(self, address: str, steps: Iterable[_Step]) -> None:
        """Takes tables, and progress of the master once the log has what it had stored by then."""
        self._offsets = self._delays = None
        reign = reign_of(self._state)
        for code, take in steps:
            await self._take(address, code, take)
        end = await self._end_of_master(address)
        has_come = end is None or await self._has_come_to(end)
        counts = has_come and reign == reign_of(self._state)
        async with self._tasks.step:
            # Without a controller a slave that lags has those of consumers, as in RocketMQ.
            if counts or not self._state.role.is_controlled:
                await self._merge_offsets()
            if counts:
                await self._take_progress(end)

    async def _take(
        self,
        address: str,
        code: RequestCode | OwnRequestCode,
        take: Callable[[bytes], Awaitable[None]],
    ) -> None:
        answer = await self._calls.ask(address, code)
        if answer.code in _HAS_NONE.get(code, ()):
            return
        body = expect(answer, address).body
        try:
            async with self._tasks.step:
                await take(body)
        except BadJsonError as error:
            raise BadJsonError(f"{code.name} of {address}: {error}") from error

    async def _hold_offsets(self, body: bytes) -> None:
        table = await asyncio.to_thread(parse_offsets, body)
        own = {key: queues for key, queues in table.items() if is_own(key)}
        rest = {key: table[key] for key in table.keys() - own.keys()}
        self._offsets = _Offsets(own, rest, body)

    async def _merge_offsets(self) -> None:
        """Takes the offsets of consumers; what was committed here since the last time stays."""
        held = self._offsets
        if held is None:
            return
        ahead = await asyncio.to_thread(self.follow_offsets, held.rest)
        if self._state.settings.has_acting_master and not ahead:
            # An official master that is back takes ours where our version is no less than its own.
            found = await asyncio.to_thread(parse_object, held.body)
            self._state.offsets_version = DataVersion.of_json(found.get("dataVersion"))
        await self._hand_offsets(ahead)

    def follow_offsets(self, table: dict[str, dict[int, int]]) -> dict[tuple[str, int], int]:
        """Follows the offsets of the master; returns those that it is to have of us."""
        offsets = self._state.fast_path.offsets
        found = offsets.snapshot()
        offsets.follow(table, self._offsets_taken)
        left = offsets.snapshot()
        # What is neither as it was nor as the master has it was committed in between.
        between = changed_since(left, found) & changed_since(left, table)
        committed = self._committed | changed_since(found, self._offsets_left) | between
        # How far the broker itself has delivered is nothing that anybody commits at a slave.
        committed = {each for each in committed if not is_own(each[0])}
        ahead = ahead_of(left, table, self._offsets_taken, committed)
        self._offsets_left, self._committed = left, set(ahead)
        self._offsets_taken |= table
        return ahead

    async def _hand_offsets(self, ahead: Mapping[tuple[str, int], int]) -> None:
        """Commits offsets at the master, as a consumer does."""
        for (key, queue_id), offset in islice(ahead.items(), _HANDED_MAX):
            topic_group = split_key(key)
            if topic_group is not None and await self._is_handed(topic_group, queue_id, offset):
                # So that one that is set back over there now is known for what it is.
                self._offsets_taken.setdefault(key, {})[queue_id] = offset
            self._committed.discard((key, queue_id))

    async def _is_handed(self, topic_group: tuple[str, str], queue_id: int, offset: int) -> bool:
        topic, group = topic_group
        commit = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": str(queue_id),
            "commitOffset": str(offset),
        }
        address, code = self._state.replicas.master_address, RequestCode.UPDATE_CONSUMER_OFFSET
        answer = await self._calls.ask(address, code, commit)
        is_taken = answer.code == ResponseCode.SUCCESS
        if not is_taken:
            why = answer.remark
            _log.warning("the master did not take the offset of %s in %s: %s", group, topic, why)
        return is_taken

    async def _hold_delays(self, body: bytes) -> None:
        self._delays = body

    async def _end_of_master(self, address: str) -> int | None:
        """Returns where the log of the master ends now; None for one of 4.9."""
        answer = await self._calls.ask(address, RequestCode.GET_BROKER_HA_STATUS)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return None
        status = parse_object(expect(answer, address).body)
        return as_int(status.get("masterCommitLogMaxOffset"))

    async def _has_come_to(self, end: int) -> bool:
        """Returns whether the log comes to an offset soon, and is not to be cut before it."""
        store, replicas = self._state.store, self._state.replicas
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_COME_S):
                # Bytes come on another thread, which notifies nobody here.
                while replicas.settled(store.stats().appended) < end:  # noqa: ASYNC110
                    await asyncio.sleep(_COME_LOOK_S)
                return True
        return False

    async def _take_progress(self, end: int | None) -> None:
        """Takes how far the master has delivered, by what was asked before its end was.

        Exactly: where we were master before, and have lost the end of our log, we may be farther.
        """
        offsets = self._state.fast_path.offsets
        own = {} if self._offsets is None else self._offsets.own
        for key, queues in own.items():
            topic, _, group = key.partition(SEPARATOR)
            for queue_id, offset in queues.items():
                offsets.commit(group, topic, queue_id, offset)
        self._offsets_taken |= own
        if self._delays is not None:
            try:
                await self._persistence.delays.follow(self._delays, end)
            except BadJsonError as error:
                raise BadJsonError(f"the delays of the master: {error}") from error


# What a master answers that is none yet, or has enough slaves; anything else is reported.
_NOT_MASTER_YET = (ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY)
# What a master answers that has no such table: none of delays yet, or a release without modes.
_HAS_NONE: dict[int, tuple[ResponseCode, ...]] = {
    OwnRequestCode.ACCESS_TABLES: (ResponseCode.REQUEST_CODE_NOT_SUPPORTED,),
    RequestCode.GET_ALL_DELAY_OFFSET: (ResponseCode.SYSTEM_ERROR,),
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: (ResponseCode.REQUEST_CODE_NOT_SUPPORTED,),
}
