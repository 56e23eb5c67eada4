"""What a broker does about replication by its role: a master listens for slaves, a slave follows.

Knows the parts and their order; nothing of what each does.
"""

import logging
from dataclasses import replace

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.replication.following import MasterFollower
from mqcore.broker.replication.listener import SlaveListener
from mqcore.broker.replication.master_timers import TimersOfMaster
from mqcore.broker.replication.metadata import MetadataSync
from mqcore.broker.state import BrokerState
from mqcore.config import BrokerSettings
from mqcore.errors import AddressError
from mqcore.native import ReplicationMaster
from mqcore.remoting import Server, listen_as

__all__ = ["Replication", "is_copied"]

_log = logging.getLogger("mqcore.broker")

# `MixAll.brokerVIPChannel`: the second port of an official broker is so far below its first.
_VIP_DISTANCE = 2


class Replication:
    """The replication of one broker."""

    def __init__(self, state: BrokerState) -> None:
        """Takes the broker; the store of a slave takes no append of its own from now on.

        What is sent to a synchronous master is refused until it listens for slaves.

        Raises:
            StoreError: Descriptors are exhausted.
        """
        self._state = state
        if state.settings.is_sync_master:
            ReplicationMaster.require(state.store)
        self._follower = MasterFollower(state) if state.settings.is_slave else None
        self._listener: SlaveListener | None = None
        self._tables: MetadataSync | None = None
        self._timers: TimersOfMaster | None = None

    async def start(self, persistence: ConfigPersistence, server: Server, port: int) -> None:
        """Lets slaves copy the log, or follows a master.

        Args:
            persistence: What writes the tables of a slave.
            server: What answers requests.
            port: Where it does.

        Raises:
            AddressError: The port for slaves cannot be listened on.
            StoreError: A thread cannot be started.
        """
        if self._follower is not None:
            self._tables = MetadataSync(self._state, persistence)
            self._timers = TimersOfMaster(self._state, persistence)
            self._follower.start()
            self._tables.start()
            self._timers.start()
        elif is_copied(self._state.settings):
            self._listener = SlaveListener(self._state)
            await self._listener.start(port)
            await self._listen_for_tables(server)

    async def stop(self) -> None:
        """Closes every connection; a table that is being taken is taken whole."""
        for part in (self._listener, self._timers, self._tables, self._follower):
            if part is not None:
                await part.stop()

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


def is_copied(settings: BrokerSettings) -> bool:
    """Returns whether slaves may copy the log: of a master that nothing else speaks against.

    A mounted store does not grow. A broker at a path is for its own machine, until a port is named.
    """
    is_local = settings.listener.host.startswith("unix:") and not settings.replication_port
    return settings.listens_for_slaves and not settings.mounted_dir and not is_local
