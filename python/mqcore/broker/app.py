"""The broker put together: store, fast path, listener, tables, rounds and registration on one loop.

    broker = Broker(settings)
    await broker.start()
    print(broker.address)
    await broker.stop()

Holds no algorithm: it opens in order and wires. What is opened registers at once how it ends, by a
stop and by a kill (`Broker._ends_with`); both go through that in the reverse order.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from mqcore.access import check_access
from mqcore.broker import batch_topics, policy
from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.decisions import Decisions
from mqcore.broker.deduplication import remember_sends
from mqcore.broker.going_online import GoingOnline, is_isolated
from mqcore.broker.hand_over import HandOverParts
from mqcore.broker.leading import MasterWork
from mqcore.broker.links import BrokerConnection, bound_fast_path, busy_poll_us_of, reactors_of
from mqcore.broker.membership_changes import Departures, MembershipChanges
from mqcore.broker.mounting import Mount, as_mounted, know_stored_topics
from mqcore.broker.observing import observed
from mqcore.broker.passing_on import PassingOn
from mqcore.broker.pop import PopRounds
from mqcore.broker.ports import reserved
from mqcore.broker.processors import dispatcher_of, serve_succession
from mqcore.broker.registration import Registrar
from mqcore.broker.replicas import Elections
from mqcore.broker.replication import Replication
from mqcore.broker.rounds import Rounds
from mqcore.broker.state import BrokerState
from mqcore.broker.static_requests import StaticRequests
from mqcore.broker.switching import RoleSwitch
from mqcore.broker.timer_rounds import TimerRounds
from mqcore.broker.topic_queues import TopicQueues
from mqcore.clock import monotonic_ms, wall_ms
from mqcore.config import BrokerSettings
from mqcore.config.budget import memory_plan
from mqcore.native import BrokerPolicy, FastPath, OnDamage, Store
from mqcore.remoting import (
    Address,
    Server,
    TcpAddress,
    limits_of,
    listen_as,
)

_log = logging.getLogger("mqcore.broker")

# Half-done requests get this long at a stop: the rest of a second is for the files.
_GRACE_S = 0.5
# As often it is tried to store open pops at a stop: the next log file is there within a second.
_STORE_POPS_ATTEMPTS = 500
# A sync takes about this long.
_PARKED_LOOK_S = 0.002
# A part that is there while a broker serves.
_Part = TypeVar("_Part")


class Broker:
    """One broker.

    Attributes:
        settings: Its settings as it was started with.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        config_path: Path | None = None,
        on_damage: OnDamage = "refuse",
        clock: Callable[[], int] = wall_ms,
        elections: Elections | None = None,
        cut_at: int | None = None,
        port: int = 0,
    ) -> None:
        """Prepares; `start` opens.

        Args:
            settings: Its settings.
            config_path: The properties file that changes by tools are kept in.
            on_damage: What is done about a damaged log: see `mqcore.native.Store`.
            clock: The wall clock, in milliseconds.
            elections: Who keeps it a member of its group, with a controller.
            cut_at: Where its log is to end: what is behind no other member has.
            port: The port of its life before, where the settings want any free one.
        """
        self.settings = as_mounted(settings) if settings.mounted_dir else settings
        self._mount: Mount | None = None
        self._config_path = config_path
        self._on_damage = on_damage
        self._clock = clock
        self._elections = elections
        self._cut_at = cut_at
        self._port = port
        self._resigns = False
        self._ports: dict[str, int] = {}
        self._state: BrokerState | None = None
        self._persistence: ConfigPersistence | None = None
        self._rounds: Rounds | None = None
        self._services: MasterWork | None = None
        self._replication: Replication | None = None
        self._registrar: Registrar | None = None
        self._switch: RoleSwitch | None = None
        self._topic_queues: TopicQueues | None = None
        self._passing_on: PassingOn | None = None
        self._server: Server | None = None
        # How what was started is ended, the last first: by a stop, and as by a kill.
        self._stopping = AsyncExitStack()
        self._abandoning = AsyncExitStack()

    @property
    def state(self) -> BrokerState:
        """The tables; there from the start on."""
        if self._state is None:
            raise RuntimeError("the broker was not started")
        return self._state

    @property
    def ports(self) -> dict[str, int]:
        """The port that is listened on, by the program's name."""
        return dict(self._ports)

    @property
    def rounds(self) -> Rounds:
        """What is done now and then; there while the broker serves."""
        return _serving(self._rounds)

    @property
    def timer_rounds(self) -> TimerRounds:
        """When the timers are looked at; there while the broker serves."""
        return _serving(self._services).timers

    @property
    def pop_rounds(self) -> PopRounds:
        """When check points of pops are looked at; there while the broker serves."""
        return _serving(self._services).pops

    @property
    def switch(self) -> RoleSwitch:
        """What gives it another role; there while the broker serves, under a controller."""
        return _serving(self._switch)

    @property
    def passing_on(self) -> PassingOn:
        """What takes requests for the master while another broker is; there while it serves."""
        return _serving(self._passing_on)

    @property
    def hand_over_parts(self) -> HandOverParts:
        """What a hand-over works on; there while the broker serves."""
        return HandOverParts(
            self.state,
            self._opened_persistence(),
            _serving(self._services),
            self.passing_on,
            self._store_open,
        )

    @property
    def registered(self) -> frozenset[str]:
        """The name servers that know the broker."""
        return self._registrar.registered if self._registrar is not None else frozenset()

    async def until_registered(self, name_server: str, *, timeout_s: float) -> bool:
        """Waits until a name server knows the broker; returns whether it does."""
        if self._registrar is None:
            return False
        return await self._registrar.until_registered(name_server, timeout_s=timeout_s)

    async def start(self) -> Address:
        """Opens the store, recovers what has to be, and serves; returns the address listened on.

        Raises:
            StoreError: The store cannot be opened.
            StateFileError: A file of `config` cannot be read.
            AddressError: The address cannot be listened on.
            TlsError: Certificates or keys cannot be used.
            ConfigurationError: A setting of access control cannot work.
        """
        try:
            return await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> Address:
        for warning in check_access(self.settings.access):
            _log.warning("%s", warning)
        listener = self.settings.listener
        with reserved(listener.host, listener.port or self._port) as port:
            advertised = TcpAddress(self.settings.advertised_host, port)
            await self._open(advertised)
            state, persistence = self.state, self._opened_persistence()
            fast_path = state.fast_path
            plan = memory_plan(self.settings.configuration)
            queue_files = self.settings.queue_files_open_max
            limits = limits_of(listener, plan, queue_files=queue_files)
            bound_fast_path(fast_path, plan, limits)
            _log.debug("%s; %d connections at the most", plan, limits.connections_max)
            self._rounds = Rounds(state, persistence)
            # Before the first request: what comes then is counted.
            await self._rounds.sample()
            static = StaticRequests(state)
            decisions = Decisions(state, persistence, static, waiting_bytes_max=plan.sends_bytes)
            self._topic_queues = TopicQueues(state)
            membership = MembershipChanges(state)
            self._passing_on = PassingOn(state)
            dispatcher = dispatcher_of(state, persistence, membership, self._topic_queues, static)
            serve_succession(dispatcher, state, persistence, self._passing_on)
            self._server = Server(
                dispatcher,
                limits=limits,
                events=[Departures(state, membership)],
                version=state.version,
                factory=lambda hub: BrokerConnection(fast_path, hub, decisions),
            )
            # Until the last connection has ended.
            for each in (self._passing_on, static):
                self._ends_with(each.stop, each.stop)
            self._ends_with(self._end_server)
            state.follow(self._server.hub)
            state.serving_tls = self._server.tls
            fast_path.start(asyncio.get_running_loop())
            address = await listen_as(
                self._server, replace(listener, port=port), advertised=advertised
            )
        self._ports["broker"] = port
        self._ports |= await observed(state, lambda: self.registered, self._ends_with)
        self._services = MasterWork(state, persistence, self._rounds, static)
        for periodic in (self._topic_queues, self._rounds, self._services):
            self._ends_with(periodic.stop, periodic.stop)
        self._topic_queues.start()
        self._rounds.start()
        if state.role.is_master and not is_isolated(self.settings):
            self._services.start()
        replication, self._replication = self._replication, None
        assert replication is not None
        self._ends_with(replication.stop, replication.stop)
        if state.role.waits_for_slaves or state.role.is_controlled:
            # Sends that wait for slaves are answered while there are some.
            self._ends_with(self._answer_parked)
        await replication.start(persistence, self._server, port)
        self._registrar = Registrar(state, persistence)
        self._ends_with(self._registrar.stop, self._registrar.abandon)
        persistence.announce = self._registrar.announce
        if state.role.is_controlled:
            self._switch = RoleSwitch(state, self._services, replication, self._registrar)
        else:
            online = GoingOnline(state, persistence, self._registrar, self._services)
            self._ends_with(online.stop, online.stop)
            online.start()
        _log.info("broker %s serves %s as %s", self.settings.name, address, state.address)
        return address

    def _ends_with(
        self,
        stop: Callable[[], Awaitable[None]],
        abandon: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Notes how what is being started is ended; a kill leaves it as it is without `abandon`."""
        self._stopping.push_async_callback(stop)
        if abandon is not None:
            self._abandoning.push_async_callback(abandon)

    def _opened_persistence(self) -> ConfigPersistence:
        if self._persistence is None:
            raise RuntimeError("the broker was not started")
        return self._persistence

    async def _open(self, advertised: TcpAddress) -> None:
        """Opens the store and reads the files. The disk is waited for in a thread."""
        settings = self.settings

        def opened() -> tuple[BrokerState, ConfigPersistence]:
            engine = dict(settings.engine)
            if settings.mounted_dir:
                log_dir = engine.pop("storePathCommitLog", None)
                self._mount = Mount(
                    Path(settings.mounted_dir),
                    settings.store_dir,
                    log_dir=Path(log_dir) if log_dir else None,
                )
                engine["readOnlyStore"] = "true"
            named = engine.get(batch_topics.SETTING, "")
            stored = batch_topics.batch_topics(Path(settings.store_dir))
            engine[batch_topics.SETTING] = f"{named} {stored}".strip()
            store = Store(
                settings.store_dir,
                config=engine,
                on_damage=self._on_damage,
                store_host=str(advertised),
                is_member=settings.is_controlled,
                cut_at=self._cut_at,
            )
            with ExitStack() as undoing:
                undoing.callback(store.close)
                if not settings.mounted_dir:
                    _log_recovery(store)
                bare = BrokerPolicy(
                    name=settings.name, cluster=settings.cluster, address=settings.advertised_host
                )
                # Where somebody sets the time, nothing happens by itself.
                reactors = reactors_of(settings) if self._clock is wall_ms else 0
                busy_us = busy_poll_us_of(settings)
                fast_path = FastPath(store, broker=bare, reactors=reactors, busy_poll_us=busy_us)
                state = BrokerState.of(settings, str(advertised), store, fast_path, self._clock)
                state.config_path = self._config_path
                state.elections = self._elections
                self._replication = Replication(state)
                persistence = ConfigPersistence(state)
                persistence.load()
                remember_sends(settings, fast_path)
                if settings.mounted_dir:
                    know_stored_topics(state)
                # Of a slave too: before its log grows again where it was cut.
                if settings.has_timers and persistence.timers.are_there:
                    persistence.timers.open(self._clock())
                undoing.pop_all()
            return state, persistence

        self._ends_with(self._unmount, self._unmount)
        self._state, self._persistence = await asyncio.to_thread(opened)
        # Behind the last change that has a line.
        trail = self.state.trail
        self._ends_with(trail.stop, trail.stop)
        self._ends_with(self._close_store, self._abandon_store)
        self._ends_with(self._save)

    async def stop(self) -> None:
        """Leaves the name servers, answers what is half done, writes the files, closes the store.

        Raises:
            StoreError: Something could not be written; everything is closed all the same.
        """
        self._abandoning.pop_all()
        await self._end(self._stopping)

    async def resign(self) -> None:
        """Stops it to be opened anew in another role: its group has another master, or another log.

        It appends nothing, and name servers hear of the new role alone: what is unregistered by an
        id may already be the next master.

        Raises:
            StoreError: Something could not be written; everything is closed all the same.
        """
        self._resigns = True
        if self._registrar is not None:
            self._registrar.stay()
        await self.stop()

    async def abandon(self) -> None:
        """Ends as a kill would: nothing is answered, sent or written any more.

        The directory stays as it lies: what was appended is in the page cache, offsets of consumers
        are as they were saved last, and the next start recovers.
        """
        server, self._server = self._server, None
        if server is not None:
            # First of all, whatever was started after it: nothing is answered from now on.
            server.hub.cut()
            await server.close(grace_s=0.0)
        self._stopping.pop_all()
        self._persistence = None
        await self._end(self._abandoning)

    async def _end(self, how: AsyncExitStack) -> None:
        """Ends everything, the last first; what fails does not keep the others from it."""
        try:
            await how.aclose()
        finally:
            self._rounds = self._services = self._registrar = None
            self._topic_queues = self._switch = self._passing_on = None

    def deafen(self) -> None:
        """Neither reads nor answers until `hear`, as if the network were gone."""
        if self._server is not None:
            self._server.hub.deafen()
            self.state.fast_path.stop()

    def hear(self) -> None:
        """Reads and answers again."""
        if self._server is not None:
            self.state.fast_path.start(asyncio.get_running_loop())
            self._server.hub.hear()

    def cut_connections(self) -> None:
        """Ends every connection at once; clients may come again."""
        if self._server is not None:
            self._server.hub.cut()

    async def _end_server(self) -> None:
        """Answers what is half done, and accepts nothing more."""
        server, self._server = self._server, None
        if server is not None:
            await self._answer_parked()
            await server.close(grace_s=_GRACE_S)

    async def _answer_parked(self) -> None:
        """Takes no more sends, and waits until those that wait for disk or slaves are answered."""
        fast_path = self.state.fast_path
        policy.refuse_sends(self.state)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                # Asked, not awaited: the fast path's own timer answers them meanwhile.
                while fast_path.stats()["parked"]:  # noqa: ASYNC110
                    await asyncio.sleep(_PARKED_LOOK_S)

    async def _save(self) -> None:
        """Writes what the store and the tables have in memory alone."""
        persistence, self._persistence = self._persistence, None
        if persistence is None:
            return
        if not self._resigns:
            await self._store_open()
        await persistence.save_all()

    async def _store_open(self) -> None:
        """Stores what pops and ends of transactions have in memory alone."""
        is_noted = self.state.fast_path.half_messages.write_op_messages().is_all
        if not await self._store_pops():
            _log.error("at the stop: pops could not be stored: they are popped again")
        if not is_noted:
            _log.error("at the stop: ends of transactions could not be noted: asked for again")

    async def _unmount(self) -> None:
        """Gives the directory of a mount back."""
        mount, self._mount = self._mount, None
        if mount is not None:
            mount.close()

    async def _close_store(self) -> None:
        if not self.state.store.is_closed:
            self.state.fast_path.close()
            await asyncio.to_thread(self._close)

    async def _abandon_store(self) -> None:
        if not self.state.store.is_closed:
            self.state.fast_path.close()
            await asyncio.to_thread(self.state.store.abandon)

    async def _store_pops(self) -> bool:
        """Stores every open pop, which may wait for the next log file; returns whether it could."""
        for _attempt in range(_STORE_POPS_ATTEMPTS):
            if await asyncio.to_thread(self.state.fast_path.pops.store):
                return True
            await asyncio.sleep(_PARKED_LOOK_S)
        return False

    def _close(self) -> None:
        """Closes the store; waits for the disk."""
        store = self.state.store
        unsynced = store.stats().flush_lag_bytes
        began_ms = monotonic_ms()
        was_clean = store.close()
        _log.info(
            "store closed in %d ms, with %d bytes that were not synced yet%s",
            monotonic_ms() - began_ms,
            unsynced,
            "" if was_clean or self.settings.mounted_dir else "; the next start recovers",
        )


def _serving(part: _Part | None) -> _Part:
    if part is None:
        raise RuntimeError("the broker does not serve")
    return part


def _log_recovery(store: Store) -> None:
    """Logs what a start did after an end that was not clean; what was cut off is logged apart."""
    report = store.open_report()
    if report.was_clean:
        return
    _log.info(
        "the store was not closed cleanly, and is recovered: %d records (%d bytes) of the log "
        "walked from %d, it ends at %d",
        report.records,
        report.scanned_bytes,
        report.scanned_from,
        report.end,
    )
