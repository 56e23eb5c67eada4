"""A broker's way to its controllers: sends what the membership asks, takes answers, passes orders.

Around `Membership`, which decides; here are the loop, the client, the files of the id and the
clock. Orders about the role are performed one after the other, the newest alone where several wait;
requests and heartbeats go on meanwhile.
"""

import asyncio
import logging
import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mqcore.broker.name_servers import resolved
from mqcore.broker.replication.controller_messages import (
    Answer,
    Ask,
    Member,
    Purpose,
    Standing,
    SyncStateSet,
    asked_epochs,
)
from mqcore.broker.replication.identity import IdentityFiles
from mqcore.broker.replication.membership import (
    Membership,
    Phase,
)
from mqcore.broker.replication.orders import (
    Become,
    Follow,
    ForgetCandidate,
    ForgetIdentity,
    KeepCandidate,
    KeepIdentity,
    Order,
    RoleOrder,
    SettleEnd,
)
from mqcore.errors import MQError
from mqcore.periodic import PeriodicTasks
from mqcore.remoting import Client, Credentials, TlsContext

__all__ = ["ControllerLink", "MembershipView"]

_log = logging.getLogger("mqcore.broker")


_MS_PER_S: Final = 1_000
# As long as the official broker waits for an answer of a controller.
_TIMEOUT_S: Final = 3.0
# Between two looks for the addresses of controllers, as officially.
_LOOKUP_S: Final = 120.0
# After a file could not be written, or a role could not be taken.
_RETRY_S: Final = 1.0


