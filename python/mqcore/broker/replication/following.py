"""A slave's way to its master: finds the address, connects, tries again, reports why it ended.

Knows sockets and times; the connection itself is given to the extension.
"""

import asyncio
import logging

from mqcore.broker.policy import fill_broker
from mqcore.broker.replicas import HEARTBEAT_MIN_MS
from mqcore.broker.replication.connecting import connected
from mqcore.broker.replication.protection import HA_TLS
from mqcore.broker.replication.refilling import Offer, Refilling, offer_of
from mqcore.broker.state import BrokerState
from mqcore.errors import MQError
from mqcore.model.shown_settings import settings_in
from mqcore.native import ReplicationSlave, ReplicationTls
from mqcore.remoting import Client, RequestCode, expect

__all__ = ["MasterFollower", "ha_address_of"]

_log = logging.getLogger("mqcore.broker")

# Between a connection that ended and the next try: an official slave waits 5 s. A master that was
# started again is followed sooner, and one that refuses us is not asked in a circle.
_RETRY_S = 1.0
# After a connection that ended as soon as it was made: it will not be better in a second.
_REFUSED_RETRY_S = 5.0
_UNKNOWN = "the address of the master is not known"
_WAY_OUT = "set haMasterAddress, or namesrvAddr"
# A connection that lasted so long was none that was refused.
_REFUSED_WITHIN_S = 2.0
# A master that was just elected listens for slaves in a moment: sends wait for them.
_ELECTED_RETRY_S = 0.05
_ELECTED_WITHIN_S = 5.0
_ASK_TIMEOUT_S = 1.0


