"""A broker under a controller: serves from its start on, and takes the roles that it is given.

    broker = ControlledBroker(settings)
    await broker.start()               # answers requests; takes messages once it was elected

The membership outlives the broker's store: a master that has to follow another one, and a log whose
tail no other member has, are closed, cut and opened anew in the same process, at the same port.
Everything else happens while the broker serves. Holds no algorithm: `Membership` decides who asks
what, `RoleSwitch` the order of a change.
"""

import asyncio
import contextlib
import gc
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from mqcore.access import credentials_of
from mqcore.broker.app import Broker
from mqcore.broker.replication.controller_link import ControllerLink, MembershipView
from mqcore.broker.replication.controller_messages import Member, Standing
from mqcore.broker.replication.identity import IdentityFiles
from mqcore.broker.replication.membership import (
    Membership,
    Phase,
    Timetable,
)
from mqcore.broker.replication.orders import (
    Become,
    Follow,
    RoleOrder,
    TakeSet,
)
from mqcore.broker.state import BrokerState
from mqcore.broker.succession import Succession
from mqcore.clock import wall_ms
from mqcore.config import BrokerSettings
from mqcore.errors import MQError
from mqcore.model.versions import version_ordinal
from mqcore.native import OnDamage, give_memory_back
from mqcore.native.errors import NoRecordError
from mqcore.remoting import Address, TcpAddress, outgoing_tls_of

__all__ = ["ControlledBroker", "broker_of"]

_log = logging.getLogger("mqcore.broker")

# A store that cannot be opened again, or a role that cannot be taken, is tried again after this.
_RETRY_S: Final = 1.0
# Below the directory of the store, where the setting names no other place.
_IDENTITY_FILE: Final = "brokerIdentity"
# Of two processes that start in one millisecond each is another one.
_NONCE_BYTES: Final = 4


