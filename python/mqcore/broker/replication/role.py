"""What a broker does about replication by its role: a master listens for slaves, a slave follows.

Knows the parts and their order; nothing of what each does.
"""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.replication.following import MasterFollower
from mqcore.broker.replication.listener import SlaveListener
from mqcore.broker.replication.master_timers import TimersOfMaster
from mqcore.broker.replication.metadata import MetadataSync
from mqcore.broker.replication.orders import (
    Become,
    Follow,
)
from mqcore.broker.replication.protection import ReplicationProtection
from mqcore.broker.replication.record_repair import RecordRepair
from mqcore.broker.state import BrokerState
from mqcore.config import BrokerSettings
from mqcore.errors import AddressError
from mqcore.model.reading import as_dict, as_list
from mqcore.model.relaxed_json import parse_object
from mqcore.native import ReplicationEpochs, ReplicationMaster
from mqcore.remoting import Server, listen_as

__all__ = ["Replication", "epoch_file", "is_copied"]

_log = logging.getLogger("mqcore.broker")

# `MixAll.brokerVIPChannel`: the second port of an official broker is so far below its first.
_VIP_DISTANCE = 2
# The timers of a master that hands over are where it was after a round or two; without any message
# of their own there is nothing to wait for.
_TIMERS_TRIES = 3
_TIMERS_AGAIN_S = 0.02
# Below the directory of the store, where the setting names no other place.
_EPOCH_FILE = "epochFileCheckpoint"