class ControllerLink:
    """Keeps one broker a member of its group."""

    def __init__(
        self,
        membership: Membership,
        files: IdentityFiles,
        *,
        standing: Callable[[], Standing | None],
        perform: Callable[[RoleOrder], Awaitable[None]],
        note_asked: Callable[[int, int], bool],
        settle_end: Callable[[], None],
        wall_ms: Callable[[], int],
        version: int,
        send_timeout_ms: int,
        tls: TlsContext | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """Prepares; `start` begins.

        Args:
            membership: What decides.
            files: Where the id is kept.
            standing: Returns how far the log is; None where no heartbeat is to be sent.
            perform: Takes a role, or another sync-state set.
            note_asked: Notes durably, before a set is asked for, the epoch of the master and that
                of the set which is to be replaced; returns whether it is noted. Called in a thread.
            settle_end: Forgets that the log may have lost its end. Called in a thread.
            wall_ms: The wall clock, ms.
            version: The version in requests.
            send_timeout_ms: How long a heartbeat may wait for a connection.
            tls: What protects connections to controllers; None for plain ones.
            credentials: What requests are signed with; None for unsigned ones.
        """
        self._membership = membership
        self._files = files
        self._standing = standing
        self._perform = perform
        self._note_asked = note_asked
        self._settle_end = settle_end
        self._wall_ms = wall_ms
        self._send_timeout_s = send_timeout_ms / _MS_PER_S
        self._client = Client(tls=tls, credentials=credentials, version=version)
        self._wake = asyncio.Event()
        self._has_orders = asyncio.Event()
        self._orders: list[RoleOrder] = []
        self._loops: list[asyncio.Task[None]] = []
        self._asking: set[asyncio.Task[None]] = set()
        self._beating: set[str] = set()
        self._lookups = PeriodicTasks()
        self._logged = ("", Phase.INITIAL)
        self._is_refused = asyncio.Event()

    def start(self, names: tuple[str, ...] = ()) -> None:
        """Begins.

        Args:
            names: Hosts to be looked up, each with a port, whose addresses are the controllers'.
        """
        loop = asyncio.get_running_loop()
        self._loops = [
            loop.create_task(self._run(), name="controller"),
            loop.create_task(self._perform_orders(), name="role"),
        ]
        if names:
            self._lookups.every(
                "addresses of controllers",
                lambda: self._look(names),
                period_s=lambda: _LOOKUP_S,
                first_s=0.0,
                retry_s=_RETRY_S,
            )

    async def stop(self) -> None:
        """Ends; an order that is being performed is left at its next wait."""
        await self._lookups.stop()
        tasks = [*self._loops, *self._asking]
        self._loops = []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    def notified(self, ext: Mapping[str, str], body: bytes) -> None:
        """Takes a notice of the controller: who is master from an epoch on."""
        self._membership.notified(ext, body, self._now_ms())
        self._wake.set()

    def alter(self, members: Iterable[int], set_epoch: int) -> None:
        """Asks for another sync-state set than that of an epoch."""
        self._membership.alter(SyncStateSet.of(members, set_epoch))
        self._wake.set()

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * _MS_PER_S)

    async def refused(self) -> str:
        """Returns what is wrong, once another broker has our id, with the command that repairs."""
        await self._is_refused.wait()
        return self._refusal()

    def _refusal(self) -> str:
        return (
            f"{self._membership.why}. Nothing is stored here. Stop one of the two; where this "
            "directory is a copy of the other one, start this broker again after `rm "
            f"{shlex.quote(str(self._files.path))}`: it gets an id of its own then"
        )

    async def _look(self, names: tuple[str, ...]) -> None:
        found = await resolved(names)
        if found:
            self._membership.controllers = found
            self._wake.set()

    async def _run(self) -> None:
        membership = self._membership
        while True:
            self._wake.clear()
            await self._take_orders()
            now_ms = self._now_ms()
            for ask in membership.due(now_ms, self._standing()):
                self._send(ask)
            self._report()
            pause_s = (membership.next_ms(now_ms) - now_ms) / _MS_PER_S
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _report(self) -> None:
        """Logs how far it is, when that has changed."""
        membership = self._membership
        now = (membership.why, membership.phase)
        if now == self._logged:
            return
        self._logged = now
        if membership.rival:
            _log.error("%s", self._refusal())
            self._is_refused.set()
        elif membership.phase is Phase.RUNNING:
            if membership.why:
                _log.warning("the controller: %s", membership.why)
        elif membership.why:
            _log.warning("%s: %s", membership.phase.value, membership.why)
        else:
            _log.info("%s", membership.phase.value)

    async def _take_orders(self) -> None:
        """Writes files at once, and leaves what concerns the role to those who perform it."""
        for order in self._membership.take_orders():
            if isinstance(order, RoleOrder):
                self._orders.append(order)
                self._has_orders.set()
            else:
                await self._keep(order)

    async def _keep(self, order: Order) -> None:
        # Again until it is written: nothing is asked before.
        while True:
            try:
                await asyncio.to_thread(self._write, order)
            except (MQError, OSError) as error:
                why = error.message if isinstance(error, MQError) else str(error)
                _log.error("the id of the broker cannot be kept: %s", why)
                await asyncio.sleep(_RETRY_S)
            else:
                return

    def _write(self, order: Order) -> None:
        if isinstance(order, KeepCandidate):
            self._files.keep_candidate(order.candidate)
        elif isinstance(order, KeepIdentity):
            self._files.keep(order.identity)
            _log.info("the broker has id %d at its controller", order.identity.broker_id)
        elif isinstance(order, ForgetCandidate):
            self._files.forget_candidate()
        elif isinstance(order, ForgetIdentity):
            self._files.forget()
            _log.warning(
                "power was lost, and the end of the log may be: the broker gets another id at its "
                "controller, and is in sync when it has copied what it lacks"
            )
        elif isinstance(order, SettleEnd):
            self._settle_end()

    def _send(self, ask: Ask) -> None:
        if ask.purpose is Purpose.HEARTBEAT:
            if ask.address in self._beating:
                return
            self._beating.add(ask.address)
            work = self._beat(ask)
        else:
            work = self._ask(ask)
        task = asyncio.get_running_loop().create_task(work, name=ask.purpose.name)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _beat(self, ask: Ask) -> None:
        try:
            await self._client.oneway(
                ask.address,
                ask.purpose,
                ask.header(self._wall_ms()),
                ask.body,
                timeout_s=self._send_timeout_s,
            )
        except MQError as error:
            _log.debug("no heartbeat to %s: %s", ask.address, error.message)
        finally:
            self._beating.discard(ask.address)

    async def _ask(self, ask: Ask) -> None:
        answer = await self.ask(ask) if await self._may_ask(ask) else None
        self._membership.answered(ask, answer, self._now_ms())
        self._wake.set()

    async def _may_ask(self, ask: Ask) -> bool:
        """Notes durably what is asked for, where a later start must know of it."""
        if ask.purpose is not Purpose.ALTER:
            return True
        try:
            return await asyncio.to_thread(self._note_asked, *asked_epochs(ask))
        except MQError as error:
            _log.error("no other set is asked for, it cannot be noted: %s", error.message)
            return False

    async def ask(self, ask: Ask) -> Answer | None:
        """Sends a request; returns its answer, None where none comes in time. Changes nothing."""
        try:
            found = await self._client.call(
                ask.address,
                ask.purpose,
                ask.header(self._wall_ms()),
                ask.body,
                timeout_s=_TIMEOUT_S,
            )
        except MQError as error:
            _log.debug("%s: %s", ask.purpose.name, error.message)
            return None
        return Answer(found.code, found.remark or "", found.ext, found.body)

    async def _perform_orders(self) -> None:
        while True:
            await self._has_orders.wait()
            self._has_orders.clear()
            for order in newest(self._orders):
                await self._perform_one(order)

    async def _perform_one(self, order: RoleOrder) -> None:
        try:
            await self._perform(order)
        except Exception:
            # What is performed tries again by itself where that helps.
            _log.exception("an order of the controller cannot be performed: %s", order)


@dataclass(frozen=True, slots=True)
class MembershipView:
    """The controller as a hand-over asks it."""

    membership: Membership
    link: ControllerLink

    @property
    def leader(self) -> str:
        """The address of the controllers' leader; empty while it is not known."""
        return self.membership.leader

    @property
    def member(self) -> Member:
        """Who asks."""
        return self.membership.member

    @property
    def own_id(self) -> int:
        """The id of this broker; -1 for none."""
        identity = self.membership.identity
        return -1 if identity is None else identity.broker_id

    @property
    def epoch(self) -> int:
        """The epoch of the last order."""
        return self.membership.epoch

    async def ask(self, ask: Ask) -> Answer | None:
        """Asks; returns None where no answer comes."""
        return await self.link.ask(ask)

    def notified(self, answer: Answer) -> None:
        """Takes who was elected."""
        self.link.notified(answer.ext, answer.body)


def newest(orders: list[RoleOrder]) -> list[RoleOrder]:
    """Takes what is still of use of orders that wait: the last role, and what concerns it."""
    taken, orders[:] = list(orders), []
    roles = [at for at, each in enumerate(taken) if isinstance(each, Become | Follow)]
    return taken[roles[-1] if roles else 0 :]