class MasterFollower:
    """Keeps a slave connected to its master."""

    def __init__(self, state: BrokerState, controller_id: int = 0) -> None:
        """Makes a slave of the store: it takes no append of its own from now on.

        Args:
            state: The broker.
            controller_id: Its id at its controller; 0 without one.

        Raises:
            StoreError: Descriptors are exhausted.
        """
        self._state = state
        settings = state.settings
        self._slave = state.replicas.slave = ReplicationSlave(
            state.store,
            heartbeat_ms=max(HEARTBEAT_MIN_MS, settings.replication_heartbeat_ms),
            silence_max_ms=settings.replication_silence_max_ms,
            epochs=state.replicas.epochs,
            controller_id=controller_id,
            from_last_file=settings.replication_begins_late,
            is_learner=settings.is_learner,
        )
        if settings.replication_master:
            state.replicas.master_ha_address = settings.replication_master
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._client = Client(
            tls=state.outgoing_tls, credentials=state.credentials, version=state.version
        )
        self._began_s = 0.0

    def start(self) -> None:
        """Begins to connect."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._slave.fileno(), self._note_ended)
        self._began_s = loop.time()
        self._task = loop.create_task(self._run(), name="follow the master")

    async def stop(self) -> None:
        """Closes the connection; what has come is appended."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        asyncio.get_running_loop().remove_reader(self._slave.fileno())
        await self._client.close()
        await asyncio.to_thread(self._slave.stop)
        self._state.replicas.slave = None

    def _note_ended(self) -> None:
        for link in self._slave.take_ended():
            self._state.replicas.ended = f"{link.address}: {link.why}"
            self._ended.set()
            elections = self._state.elections
            if elections is not None and link.cut_at is not None:
                elections.diverged(link.cut_at)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        reported = ""
        while True:
            address = self._address() or await self._asked_address()
            began = loop.time()
            why = _UNKNOWN if self._state.role.is_controlled else f"{_UNKNOWN}: {_WAY_OUT}"
            if address:
                why = await self._follow(address)
            is_refused = bool(address) and loop.time() - began < _REFUSED_WITHIN_S
            is_early = loop.time() - self._began_s < _ELECTED_WITHIN_S
            is_elected_now = self._state.role.is_controlled and is_early
            if is_refused and not is_elected_now and await self._is_too_old():
                why = f"{why}. {self._way_out_of_age()}"
                self._state.replicas.ended = why
            if why != reported:
                _log.warning("the log of the master %s is not followed: %s", address, why)
                reported = why
            pause_s = _REFUSED_RETRY_S if is_refused else _RETRY_S
            if is_elected_now:
                pause_s = _ELECTED_RETRY_S
            await asyncio.sleep(pause_s)

    def _address(self) -> str:
        """Returns where the master ships its log; what is set is never looked up anew.

        A controller elects now this one, now that one: what is set does not count then.
        """
        state = self._state
        fixed = "" if state.role.is_controlled else state.settings.replication_master
        return fixed or state.replicas.master_ha_address

    async def _asked_address(self) -> str:
        """Returns where an elected master ships its log, by its settings; empty for unknown.

        Name servers know it later: it registers when it is master, and they are asked then.
        """
        address = self._state.replicas.master_address
        if not self._state.role.is_controlled or not address:
            return ""
        try:
            code = RequestCode.GET_BROKER_CONFIG
            answer = await self._client.call(address, code, timeout_s=_ASK_TIMEOUT_S)
            return ha_address_of(address, expect(answer, address).body)
        except MQError:
            return ""

    async def _follow(self, address: str) -> str:
        """Follows until the connection ends; returns why it did."""
        tls = await self._protection()
        why, is_given = await self._refill(address, tls)
        if why:
            return why
        try:
            made = await connected(address)
            self._ended.clear()
            descriptor = made.detach()
            await asyncio.to_thread(
                self._slave.follow, descriptor, address, from_start=is_given, tls=tls
            )
        except OSError as error:
            return error.strerror or str(error) or "no connection in time"
        except MQError as error:
            return error.message
        _log.info("the log of the master %s is followed", address)
        self._note_master(is_there=True)
        try:
            await self._ended.wait()
        finally:
            self._note_master(is_there=False)
        return self._state.replicas.ended

    async def _protection(self) -> ReplicationTls | None:
        """Returns what protects the next connection.

        A slave in permissive mode speaks TLS where its master's settings have it, and plain where
        they do not: for a change-over, in which brokers are started anew one by one.
        """
        protection, asked = self._state.replicas.protection, self._state.replicas.master_address
        if protection is None:
            return None
        if protection.mode == "permissive":
            try:
                code = RequestCode.GET_BROKER_CONFIG
                answer = await self._client.call(asked, code, timeout_s=_ASK_TIMEOUT_S)
                theirs = settings_in(expect(answer, asked).body)
            except MQError:
                return None
            if theirs.get(HA_TLS, "disabled") == "disabled":
                return None
        return protection.asking()

    async def _refill(self, address: str, tls: ReplicationTls | None) -> tuple[str, bool]:
        """Copies whole files where the log has nothing, or ends with one.

        A master of RocketMQ gives none: a fresh log then begins where that master lets it.

        Returns:
            Why the log is not to be followed yet, empty where it may be; and whether the master
            gives whole files.
        """
        state = self._state
        settings = state.settings
        if not settings.copies_files or settings.replication_begins_late:
            return "", False
        refilling = Refilling(
            state.store, epochs=state.replicas.epochs, streams=settings.copied_streams
        )
        if not refilling.may_begin:
            return "", False
        asked = state.replicas.master_address
        offer = (await offer_of(self._client, asked)).what if asked else Offer.UNKNOWN
        if offer is Offer.LATER:
            return f"{asked} does not answer whether it gives whole files of its log", False
        if offer is Offer.UNKNOWN:
            _log.info("the master gives no whole files of its log, or is not known by name")
            return "", False
        self._note_master(is_there=True)
        state.replicas.refilling = refilling
        try:
            return await refilling.run(address, tls), True
        finally:
            state.replicas.refilling = None
            self._note_master(is_there=False)

    async def _is_too_old(self) -> bool:
        """Returns whether the log ends before that of a master of ours begins."""
        asked, end = self._state.replicas.master_address, self._state.store.stats().appended
        if not asked or not end:
            return False
        offer = await offer_of(self._client, asked)
        return offer.what is Offer.GIVEN and end < offer.log_start

    def _way_out_of_age(self) -> str:
        asked, store_dir = self._state.replicas.master_address, self._state.settings.store_dir
        return (
            "The master's log begins behind the end of ours. Stop this broker, begin anew with "
            f"`mqcore store refill --set-aside --from {asked} {store_dir}`, which keeps the old "
            "log, and start it"
        )

    def _note_master(self, *, is_there: bool) -> None:
        """Lets pulls be answered by whether consumers can go to the master."""
        self._state.replicas.has_master = is_there
        fill_broker(self._state)


def ha_address_of(address: str, config: bytes) -> str:
    """Returns where a master ships its log, by its settings (26); empty for unknown.

    Args:
        address: Where it answers requests.
        config: Its settings, a line each.
    """
    found = settings_in(config)
    host, _, own_port = address.rpartition(":")
    # 0 is the port behind its own: `BrokerStartup`.
    port = found.get("haListenPort", "") or "0"
    if not (port.isascii() and port.isdigit() and own_port.isdigit()):
        return ""
    if found.get("listenPort") == "0" and int(port) == 0:
        return ""
    return f"{found.get('brokerIP2') or host}:{int(port) or int(own_port) + 1}"
