"""A master hands its role to a slave that is in sync, and no send is refused meanwhile.

    work = HandOver(broker_parts, controller)
    successor = await work.choose("")        # who would be it; nothing has changed yet
    await work.run(successor)                # the successor is master, or everything is as before

The order: requests wait (`PassingOn`), the master's services rest, the log takes no append, the
successor has all of it with the tables, the controller elects it, and what waits goes to it. Until
the election everything can be taken back. RocketMQ has no such thing (#3858).

Knows the order and what each step may take; nothing of connections, and no role.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.leading import MasterWork
from mqcore.broker.passing_on import PassingOn
from mqcore.broker.replication.controller_messages import (
    Answer,
    Ask,
    Member,
    designate_ask,
    replicas_ask,
    sets_ask,
)
from mqcore.broker.state import BrokerState
from mqcore.errors import BadJsonError, MQError, RefusedError
from mqcore.model.reading import as_bool, as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.native import SlaveState
from mqcore.remoting import ResponseCode

__all__ = ["Controller", "HandOver", "HandOverParts", "HandOverReport", "Successor"]

_log = logging.getLogger("mqcore.broker")

# So long a successor may take to come near the end of the log, and to take all tables, while sends
# are still taken.
_NEAR_S: Final = 10.0
# What is left to copy when the log rests is copied in a part of a second.
_NEAR_BYTES: Final = 4 << 20
# Clients wait 3 s by default: what is done while they wait takes less, or comes to nothing.
_COPIED_S: Final = 1.5
_TABLES_S: Final = 1.5
# An answer to an election that does not come may still be yes: so long it is looked for.
_UNKNOWN_S: Final = 5.0
_FOLLOWS_S: Final = 5.0
_LOOK_S: Final = 0.002
_AGAIN_S: Final = 0.2
# Of asking whoever leads the controllers: one that was just elected is known within a second.
_TRIES: Final = 6
_MS_PER_S: Final = 1_000


class Controller(Protocol):
    """The controller as it is asked for a hand-over."""

    @property
    def leader(self) -> str:
        """The address of the controllers' leader; empty while it is not known."""

    @property
    def member(self) -> Member:
        """Who asks."""

    @property
    def own_id(self) -> int:
        """The id of this broker."""

    @property
    def epoch(self) -> int:
        """The epoch of the last order."""

    async def ask(self, ask: Ask) -> Answer | None:
        """Asks; returns None where no answer comes."""

    def notified(self, answer: Answer) -> None:
        """Takes who was elected."""


@dataclass(frozen=True, slots=True)
class HandOverParts:
    """What a hand-over works on.

    Attributes:
        state: The broker.
        persistence: Its tables, and who follows them.
        services: What a master does by itself.
        passing_on: Its requests meanwhile.
        store_open: Stores what pops and ends of transactions have in memory alone.
    """

    state: BrokerState
    persistence: ConfigPersistence
    services: MasterWork
    passing_on: PassingOn
    store_open: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Successor:
    """Who is to be the master.

    Attributes:
        broker_id: Its id at the controller.
        address: Where it answers requests.
    """

    broker_id: int
    address: str


@dataclass(slots=True)
class HandOverReport:
    """How far a hand-over is, as tools ask for it.

    Attributes:
        phase: `none`, `running`, `done` or `failed`.
        successor: Who is to be the master, or is.
        why: Why it has failed.
        epoch: The epoch of the new master.
        parked_ms: For how long requests waited.
        steps: What was done when, ms from the begin.
    """

    phase: str = "none"
    successor: Successor | None = None
    why: str = ""
    epoch: int = 0
    parked_ms: int = 0
    steps: list[tuple[int, str]] = field(default_factory=list)
    began_s: float = 0.0

    def begin(self, successor: Successor, now_s: float) -> None:
        """Begins anew."""
        self.phase, self.successor, self.began_s = "running", successor, now_s
        self.why, self.epoch, self.parked_ms, self.steps = "", 0, 0, []

    def note(self, what: str, now_s: float) -> None:
        """Notes a step."""
        self.steps.append((int((now_s - self.began_s) * _MS_PER_S), what))
        _log.info("hand-over: %s", what)

    def to_json(self) -> dict[str, Any]:
        """Returns it as tools are answered."""
        successor = self.successor
        return {
            "phase": self.phase,
            "successorId": 0 if successor is None else successor.broker_id,
            "successor": "" if successor is None else successor.address,
            "why": self.why,
            "epoch": self.epoch,
            "parkedMs": self.parked_ms,
            "steps": [{"atMs": at_ms, "what": what} for at_ms, what in self.steps],
        }


