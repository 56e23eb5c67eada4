"""How a broker becomes known to name servers: at once, or when its group is ready for it.

`BrokerPreOnlineService` of RocketMQ, in a group with acting masters. A master that was gone waits
until each slave copies from it again, and takes back what that did in its place; a slave waits
until it is connected to its master. Until then nobody is sent to them. Knows the steps, not who
acts.
"""

import asyncio
import logging
from collections.abc import Mapping, Set
from typing import Final

from mqcore.broker.acting import Acting, ask_ha_address, ask_members
from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.consumer_offsets import is_own, parse_offsets, split_key
from mqcore.broker.delays import DelayTable
from mqcore.broker.leading import MasterWork
from mqcore.broker.policy import SCHEDULE_TOPIC
from mqcore.broker.registration import Registrar
from mqcore.broker.replication.member_hosts import addresses_of, host_of, plain, second_host
from mqcore.broker.state import BrokerState
from mqcore.config import BrokerSettings
from mqcore.errors import BadJsonError, MQError
from mqcore.model.reading import as_dict, as_int
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import Client, RequestCode, expect

__all__ = ["GoingOnline", "is_isolated", "later_delays", "later_offsets"]

_log = logging.getLogger("mqcore.broker")

_MASTER: Final = 0
_TIMEOUT_S: Final = 3.0
_RETRY_S: Final = 1.0
# As long as an official broker waits for a connection of replication.
_CONNECTED_S: Final = 10.0
_LOOK_S: Final = 0.05


def is_isolated(settings: BrokerSettings) -> bool:
    """Returns whether a broker waits for its group before name servers know it."""
    acts = settings.has_acting_master and not settings.skips_pre_online
    return acts and settings.replication_total > 1


