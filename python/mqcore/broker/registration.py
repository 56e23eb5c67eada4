"""Registers the broker with every name server: at the start, every 30 seconds, on each change.

What is sent is made by pure functions. Name servers know nothing of each other: each has a loop of
its own, and one that is slow or gone delays no other.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.name_servers import NameServerLookup, looks_up
from mqcore.broker.rivals import rival_of, rival_text
from mqcore.broker.state import BrokerState, masked
from mqcore.errors import MQError, RefusedError
from mqcore.model.reading import as_dict
from mqcore.model.relaxed_json import compact_in_parts, parse_object
from mqcore.model.static_topics import StaticQueues
from mqcore.model.topics import TopicConfig
from mqcore.model.versions import DataVersion
from mqcore.periodic import PeriodicTask, PeriodicTasks, log_error
from mqcore.remoting import Client, Link, LinkEvents, RequestCode, ResponseCode, expect

_log = logging.getLogger("mqcore.broker")

_MS_PER_S = 1_000
# Bounds between which the official broker keeps `registerNameServerPeriod`.
_PERIOD_MIN_MS = 10_000
_PERIOD_MAX_MS = 60_000
# After a failure sooner than after a success: a name server that comes back learns of us at once.
_RETRY_MS = 1_000
# How long a stop waits for name servers to take note.
_UNREGISTER_TIMEOUT_S = 0.3
# A body with more topics is made beside the loop.
_NAMES_AT_ONCE = 64
# How long a change of a topic waits for them: they take it up with the next period otherwise.
_ANNOUNCE_TIMEOUT_S = 2.0


def identity(state: BrokerState) -> dict[str, str]:
    """Returns the header fields that name this broker."""
    settings = state.settings
    return {
        "brokerName": settings.name,
        "brokerAddr": state.address,
        "clusterName": settings.cluster,
        "brokerId": str(state.role.broker_id),
    }


def register_header(state: BrokerState) -> dict[str, str]:
    """Returns the header fields of a registration."""
    settings = state.settings
    # Port 0 where nothing listens: a slave must not be sent to whoever has the next port.
    ha_address = f"{settings.replication_host}:{state.replicas.port}"
    acting = {}
    if settings.has_acting_master:
        acting = {
            "enableActingMaster": "true",
            "heartbeatTimeoutMillis": str(settings.not_active_timeout_ms),
        }
    return (
        identity(state)
        | acting
        | {
            "haServerAddr": ha_address,
            "compressed": "false",
            # 0 means unchecked: the connection has its own checksum.
            "bodyCrc32": "0",
        }
    )


def register_body(state: BrokerState, names: Iterable[str] | None = None) -> bytes:
    """Returns the body of a registration, which 4.9 and 5.x name servers read.

    Args:
        state: The broker.
        names: Topics that changed; None for all.
    """
    table = state.topics.topics
    wanted = table if names is None else [name for name in names if name in table]
    topics = {name: table[name] for name in wanted}
    version, perm = state.topics.version, state.settings.permission
    return body_of(topics, version, perm, static_of(state, topics))


def static_of(state: BrokerState, names: Iterable[str]) -> dict[str, StaticQueues]:
    """Returns what the broker leads of those topics that are static."""
    static = state.static_topics.topics
    return {name: static[name].registered() for name in static.keys() & set(names)}


def body_of(
    topics: Mapping[str, TopicConfig],
    version: DataVersion,
    perm: int,
    static: Mapping[str, StaticQueues] = MappingProxyType({}),
) -> bytes:
    """Returns the body of a registration from its content.

    Args:
        topics: The topics.
        version: Version of the whole table.
        perm: The broker's permission.
        static: What it leads of those that are static.
    """
    return compact_in_parts(
        {
            "filterServerList": [],
            "topicConfigSerializeWrapper": {
                "dataVersion": version.to_json(),
                "mappingDataVersion": version.to_json(),
                "topicConfigTable": {
                    name: masked(topic, perm).to_json() for name, topic in topics.items()
                },
                "topicQueueMappingDetailMap": {},
                "topicQueueMappingInfoMap": {
                    name: queues.to_json() for name, queues in static.items()
                },
            },
        },
        depth=3,
    )


def ordered_topics(body: bytes) -> tuple[str, ...]:
    """Returns the topics in the answer to a registration: those with an order configuration.

    A name server sends them with `returnOrderTopicConfigToBroker` alone.

    Raises:
        BadJsonError: It cannot be read.
    """
    if not body.strip():
        return ()
    return tuple(as_dict(parse_object(body).get("table")))


class Registrar(LinkEvents):
    """The registrations of one broker."""

    def __init__(self, state: BrokerState, persistence: ConfigPersistence) -> None:
        """Prepares; `start` begins."""
        self._state = state
        self._persistence = persistence
        self._client = Client(
            tls=state.outgoing_tls,
            credentials=state.credentials,
            version=state.version,
            events=[self],
        )
        self._known: set[str] = set()
        # Who else has our name and id, by name server.
        self._rivals: dict[str, str] = {}
        self._news = asyncio.Event()
        self._body_key: tuple[DataVersion, int] | None = None
        self._body = b""
        self._tasks = PeriodicTasks()
        # One task per name server.
        self._renewals: dict[str, PeriodicTask] = {}
        self._lookup = NameServerLookup(state, self._follow)
        self._is_started = False
        self._has_ended = False
        self._stays = False

    @property
    def registered(self) -> frozenset[str]:
        """The name servers that took the last registration."""
        return frozenset(self._known)

    def closed(self, link: Link) -> None:
        """Registers again at once: a name server that was restarted knows nothing of us."""
        _log.debug("the connection to %s ended", link.peer)
        for renewal in self._renewals.values():
            renewal.wake()

    async def until_registered(self, address: str, *, timeout_s: float) -> bool:
        """Waits until a name server knows the broker; returns whether it does."""
        try:
            async with asyncio.timeout(timeout_s):
                while address not in self._known:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    def start(self) -> None:
        """Begins to register with every name server, and with those that are looked up."""
        self._is_started = True
        if not looks_up(self._state.settings):
            for address in self._state.name_servers:
                self._begin(address)
        self._lookup.start()

    def renew(self) -> None:
        """Registers with every name server at once; begins to, where it has not yet."""
        if self._has_ended:
            return
        if not self._is_started:
            self.start()
            return
        for renewal in self._renewals.values():
            renewal.wake()

    def _begin(self, address: str) -> None:
        self._renewals[address] = self._tasks.every(
            f"register {address}",
            partial(self._register, address, None),
            period_s=self._period_s,
            first_s=0.0,
            retry_s=_RETRY_MS / _MS_PER_S,
            report=partial(self._report, address),
        )

    async def _follow(self) -> None:
        """Begins with name servers that came, and leaves those that went."""
        wanted = self._state.name_servers
        for address in [each for each in self._renewals if each not in wanted]:
            await self._renewals.pop(address).stop()
            if address in self._known:
                self._known.discard(address)
                await self._unregister(address)
        for address in wanted:
            if address not in self._renewals:
                self._begin(address)

    async def announce(self, names: tuple[str, ...] | None) -> None:
        """Sends changed topics to the name servers at once; waits for them, within a bound.

        Args:
            names: The topics; None for all.
        """
        # Those that do not know us are tried again every second and then sent everything.
        await asyncio.gather(*(self._announce_to(address, names) for address in list(self._known)))

    def stay(self) -> None:
        """Leaves its entries in name servers at the stop: it is soon back in another role."""
        self._stays = True

    async def stop(self) -> None:
        """Takes the broker out of every name server that is there."""
        self._has_ended = True
        await self._lookup.stop()
        await self._tasks.stop()
        if not self._stays:
            await asyncio.gather(*(self._unregister(address) for address in self._known))
        # What is announced meanwhile has nobody to go to, and that is no news.
        self._known.clear()
        await self._client.close()

    async def abandon(self) -> None:
        """Ends without a word to any name server."""
        self._has_ended = True
        await self._lookup.stop()
        await self._tasks.stop()
        await self._client.close()

    def _period_s(self) -> float:
        settings, replicas = self._state.settings, self._state.replicas
        is_known = replicas.master_address and replicas.master_ha_address
        if self._state.role.is_slave and not is_known:
            # The answer to a registration is where the master is named.
            return _RETRY_MS / _MS_PER_S
        period_ms = settings.register_interval_ms
        return min(max(period_ms, _PERIOD_MIN_MS), _PERIOD_MAX_MS) / _MS_PER_S

    async def _announce_to(self, address: str, names: tuple[str, ...] | None) -> None:
        """Registers once; where that fails, everything is registered again soon."""
        try:
            await self._register(address, names)
        except MQError as error:
            self._report(address, error, 0, is_whole=names is None)
            self._renewals[address].wake()

    def _report(
        self, address: str, error: Exception, _failures: int, *, is_whole: bool = True
    ) -> None:
        """Notes that a name server does not know us: a warning if it did until now."""
        was_known = address in self._known
        self._known.discard(address)
        if not isinstance(error, MQError):
            log_error(f"register {address}", error)
        elif was_known or is_whole:
            level = logging.WARNING if was_known else logging.DEBUG
            _log.log(level, "not registered with name server %s: %s", address, error.message)

    async def _register(self, address: str, names: tuple[str, ...] | None) -> None:
        """Registers once; a name server that does not know us gets everything.

        Raises:
            MQError: It did not take the registration, or another broker has our name and id.
        """
        state = self._state
        if names is None:
            await self._look_for_rival(address)
        body = await self._whole() if names is None else await self._part(names)
        timeout_s = state.settings.register_timeout_ms / _MS_PER_S
        if names is not None:
            timeout_s = min(timeout_s, _ANNOUNCE_TIMEOUT_S)
        answer = await self._client.call(
            address, RequestCode.REGISTER_BROKER, register_header(state), body, timeout_s=timeout_s
        )
        ordered = ordered_topics(expect(answer, address).body)
        if state.role.is_slave:
            ext = answer.ext
            names = ext.get("masterAddr", ""), ext.get("haServerAddr", "")
            if state.role.is_controlled:
                state.replicas.learn_of_elected(*names)
            else:
                state.replicas.learn(*names)
        if address not in self._known:
            _log.info("registered with name server %s as %s", address, state.address)
        self._known.add(address)
        self._news.set()
        await self._promise_order(ordered)

    async def _look_for_rival(self, address: str) -> None:
        """Returns when nobody else has our name and id, or we had them first.

        Raises:
            RefusedError: Somebody has; what is registered stays as it is.
        """
        rival = await rival_of(self._client, self._state, address)
        if rival and rival != self._rivals.get(address):
            _log.error("%s", rival_text(self._state, rival))
        self._rivals[address] = rival
        if rival and address not in self._known:
            text = rival_text(self._state, rival)
            raise RefusedError(text, code=ResponseCode.SYSTEM_ERROR)

    async def _promise_order(self, names: Iterable[str]) -> None:
        """Marks the topics that the name server lists as ordered."""
        changed = self._state.topics.promise_order(names, self._state.now_ms())
        if not changed:
            return
        try:
            await self._persistence.topics_changed(changed)
        except MQError as error:
            _log.error("ordered topics %s cannot be written: %s", changed, error.message)

    async def _part(self, names: tuple[str, ...]) -> bytes:
        """Returns the body that names some topics."""
        state = self._state
        if len(names) <= _NAMES_AT_ONCE:
            return register_body(state, names)
        table = state.topics.topics
        topics = {name: table[name] for name in names if name in table}
        return await asyncio.to_thread(
            body_of,
            topics,
            state.topics.version,
            state.settings.permission,
            static_of(state, topics),
        )

    async def _whole(self) -> bytes:
        """Returns the body that names every topic; made again only when there is a change."""
        state = self._state
        key = (state.topics.version, state.settings.permission)
        if key != self._body_key:
            topics = dict(state.topics.topics)
            static = static_of(state, topics)
            made = await asyncio.to_thread(body_of, topics, *key, static)
            self._body_key, self._body = key, made
        return self._body

    async def _unregister(self, address: str) -> None:
        try:
            await self._client.call(
                address,
                RequestCode.UNREGISTER_BROKER,
                identity(self._state),
                timeout_s=_UNREGISTER_TIMEOUT_S,
            )
        except MQError as error:
            _log.warning("not unregistered from name server %s: %s", address, error.message)