class HandOver:
    """One hand-over of one master.

    Attributes:
        report: How far it is.
        is_at_rest: Whether the log takes no append for it.
    """

    def __init__(
        self, parts: HandOverParts, controller: Controller, report: HandOverReport
    ) -> None:
        """Prepares; `choose` looks for a successor, `run` does it."""
        self._parts = parts
        self._state = parts.state
        self._controller = controller
        self.report = report
        self.is_at_rest = False

    async def choose(self, to: str) -> Successor:
        """Returns who is to be the master; changes nothing.

        Args:
            to: Its address; empty for whoever has most of the log.

        Raises:
            RefusedError: There is nobody, or it is not in sync, or not master here.
        """
        state = self._state
        if not state.role.is_master:
            master = state.replicas.master_address or "not known"
            raise _refused(f"{state.address} is not the master: that is {master}")
        others = await self._others()
        if to and to not in others:
            known = ", ".join(sorted(others)) or "none"
            raise _refused(f"{to} is no living member of the sync-state set besides us: {known}")
        able = [each for each in others.values() if self._slave(each.broker_id) is not None]
        if not able:
            raise _refused(
                "no slave is in sync and connected: whoever became master would lack messages; "
                "start one, and wait until it is in the sync-state set"
            )
        if to:
            chosen = others[to]
            if chosen not in able:
                raise _refused(f"{to} is in sync, but it is not connected")
            return chosen
        # Ours are notified of tables; of equals, who has most.
        followers = self._parts.persistence.followers
        return max(
            able,
            key=lambda each: (
                followers.of(each.broker_id) is not None,
                self._copied(each.broker_id),
            ),
        )

    async def _others(self) -> dict[str, Successor]:
        """Returns the other living members of the sync-state set, by address."""
        controller = self._controller
        answer = await self._asked(lambda leader: sets_ask(leader, controller.member))
        if answer is None or answer.code != ResponseCode.SUCCESS:
            raise _refused("the controller does not answer: nobody can be elected")
        try:
            table = as_dict(parse_object(answer.body).get("replicasInfoTable"))
        except BadJsonError as error:
            raise _refused(f"the answer of the controller: {error}") from error
        row = as_dict(table.get(controller.member.name))
        members = (as_dict(each) for each in as_list(row.get("inSyncReplicas")))
        found = (
            Successor(as_int(each.get("brokerId"), -1), as_text(each.get("brokerAddress")))
            for each in members
            if as_bool(each.get("alive"))
        )
        return {each.address: each for each in found if each.broker_id != controller.own_id}

    async def run(self, successor: Successor) -> None:
        """Hands the role over; returns when the successor takes what waited here.

        Raises:
            MQError: It came to nothing: this broker is the master as before.
        """
        now_s, report = asyncio.get_running_loop().time, self.report
        report.begin(successor, now_s())
        try:
            await self._run(successor)
        except MQError as error:
            report.phase, report.why = "failed", error.message
            report.note(f"given up: {error.message}", now_s())
            raise
        except BaseException:
            report.phase, report.why = "failed", "it was ended"
            raise
        report.phase = "done"

    async def _run(self, successor: Successor) -> None:
        now_s, report, passing = (
            asyncio.get_running_loop().time,
            self.report,
            self._parts.passing_on,
        )
        report.note(f"to {successor.address}, id {successor.broker_id}", now_s())
        await self._until_near(successor)
        await self._give_tables(successor, _NEAR_S)
        began_s = now_s()
        passing.park()
        report.note("requests wait", now_s())
        try:
            await self._rest(successor)
            report.note("the successor has the whole log", now_s())
            await self._give_tables(successor, _TABLES_S)
            await self._elect(successor)
        except BaseException:
            self._go_back()
            raise
        report.epoch = self._controller.epoch
        report.note(f"elected, in epoch {report.epoch}", now_s())
        await passing.open_to(successor.address)
        report.parked_ms = int((now_s() - began_s) * _MS_PER_S)
        report.note("what waited is passed on", now_s())
        await self._until(lambda: not self._state.role.is_master, _FOLLOWS_S)

    def _slave(self, broker_id: int) -> SlaveState | None:
        master = self._state.replicas.master
        slaves = [] if master is None else master.slaves()
        return next((each for each in slaves if each.controller_id == broker_id), None)

    def _copied(self, broker_id: int) -> int:
        slave = self._slave(broker_id)
        return -1 if slave is None else slave.acknowledged

    def _end(self) -> int:
        epochs = self._state.replicas.epochs
        assert epochs is not None, "a broker under a controller has epochs"
        return epochs.positions().end

    async def _until(self, is_so: Callable[[], bool], timeout_s: float) -> bool:
        """Waits until something is so; returns whether it is."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        while not is_so():
            if loop.time() >= end_s:
                return False
            await asyncio.sleep(_LOOK_S)
        return True

    async def _until_near(self, successor: Successor) -> None:
        broker_id = successor.broker_id

        def is_near() -> bool:
            return self._end() - self._copied(broker_id) <= _NEAR_BYTES

        if not await self._until(is_near, _NEAR_S):
            behind = self._end() - self._copied(broker_id)
            raise _refused(f"{successor.address} is {behind} bytes behind after {_NEAR_S:g} s")

    async def _give_tables(self, successor: Successor, timeout_s: float) -> None:
        """Lets the successor take tables, offsets, timers and locks, where it is one of mqcore."""
        followers, state = self._parts.persistence.followers, self._state
        follower = followers.of(successor.broker_id)
        if follower is None:
            return
        body = compact({"locks": state.locks.rows(state.now_ms())})
        await followers.notify(follower, (), body, timeout_s=timeout_s)

    async def _rest(self, successor: Successor) -> None:
        """Lets nothing more be stored, and the successor have what is."""
        parts, state = self._parts, self._state
        await parts.services.stop()
        await parts.store_open()
        await parts.persistence.timers.save()
        master = state.replicas.master
        if master is None:
            raise _refused("the role was lost meanwhile")
        # Behind everything that the master itself stores.
        master.rest()
        self.is_at_rest = True
        end = self._end()
        if not await self._until(lambda: self._copied(successor.broker_id) >= end, _COPIED_S):
            copied = self._copied(successor.broker_id)
            raise _refused(f"{successor.address} has the log up to {copied} of {end}")
        if self._end() != end:
            raise _refused("something was stored meanwhile")

    def _go_back(self) -> None:
        """Goes on as the master; does nothing where another one was elected meanwhile."""
        parts, state = self._parts, self._state
        if not state.role.is_master:
            return
        self.is_at_rest = False
        master = state.replicas.master
        if master is not None:
            master.go_on()
            parts.services.start()
            parts.passing_on.end()

    async def _elect(self, successor: Successor) -> None:
        """Has the successor elected.

        Raises:
            RefusedError: It is not, as far as anybody can know.
        """
        controller, before = self._controller, self._controller.epoch
        answer = await self._asked(
            lambda leader: designate_ask(leader, controller.member, successor.broker_id)
        )
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            controller.notified(answer)
            return
        if answer is not None:
            raise _refused(f"the controller answered {answer.code}: {answer.remark}")
        # It may have elected all the same: nothing is stored here until that is known.
        end_s = asyncio.get_running_loop().time() + _UNKNOWN_S
        while asyncio.get_running_loop().time() < end_s:
            if controller.epoch > before:
                return
            found = await self._asked(lambda leader: replicas_ask(leader, controller.member))
            if found is not None and found.code == ResponseCode.SUCCESS:
                if (found.number("masterEpoch") or 0) <= before:
                    raise _refused("the controller did not elect it")
                controller.notified(found)
                return
            await asyncio.sleep(_AGAIN_S)
        raise _refused("the controller does not answer")

    async def _asked(self, make: Callable[[str], Ask]) -> Answer | None:
        """Asks the leader of the controllers, and whoever leads then; None where nobody answers."""
        for _ in range(_TRIES):
            leader = self._controller.leader
            if leader:
                answer = await self._controller.ask(make(leader))
                if answer is None or answer.code != ResponseCode.CONTROLLER_NOT_LEADER:
                    return answer
            await asyncio.sleep(_AGAIN_S)
        return None


def _refused(why: str) -> RefusedError:
    return RefusedError(why, code=ResponseCode.SYSTEM_ERROR)