class Replication:
    """The replication of one broker."""

    def __init__(self, state: BrokerState) -> None:
        """Takes the broker; the store of a slave takes no append of its own from now on.

        What is sent to a synchronous master is refused until it listens for slaves. May wait for
        the disk.

        Raises:
            StoreError: Descriptors are exhausted, or the file of epochs cannot be read.
            TlsError: Certificates of the port for slaves cannot be used.
        """
        self._state = state
        self._follower: MasterFollower | None = None
        self._listener: SlaveListener | None = None
        self._tables: MetadataSync | None = None
        self._timers: TimersOfMaster | None = None
        self._persistence: ConfigPersistence | None = None
        self._port = 0
        self._repair = RecordRepair(state)
        role = state.role
        state.replicas.protection = ReplicationProtection(state.settings)
        if role.is_controlled:
            path = epoch_file(state.settings)
            state.replicas.epochs = ReplicationEpochs(state.store, str(path))
        elif role.is_slave:
            self._follower = MasterFollower(state)
        elif role.waits_for_slaves:
            ReplicationMaster.require(state.store)

    async def start(self, persistence: ConfigPersistence, server: Server, port: int) -> None:
        """Lets slaves copy the log, or follows a master; waits for its controller where it has one.

        Args:
            persistence: What writes the tables of a slave.
            server: What answers requests.
            port: Where it does.

        Raises:
            AddressError: The port for slaves cannot be listened on.
            StoreError: A thread cannot be started.
        """
        self._persistence, self._port = persistence, port
        self._repair.start()
        if self._state.role.is_controlled:
            await self._listen_for_tables(server)
        elif self._follower is not None:
            self._follow_tables()
            self._follower.start()
            if self._state.settings.has_acting_master:
                # A master of RocketMQ that is back asks there for the timers.
                await self._listen_for_tables(server)
        elif is_copied(self._state.settings):
            self._listener = SlaveListener(self._state)
            await self._listener.start(port)
            await self._listen_for_tables(server)

    async def stop(self) -> None:
        """Closes every connection; a table that is being taken is taken whole."""
        await self._repair.stop()
        for part in (self._listener, self._timers, self._tables, self._follower):
            if part is not None:
                await part.stop()

    async def lead(self, order: Become, own_id: int) -> None:
        """Makes the log that of a master, and lets slaves copy it; of a master, for a later epoch.

        The sync of tables and timers ends, the log is no longer followed, then it is led, and only
        then slaves are let in.

        Raises:
            AddressError: The port for slaves cannot be listened on.
            StoreError: The log cannot be led: see `ReplicationMaster.lead`.
        """
        self._state.replicas.controller_id = own_id
        if self._listener is not None:
            await self._listener.lead(order)
            return
        timers, self._timers = self._timers, None
        if timers is not None:
            await timers.stop()
        tables, self._tables = self._tables, None
        if tables is not None:
            await tables.stop()
        follower, self._follower = self._follower, None
        if follower is not None:
            await follower.stop()
        listener = SlaveListener(self._state)
        try:
            await listener.start(self._port, order, own_id)
        except BaseException:
            await listener.stop()
            raise
        self._listener = listener

    async def follow(self, order: Follow, own_id: int) -> None:
        """Follows an elected master, as long as this broker was none since its store was opened.

        Raises:
            StoreError: A thread cannot be started.
        """
        self._state.replicas.elect(order.master_address, order.ha_address)
        follower, self._follower = self._follower, None
        if follower is not None:
            await follower.stop()
        self._follower = MasterFollower(self._state, own_id)
        self._follower.start()
        if self._tables is None:
            self._follow_tables(own_id)
        else:
            self._tables.wake()

    async def step_down(self, order: Follow, own_id: int) -> None:
        """Follows an elected master with the log that this one had as master, at rest.

        What it has more than the new master is found at the connection, and cut as ever.

        Raises:
            StoreError: A thread cannot be started.
        """
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.stop()
        self._state.replicas.elect(order.master_address, order.ha_address)
        self._follower = MasterFollower(self._state, own_id)
        self._follower.start()
        self._follow_tables(own_id, was_master=True)

    def _follow_tables(self, own_id: int = 0, *, was_master: bool = False) -> None:
        assert self._persistence is not None
        self._tables = MetadataSync(
            self._state,
            self._persistence,
            controller_id=own_id,
            beside=self._take_beside,
            was_master=was_master,
        )
        self._tables.start()
        self._timers = TimersOfMaster(self._state, self._persistence)
        self._timers.start()

    async def _take_beside(self, body: bytes) -> None:
        """Takes what a master hands over with its role beside the tables: timers and locks."""
        state, timers = self._state, self._timers
        if timers is not None and state.settings.has_timers:
            for _ in range(_TIMERS_TRIES):
                if await timers.follow():
                    break
                await asyncio.sleep(_TIMERS_AGAIN_S)
        rows = as_list(parse_object(body).get("locks")) if body else []
        for group in state.locks.take(map(as_dict, rows), state.now_ms()):
            state.fast_path.set_group_lock(group, state.locks.until_ms(group))

    async def _listen_for_tables(self, server: Server) -> None:
        """Listens at the second port of official brokers, which their slaves ask for topics.

        Who lets the system choose one port has no use for the one beside it. Where it is taken, or
        the broker has a path, it serves all the same: slaves of ours ask at its own port.
        """
        listener = self._state.settings.listener
        if listener.port <= _VIP_DISTANCE or listener.host.startswith("unix:"):
            return
        try:
            await listen_as(server, replace(listener, port=listener.port - _VIP_DISTANCE))
        except AddressError as error:
            _log.warning("slaves of RocketMQ cannot take our topics: %s", error.message)


def epoch_file(settings: BrokerSettings) -> Path:
    """Returns where the epochs of the log are kept."""
    if settings.epoch_file:
        return Path(settings.epoch_file)
    return Path(settings.store_dir) / _EPOCH_FILE


def is_copied(settings: BrokerSettings) -> bool:
    """Returns whether slaves may copy the log: of a master that nothing else speaks against.

    A mounted store does not grow. A broker at a path is for its own machine, until a port is named.
    """
    is_local = settings.listener.host.startswith("unix:") and not settings.replication_port
    return settings.listens_for_slaves and not settings.mounted_dir and not is_local
