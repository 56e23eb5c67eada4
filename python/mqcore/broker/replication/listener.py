"""Where slaves connect: listens, starts the thread that ships the log, and lets connections in.

Knows the port and the settings of the thread; not who may come, nor what a connection carries.
"""

import asyncio
import contextlib
import ipaddress
import logging
import socket

from mqcore.broker.replicas import HEARTBEAT_MIN_MS
from mqcore.broker.replication.admission import Admission, ConnectionLog
from mqcore.broker.replication.member_hosts import host_of
from mqcore.broker.replication.orders import (
    Become,
)
from mqcore.broker.state import BrokerState
from mqcore.config import BrokerSettings
from mqcore.errors import AddressError, AddressReason
from mqcore.native import (
    ReplicationMaster,
    ReplicationMembership,
    ReplicationPace,
    ReplicationQuorum,
)
from mqcore.periodic import PeriodicTasks

__all__ = ["SlaveListener", "port_for_slaves"]

_log = logging.getLogger("mqcore.broker")

# Connections that may wait to be accepted.
_BACKLOG = 16
# As long as queues are waited for before a master serves; they follow the log within milliseconds.
_DISPATCHED_MS = 3_000
_MS_PER_S = 1_000
# After an error of `accept` that lasts, such as too many open files.
_ACCEPT_PAUSE_S = 1.0


class SlaveListener:
    """The port of a master at which slaves connect."""

    def __init__(self, state: BrokerState) -> None:
        """Prepares; `start` listens."""
        self._state = state
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._log = ConnectionLog()
        self._admission: Admission | None = None
        self._looks = PeriodicTasks()

    async def start(self, broker_port: int, order: Become | None = None, own_id: int = 0) -> int:
        """Listens where the broker does, and ships the log to who connects.

        Args:
            broker_port: The port that the broker listens on.
            order: The controller's order to be master, where there is one.
            own_id: The id of the broker at its controller.

        Returns:
            The port.

        Raises:
            AddressError: The port cannot be listened on.
            StoreError: The thread cannot be started, or the log is not that of a master.
        """
        state, settings = self._state, self._state.settings
        self._socket = _listening(settings.listener.host, port_for_slaves(settings, broker_port))
        bound = settings.replication_bytes_per_second_max
        is_classic = order is None
        master = ReplicationMaster(
            state.store,
            heartbeat_ms=max(HEARTBEAT_MIN_MS, settings.replication_heartbeat_ms),
            silence_max_ms=settings.replication_silence_max_ms,
            pace=ReplicationPace(
                batch_bytes=settings.replication_batch_bytes,
                bytes_per_second_max=bound if settings.replication_is_bounded else None,
                copied_bytes_per_second_max=settings.copied_bytes_per_second_max or None,
            ),
            quorum=quorum_of(settings) if is_classic and settings.is_sync_master else None,
            membership=None if is_classic else membership_of(settings, own_id),
            epochs=None if is_classic else state.replicas.epochs,
        )
        state.replicas.master = master
        if order is not None:
            await self.lead(order)
            self._looks.every(
                "replicas in sync",
                self.want,
                period_s=lambda: settings.sync_state_set_interval_ms / _MS_PER_S,
            )
        state.replicas.port = int(self._socket.getsockname()[1])
        loop = asyncio.get_running_loop()
        loop.add_reader(master.fileno(), self._hear, master)
        self._admission = Admission(state, master, self._log)
        self._admission.start()
        accepting = self._accept(self._socket, self._admission)
        self._accepting = loop.create_task(accepting, name="slaves")
        _log.info("slaves may copy the log from port %d", state.replicas.port)
        return state.replicas.port

    async def lead(self, order: Become) -> None:
        """Makes the log that of the master of an epoch, or of a later one of the same master.

        Raises:
            StoreError: It is not, see `ReplicationMaster.lead`.
        """
        master = self._state.replicas.master
        assert master is not None
        members = list(order.members.ids)
        is_dispatched = await asyncio.to_thread(
            master.lead, order.epoch, members, order.members.epoch, timeout_ms=_DISPATCHED_MS
        )
        if not is_dispatched:
            _log.warning("queues do not have the whole log yet: they follow while it is served")

    def want(self) -> None:
        """Asks the controller for the sync-state set that replicas show."""
        master, elections = self._state.replicas.master, self._state.elections
        if master is None or elections is None:
            return
        wanted = master.wanted()
        if wanted is not None:
            elections.alter(wanted.members, wanted.set_epoch)

    async def stop(self) -> None:
        """Closes the port and all connections."""
        await self._looks.stop()
        accepting, self._accepting = self._accepting, None
        if accepting is not None:
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
        if self._admission is not None:
            await self._admission.stop()
        if self._socket is not None:
            self._socket.close()
            self._state.replicas.port = 0
        master, self._state.replicas.master = self._state.replicas.master, None
        if master is not None:
            asyncio.get_running_loop().remove_reader(master.fileno())
            await asyncio.to_thread(master.stop)

    async def _accept(self, listening: socket.socket, admission: Admission) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listening)
            except OSError as error:
                _log.error("slaves cannot be accepted: %s", error.strerror or error)
                await asyncio.sleep(_ACCEPT_PAUSE_S)
                continue
            try:
                admission.meet(accepted, _shown(peer))
            except OSError:
                # It is gone already.
                accepted.close()
            # A flood of connections leaves the loop to others, too.
            await asyncio.sleep(0)

    def _hear(self, master: ReplicationMaster) -> None:
        for link in master.take_ended():
            text = "slave %s is no longer served: %s"
            self._log.note(logging.WARNING, host_of(link.address), text, link.address, link.why)
        self.want()


def quorum_of(settings: BrokerSettings) -> ReplicationQuorum:
    """Returns which sends a synchronous master may acknowledge."""
    return ReplicationQuorum(
        in_sync_replicas=settings.replication_copies,
        in_sync_replicas_min=settings.replication_in_sync_min,
        follows_in_sync=settings.replication_follows_in_sync,
        gap_max_bytes=settings.replication_gap_max_bytes,
        behind_max_bytes=settings.replication_behind_max_bytes,
    )


def membership_of(settings: BrokerSettings, own_id: int) -> ReplicationMembership:
    """Returns which sends a master under a controller may acknowledge, and who leaves its set."""
    return ReplicationMembership(
        controller_id=own_id,
        acks_whole_set=settings.replication_waits_for_set,
        in_sync_replicas=settings.replication_copies,
        in_sync_replicas_min=settings.replication_in_sync_min,
        behind_max_ms=settings.replication_lag_max_ms,
    )


def port_for_slaves(settings: BrokerSettings, broker_port: int) -> int:
    """Returns where a master listens for slaves: haListenPort, or next to the broker.

    Where the system chooses the port of the broker it chooses this one too: the next one may be
    another program's.
    """
    return settings.replication_port or (broker_port + 1 if settings.listener.port else 0)


def _shown(peer: tuple[str, int]) -> str:
    host, port = peer[0], peer[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listening(host: str, port: int) -> socket.socket:
    """Returns a socket that listens on a host as the broker does; a path's broker on loopback."""
    host = "127.0.0.1" if host.startswith("unix:") else host
    with contextlib.suppress(ValueError):
        host = str(ipaddress.ip_address(host))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(_BACKLOG)
        made.setblocking(False)
    except OSError as error:
        made.close()
        raise AddressError(
            f"cannot listen on {host}:{port} for slaves: {error.strerror or error}; haListenPort "
            "names another port, haListenEnable=false does without slaves",
            address=f"{host}:{port}",
            reason=AddressReason.CANNOT_LISTEN,
        ) from error
    return made