class GoingOnline:
    """The way of one broker to its name servers."""

    def __init__(
        self,
        state: BrokerState,
        persistence: ConfigPersistence,
        registrar: Registrar,
        services: MasterWork,
    ) -> None:
        """Takes the parts; `start` begins."""
        self._state = state
        self._persistence = persistence
        self._registrar = registrar
        self._services = services
        self._client = Client(
            tls=state.outgoing_tls, credentials=state.credentials, version=state.version
        )
        self._acting = Acting(state) if state.settings.has_acting_master else None
        self._began_at = state.store.stats().appended
        self._waiting: asyncio.Task[None] | None = None
        self._reported = ""

    def start(self) -> None:
        """Registers, at once or when the group is ready."""
        if is_isolated(self._state.settings):
            waiting = self._wait()
            self._waiting = asyncio.get_running_loop().create_task(waiting, name="group is ready")
        else:
            self._begin()

    async def stop(self) -> None:
        """Ends the wait, and the heartbeats."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        if self._acting is not None:
            await self._acting.stop()
        await self._client.close()

    def _begin(self) -> None:
        if self._state.role.is_master:
            self._services.start()
        self._registrar.start()
        if self._acting is not None:
            self._acting.start()

    async def _wait(self) -> None:
        while not await self._is_ready():  # noqa: ASYNC110 - servers are asked each time
            await asyncio.sleep(_RETRY_S)
        self._begin()

    async def _is_ready(self) -> bool:
        """Prepares once; what fails is tried again."""
        state = self._state
        if not state.name_servers:
            # Nobody to be known to.
            return True
        members = await ask_members(self._client, state)
        if members is None:
            self._report("no name server answers")
            return False
        others = {
            broker_id: address
            for broker_id, address in members.items()
            if address != state.address and broker_id != state.role.broker_id
        }
        try:
            if state.role.is_master:
                for _, address in sorted(others.items()):
                    await self._take_back(address)
            elif _MASTER in others:
                await self._connect(others[_MASTER])
        except (MQError, TimeoutError) as error:
            self._report(error.message if isinstance(error, MQError) else "not connected in time")
            return False
        return True

    def _report(self, why: str) -> None:
        if why != self._reported:
            _log.warning("not registered yet, the group is not ready: %s", why)
            self._reported = why

    async def _connect(self, master: str) -> None:
        """Returns when a slave is connected to its master.

        Raises:
            MQError: The master does not name where it ships its log.
            TimeoutError: It is not connected in time.
        """
        replicas = self._state.replicas
        replicas.learn(master, await ask_ha_address(self._client, master))
        async with asyncio.timeout(_CONNECTED_S):
            # The connection is made on another task, which notifies nobody here.
            while not replicas.has_master:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_S)

    async def _take_back(self, slave: str) -> None:
        """Returns when a slave copies from us, and what it did in our place is ours.

        Raises:
            MQError: It does not answer, or a table cannot be read or written.
            TimeoutError: It does not connect in time.
        """
        state = self._state
        ext = {
            "masterHaAddress": f"{state.settings.replication_host}:{state.replicas.port}",
            "masterFlushOffset": str(self._began_at),
            "masterAddress": state.address,
        }
        await self._ask(slave, RequestCode.EXCHANGE_BROKER_HA_INFO, ext)
        second = second_host(await self._ask(slave, RequestCode.GET_BROKER_CONFIG))
        hosts = await addresses_of((host_of(slave), second))
        async with asyncio.timeout(_CONNECTED_S):
            while not self._is_copied_by(hosts):  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_S)
        try:
            offsets = await self._ask(slave, RequestCode.GET_ALL_CONSUMER_OFFSET)
            table = await asyncio.to_thread(parse_offsets, offsets)
            delays = delays_in(await self._ask(slave, RequestCode.GET_ALL_DELAY_OFFSET))
        except BadJsonError as error:
            raise BadJsonError(f"the offsets of {slave}: {error}") from error
        count = await asyncio.to_thread(self._take_offsets, table)
        for level, offset in later_delays(delays, state.delays).items():
            now_ms = state.now_ms()
            state.delays.delivered(level, offset, now_ms, now_ms)
            state.delays.clamp(level, state.store.bounds(SCHEDULE_TOPIC, level - 1))
        await self._persistence.offsets.save()
        await self._persistence.delays.save()
        _log.info("%s copies from here; %d offsets were taken back from it", slave, count)

    def _is_copied_by(self, hosts: Set[str]) -> bool:
        """Returns whether a slave copies from here that connects from one of these."""
        master = self._state.replicas.master
        slaves = [] if master is None else master.slaves()
        return any(
            each.requested is not None and plain(host_of(each.address)) in hosts for each in slaves
        )

    def _take_offsets(self, table: Mapping[str, Mapping[int, int]]) -> int:
        """Takes what groups have read at the slave meanwhile; returns how many offsets."""
        offsets = self._state.fast_path.offsets
        later = later_offsets(table, offsets.snapshot())
        for (key, queue_id), offset in later.items():
            topic_group = split_key(key)
            if topic_group is not None:
                topic, group = topic_group
                offsets.commit(group, topic, queue_id, offset)
        return len(later)

    async def _ask(
        self, address: str, code: RequestCode, ext: Mapping[str, str] | None = None
    ) -> bytes:
        answer = await self._client.call(address, code, ext, timeout_s=_TIMEOUT_S)
        return expect(answer, address).body


def later_offsets(
    table: Mapping[str, Mapping[int, int]], own: Mapping[str, Mapping[int, int]]
) -> dict[tuple[str, int], int]:
    """Returns the offsets of a slave that are beyond ours, by key and queue.

    Those that are less were committed before what we have. Those of the broker's own groups show
    what was delivered, and a slave that acts delivers nothing.
    """
    return {
        (key, queue_id): offset
        for key, queues in table.items()
        if not is_own(key)
        for queue_id, offset in queues.items()
        if offset > own.get(key, {}).get(queue_id, 0)
    }


def delays_in(body: bytes) -> dict[int, int]:
    """Returns how far a slave has delivered each delay level (45).

    Raises:
        BadJsonError: It cannot be read.
    """
    table = as_dict(parse_object(body).get("offsetTable"))
    return {as_int(level): as_int(offset) for level, offset in table.items()}


def later_delays(found: Mapping[int, int], own: DelayTable) -> dict[int, int]:
    """Returns the levels that an official slave has delivered farther, by its escape."""
    return {
        level: offset
        for level, offset in found.items()
        if level in own.levels and offset > own.offset(level)
    }