class ControlledBroker:
    """One broker of a group with a controller.

    Attributes:
        settings: Its settings.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        config_path: Path | None = None,
        on_damage: OnDamage = "refuse",
        clock: Callable[[], int] = wall_ms,
    ) -> None:
        """Prepares; `start` opens. The arguments are those of `Broker`."""
        self.settings = settings
        self._config_path = config_path
        self._on_damage = on_damage
        self._clock = clock
        self._broker: Broker | None = None
        self._membership: Membership | None = None
        self._link: ControllerLink | None = None
        self._followed: Follow | None = None
        self._port = 0
        self._standing = Standing()
        self._is_failing = False
        self._is_ending = False
        # One change of role, or one opening, at a time.
        self._switching = asyncio.Lock()
        self._cuts: set[asyncio.Task[None]] = set()
        self._succession = Succession(lambda: self._broker, self._controller)

    @property
    def broker(self) -> Broker:
        """The broker that serves now; another one after its store was opened anew.

        Raises:
            RuntimeError: Its store is being opened anew, or it was not started.
        """
        if self._broker is None:
            raise RuntimeError("the broker does not serve")
        return self._broker

    @property
    def state(self) -> BrokerState:
        """The tables of the broker that serves now."""
        return self.broker.state

    @property
    def ports(self) -> dict[str, int]:
        """The port that is listened on, by the program's name."""
        return {} if self._broker is None else self._broker.ports

    @property
    def phase(self) -> Phase:
        """How far the broker is with its controller."""
        return Phase.INITIAL if self._membership is None else self._membership.phase

    async def start(self) -> Address:
        """Opens the store and serves, then begins to look for its controller.

        Returns:
            The address listened on. The broker has no role yet: it takes no message.

        Raises:
            ConfigurationError: The store belongs to another cluster or broker.
            StoreError: The store cannot be opened.
            AddressError: The address cannot be listened on.
        """
        settings = self.settings
        path = Path(settings.identity_file or Path(settings.store_dir) / _IDENTITY_FILE)
        files = IdentityFiles(path, cluster=settings.cluster, name=settings.name)
        identity = await asyncio.to_thread(files.identity)
        candidate = None if identity else await asyncio.to_thread(files.candidate)
        proofs = await asyncio.to_thread(files.processes)
        if candidate is not None:
            proofs = (candidate.check_code, *proofs)
        self._broker = self._made(None)
        address = await self._broker.start()
        if isinstance(address, TcpAddress):
            # The next one listens where clients and members know the broker.
            self._port = address.port
        member = Member(
            settings.cluster,
            settings.name,
            self.state.address,
            self._clock(),
            is_learner=settings.is_learner,
            nonce=secrets.token_hex(_NONCE_BYTES),
            proofs=proofs,
        )
        # Before the controller has it: what is known there is always among them.
        await asyncio.to_thread(files.keep_process, member.check_code)
        self._membership = Membership(
            member,
            settings.controllers,
            timetable_of(settings),
            identity=identity,
            candidate=candidate,
            is_suspect=not self._has_all(),
        )
        self._link = ControllerLink(
            self._membership,
            files,
            standing=self._progress,
            perform=self._perform,
            note_asked=self._note_asked,
            settle_end=self._settle_end,
            wall_ms=self._clock,
            version=version_ordinal(settings.reported_version),
            send_timeout_ms=settings.heartbeat_send_timeout_ms,
            tls=outgoing_tls_of(settings.listener),
            credentials=credentials_of(settings.access),
        )
        self._link.start(settings.controllers if settings.resolves_controllers else ())
        return address

    async def refused(self) -> str:
        """Returns why the broker cannot go on, once it cannot: another one has its id."""
        link = self._link
        assert link is not None, "it was started"
        return await link.refused()

    async def leave(self) -> None:
        """Hands the role of the master to a slave that is in sync, before a stop.

        Returns when clients know the new master, or have had the time to; at once where the broker
        is not master, or nobody can take its place.
        """
        if self._link is not None:
            await self._succession.leave()

    async def stop(self) -> None:
        """Leaves name servers, closes the store; the controller sees that the broker is gone.

        Raises:
            StoreError: Something could not be written; everything is closed all the same.
        """
        self._is_ending = True
        await self._succession.stop()
        try:
            # What has begun is done first; heartbeats go on until the store is closed.
            async with self._switching:
                broker, self._broker = self._broker, None
                if broker is not None:
                    await broker.stop()
        finally:
            await self._end_membership()

    async def abandon(self) -> None:
        """Ends as a kill would."""
        self._is_ending = True
        await self._succession.stop()
        await self._end_membership()
        broker, self._broker = self._broker, None
        if broker is not None:
            await broker.abandon()

    async def _end_membership(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.stop()
        for task in list(self._cuts):
            task.cancel()
        await asyncio.gather(*self._cuts, return_exceptions=True)

    # What the broker's parts call (`Elections`).

    def notified(self, ext: Mapping[str, str], body: bytes) -> None:
        """Takes a notice of the controller: who is master from an epoch on."""
        if self._link is not None:
            self._link.notified(ext, body)

    def alter(self, members: Iterable[int], set_epoch: int) -> None:
        """Asks for another sync-state set than that of an epoch."""
        if self._link is not None:
            self._link.alter(members, set_epoch)

    async def hand_over(self, to: str, *, is_plan: bool) -> dict[str, Any]:
        """Begins to hand the role of the master over, or returns to whom it would go."""
        return await self._succession.begin(to, is_plan=is_plan)

    def handed_over(self) -> dict[str, Any]:
        """Returns how far the last hand-over is."""
        return self._succession.report

    def _controller(self) -> MembershipView:
        assert self._membership is not None
        assert self._link is not None
        return MembershipView(self._membership, self._link)

    def diverged(self, cut_at: int) -> None:
        """Opens the store anew with its log cut, and follows the master again."""
        task = asyncio.get_running_loop().create_task(self._cut(cut_at), name="cut the log")
        self._cuts.add(task)
        task.add_done_callback(self._cuts.discard)

    async def _cut(self, cut_at: int) -> None:
        broker, followed = self._broker, self._followed
        async with self._switching:
            # Opened anew meanwhile, or elected: what was compared is no longer the case.
            is_same = self._broker is broker and self._followed is followed
            if broker is None or followed is None or not is_same or self._is_ending:
                return
            # Nothing here keeps what it held.
            del broker
            _log.warning("the log from %d on is not that of the group: it is cut there", cut_at)
            with contextlib.suppress(MQError):
                await self._reopen(cut_at)
        # Where it could not be opened, it is tried again as the order to follow.
        await self._perform(followed)

    def _has_all(self) -> bool:
        """Returns whether the log has everything that was in it before the start."""
        return self.state.store.open_report().is_tail_certain

    def _note_asked(self, epoch: int, set_epoch: int) -> bool:
        """Notes what set is going to be asked for; returns False while the store is closed."""
        broker = self._broker
        epochs = None if broker is None else broker.state.replicas.epochs
        if epochs is None:
            return False
        epochs.note_asked(epoch, set_epoch)
        return True

    def _settle_end(self) -> None:
        epochs = self.state.replicas.epochs
        assert epochs is not None
        epochs.settle_end()

    # Roles.

    @property
    def _own_id(self) -> int:
        membership = self._membership
        assert membership is not None
        assert membership.identity is not None
        return membership.identity.broker_id

    def _progress(self) -> Standing | None:
        """Returns how far the log is; while it is opened anew, how far it was.

        None where a role cannot be taken: the controller is to see that, and to elect another one.
        """
        if self._is_failing:
            return None
        broker = self._broker
        epochs = None if broker is None else broker.state.replicas.epochs
        if epochs is not None:
            positions = epochs.positions()
            self._standing = Standing(epochs.last_epoch, positions.end, positions.confirmed)
        return self._standing

    async def _perform(self, order: RoleOrder) -> None:
        """Performs an order; one about the role again and again until it is done, or overtaken."""
        while True:
            try:
                async with self._switching:
                    await self._switch(order)
            except MQError as error:
                _log.error("the role is not taken: %s", error.message)
                if isinstance(order, Become | Follow) and self._is_newest(order):
                    self._is_failing = True
                    await asyncio.sleep(_RETRY_S)
                    continue
            self._is_failing = False
            return

    def _is_newest(self, order: Become | Follow) -> bool:
        membership = self._membership
        if membership is None or membership.is_vacant:
            # Nobody is wanted in it any more: heartbeats go on, and another epoch is asked for.
            return False
        return membership.epoch == order.epoch

    async def _switch(self, order: RoleOrder) -> None:
        if self._is_ending:
            return
        if self._broker is None:
            await self._open(None)
        if isinstance(order, Become):
            self._followed = None
            await self._lead(order)
        elif isinstance(order, Follow):
            self._followed = order
            if self.state.role.is_master and self._succession.is_at_rest:
                await self.broker.switch.step_down(order, self._own_id)
            else:
                if self.state.role.is_master:
                    _log.warning("%s is master of epoch %d", order.master_address, order.epoch)
                    await self._reopen(None)
                await self.broker.switch.follow(order, self._own_id)
            self._succession.followed(self.broker, order.master_address)
        elif self.state.role.is_master:
            switch = self.broker.switch
            if isinstance(order, TakeSet):
                switch.take_set(order.members.ids, order.members.epoch)
            elif self._membership is not None and self._membership.is_last(order):
                switch.refuse_set()

    async def _lead(self, order: Become) -> None:
        self._succession.leads(self.broker)
        if self.broker.switch.has_stepped_down:
            await self._reopen(None)
        try:
            await self.broker.switch.lead(order, self._own_id)
        except NoRecordError as error:
            # A part of a record came last of the master before: nobody has acknowledged it.
            cut_at = error.physical_offset
        else:
            return
        _log.warning("the log ends in the middle of a record: it is cut at its begin")
        await self._reopen(cut_at)
        await self.broker.switch.lead(order, self._own_id)

    async def _reopen(self, cut_at: int | None) -> None:
        """Closes the broker's parts and its store, and opens them anew, without a role."""
        self._progress()
        broker, self._broker = self._broker, None
        if broker is not None:
            # Tools may have changed some.
            self.settings = broker.state.settings
            try:
                await broker.resign()
            except MQError as error:
                _log.error("at the close: %s", error.message)
            del broker
            _let_go()
        await self._open(cut_at)

    async def _open(self, cut_at: int | None) -> None:
        broker = self._made(cut_at)
        await broker.start()
        self._broker = broker
        self._succession.opened(broker)

    def _made(self, cut_at: int | None) -> Broker:
        return Broker(
            self.settings,
            config_path=self._config_path,
            on_damage=self._on_damage,
            clock=self._clock,
            elections=self,
            cut_at=cut_at,
            port=self._port,
        )


def _let_go() -> None:
    """Frees what a broker held that was closed: files and memory of its store go with its objects.

    They refer to one another, and those of the start are where nobody looks for garbage (see
    `mqcore.cli.serving`): what retention removes later would stay on the disk for ever.
    """
    was_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    gc.collect()
    if was_frozen:
        gc.freeze()
    # The allocator would keep it, each of its arenas a part.
    give_memory_back()


def broker_of(settings: BrokerSettings, *, config_path: Path | None = None) -> "AnyBroker":
    """Returns the broker that settings want: under a controller, or by itself."""
    made = ControlledBroker if settings.is_controlled else Broker
    return made(settings, config_path=config_path)


def timetable_of(settings: BrokerSettings) -> Timetable:
    """Returns how often the controller is asked what."""
    return Timetable(
        replicas_ms=settings.replicas_interval_ms,
        leader_ms=settings.controller_leader_interval_ms,
        heartbeat_ms=settings.heartbeat_interval_ms,
        heartbeat_timeout_ms=settings.heartbeat_timeout_ms,
        election_priority=settings.election_priority,
    )


AnyBroker = Broker | ControlledBroker
