"""What name servers, brokers and controllers of a cluster report of themselves, as values.

Asks and parses; judges nothing. Who does not answer is a fact, too. Changes nothing: the port for
slaves is connected to and left without a byte.
"""

import asyncio
import contextlib
import re
import ssl
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from mqcore.admin.brokers import Brokers
from mqcore.admin.transport import Transport
from mqcore.errors import MQError
from mqcore.model.reading import as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import RequestCode, ResponseCode
from mqcore.remoting.certificates import end_of

__all__ = [
    "BrokerFacts",
    "ClusterFacts",
    "ControllerFacts",
    "ReplicaFacts",
    "clock_of",
    "gathered",
    "separated",
]

_Result = TypeVar("_Result")

_MASTER = 0
# Brokers that are asked at once.
_AT_ONCE_MAX: Final = 16
_PORT_TIMEOUT_S: Final = 1.0
_ELAPSED = re.compile(r"(\d+) days?, (\d+) hours?, (\d+) minutes?, (\d+) seconds?")
_S_PER_DAY, _S_PER_HOUR, _S_PER_MINUTE = 86_400, 3_600, 60
_MS_PER_S: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """One broker.

    Attributes:
        cluster: Its cluster, as name servers have it.
        name: Its name.
        broker_id: Its id in routes: 0 is the master.
        address: Where it answers.
        failure: Why it did not answer; empty where it did.
        config: Its settings (26).
        runtime: Its figures (28).
        replication: How far its slaves are, or how it follows (907); None of one of 4.9.
        topics_version: The version of its table of topics (21), in one text.
        is_port_open: Whether its port for slaves takes a connection from here.
        skew_ms: How far its clock is ahead of ours at least, negative where it is behind; None
            where it does not show its time.
        certificate_end_s: When the certificate ends that it shows, Unix seconds; None without one.
    """

    cluster: str
    name: str
    broker_id: int
    address: str
    failure: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    runtime: Mapping[str, str] = field(default_factory=dict)
    replication: Mapping[str, Any] | None = None
    topics_version: str = ""
    is_port_open: bool = False
    skew_ms: int | None = None
    certificate_end_s: int | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it is a broker of mqcore."""
        return "haStrangers" in self.config or "mqcoreReactors" in self.config

    @property
    def version(self) -> str:
        """What it reports, such as `V5_3_3`."""
        return self.runtime.get("brokerVersionDesc", "")

    @property
    def role(self) -> str:
        """Its `brokerRole`."""
        return self.config.get("brokerRole", "")

    @property
    def is_master(self) -> bool:
        """Whether it has the id of a master."""
        return self.broker_id == _MASTER

    @property
    def end(self) -> int | None:
        """Where its log ends; None where it does not report it."""
        text = self.runtime.get("commitLogMaxOffset", "")
        return int(text) if text.isdigit() else None

    def has(self, key: str) -> bool:
        """Returns whether a setting is `true`."""
        return self.config.get(key, "").lower() == "true"

    def number(self, key: str, default: int) -> int:
        """Returns a setting that is a number."""
        return as_int(self.config.get(key), default)


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """A replica as a controller knows it.

    Attributes:
        broker_id: Its id there.
        address: Where it is.
        is_alive: Whether it reports to the controller.
        is_in_sync: Whether it is in the sync-state set.
    """

    broker_id: int
    address: str
    is_alive: bool
    is_in_sync: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerFacts:
    """One controller.

    Attributes:
        address: Where it answers.
        failure: Why it did not answer.
        leader: Who leads, as it knows; empty for nobody.
        group: The name of its group.
        config: Its settings (1010).
        replicas: The replicas by broker name (1006); of the leader alone.
        masters: The id of the master by broker name.
    """

    address: str
    failure: str = ""
    leader: str = ""
    group: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[str, tuple[ReplicaFacts, ...]] = field(default_factory=dict)
    masters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """Everything.

    Attributes:
        holders: By name server, the address by broker name and id; None for one that does not
            answer.
        brokers: The brokers.
        controllers: The controllers that brokers name.
    """

    holders: Mapping[str, Mapping[tuple[str, int], str] | None]
    brokers: tuple[BrokerFacts, ...]
    controllers: tuple[ControllerFacts, ...] = ()


async def gathered(ways: Transport, name_servers: tuple[str, ...]) -> ClusterFacts:
    """Asks everybody.

    Args:
        ways: How they are asked.
        name_servers: The name servers.

    Raises:
        MQError: No name server answers.
    """
    tables = await asyncio.gather(*(_table_of(ways, each) for each in name_servers))
    if all(table is None for table in tables):
        # Its error names them, and why.
        await ways.cluster()
    clusters: dict[tuple[str, int, str], str] = {}
    holders: dict[str, Mapping[tuple[str, int], str] | None] = {}
    for server, table in zip(name_servers, tables, strict=True):
        holders[server] = None if table is None else {key: at for key, (at, _) in table.items()}
        for (name, broker_id), (address, cluster) in (table or {}).items():
            clusters[name, broker_id, address] = cluster
    gate = asyncio.Semaphore(_AT_ONCE_MAX)

    async def one(who: tuple[str, int, str], cluster: str) -> BrokerFacts:
        async with gate:
            return await _broker_facts(ways, cluster, *who)

    asked = (one(who, cluster) for who, cluster in sorted(clusters.items()))
    brokers = tuple(await asyncio.gather(*asked))
    named = {
        address
        for broker in brokers
        if broker.has("enableControllerMode")
        for address in separated(broker.config.get("controllerAddr", ""))
    }
    names = sorted({broker.name for broker in brokers})
    controllers = await asyncio.gather(
        *(_controller_facts(ways, address, names) for address in sorted(named))
    )
    return ClusterFacts(holders=holders, brokers=brokers, controllers=tuple(controllers))


def separated(text: str) -> list[str]:
    """Returns the addresses in a text, which are joined by `;`."""
    return [part.strip() for part in text.split(";") if part.strip()]


def clock_of(runtime: Mapping[str, str]) -> int | None:
    """Returns the wall clock of a broker by its figures, Unix ms; late by up to a second.

    It shows when it started, and for how long it has run.
    """
    began, elapsed = runtime.get("bootTimestamp", ""), _ELAPSED.search(runtime.get("runtime", ""))
    if not began.isdigit() or elapsed is None:
        return None
    days, hours, minutes, seconds = map(int, elapsed.groups())
    passed_s = days * _S_PER_DAY + hours * _S_PER_HOUR + minutes * _S_PER_MINUTE + seconds
    return int(began) + passed_s * _MS_PER_S


async def _table_of(ways: Transport, server: str) -> dict[tuple[str, int], tuple[str, str]] | None:
    """Returns what one name server knows: address and cluster, by broker name and id."""
    try:
        answer = await ways.ask(server, RequestCode.GET_BROKER_CLUSTER_INFO)
        found = parse_object(answer.body)
    except MQError:
        return None
    cluster_by_name = {
        as_text(name): cluster
        for cluster, names in as_dict(found.get("clusterAddrTable")).items()
        for name in as_list(names)
    }
    return {
        (name, as_int(broker_id, -1)): (as_text(address), cluster_by_name.get(name, ""))
        for name, group in as_dict(found.get("brokerAddrTable")).items()
        for broker_id, address in as_dict(as_dict(group).get("brokerAddrs")).items()
    }


async def _broker_facts(
    ways: Transport, cluster: str, name: str, broker_id: int, address: str
) -> BrokerFacts:
    brokers = Brokers(ways)
    try:
        config = await brokers.config(address)
        began_ms = time.time() * _MS_PER_S
        runtime = await brokers.runtime(address)
        ended_ms = time.time() * _MS_PER_S
    except MQError as error:
        return BrokerFacts(
            cluster=cluster, name=name, broker_id=broker_id, address=address, failure=error.message
        )
    replication = await _unless_it_fails(ways.ask(address, RequestCode.GET_BROKER_HA_STATUS))
    topics = await _unless_it_fails(ways.ask(address, RequestCode.GET_ALL_TOPIC_CONFIG))
    version = as_dict(_object(topics).get("dataVersion"))
    return BrokerFacts(
        cluster=cluster,
        name=name,
        broker_id=broker_id,
        address=address,
        config=config,
        runtime=runtime,
        replication=None if replication is None else _object(replication),
        topics_version=" ".join(
            str(as_int(version.get(each))) for each in ("stateVersion", "timestamp", "counter")
        ),
        is_port_open=await _takes_connections(ha_address(address, config)),
        skew_ms=_skew_ms(clock_of(runtime), began_ms, ended_ms),
        certificate_end_s=await _certificate_end_s(address, config),
    )


def ha_address(address: str, config: Mapping[str, str]) -> str:
    """Returns where a broker ships its log, by its settings."""
    host, _, own_port = address.rpartition(":")
    port = as_int(config.get("haListenPort")) or as_int(own_port) + 1
    return f"{config.get('brokerIP2') or host}:{port}"


def _skew_ms(clock_ms: int | None, began_ms: float, ended_ms: float) -> int | None:
    """Returns how far a clock is ahead at least; 0 where it may be right."""
    if clock_ms is None:
        return None
    # It was read between two moments, and is shown without its last second.
    ahead, behind = clock_ms - ended_ms, clock_ms + _MS_PER_S - began_ms
    return int(ahead) if ahead > 0 else int(behind) if behind < 0 else 0


async def _controller_facts(ways: Transport, address: str, names: list[str]) -> ControllerFacts:
    try:
        answer = await ways.ask(address, RequestCode.CONTROLLER_GET_METADATA_INFO)
    except MQError as error:
        return ControllerFacts(address=address, failure=error.message)
    leader = answer.ext.get("controllerLeaderAddress", "")
    config = await _unless_it_fails(ways.ask(address, RequestCode.GET_CONTROLLER_CONFIG))
    lines = "" if config is None else config.body.decode("utf-8", "replace")
    pairs = (line.partition("=") for line in lines.splitlines() if not line.startswith("#"))
    replicas: dict[str, tuple[ReplicaFacts, ...]] = {}
    masters: dict[str, int] = {}
    code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
    for name in names if answer.ext.get("isLeader") == "true" else ():
        # One by one: an official controller fails for all where it does not know one.
        body = f'["{name}"]'.encode()
        sets = await _unless_it_fails(ways.ask(address, code, body=body))
        row = as_dict(as_dict(_object(sets).get("replicasInfoTable")).get(name))
        replicas[name] = (
            *_replicas(row.get("inSyncReplicas"), is_in_sync=True),
            *_replicas(row.get("notInSyncReplicas"), is_in_sync=False),
        )
        masters[name] = as_int(row.get("masterBrokerId"), -1)
    return ControllerFacts(
        address=address,
        leader=leader,
        group=answer.ext.get("group", ""),
        config={key: value for key, sign, value in pairs if sign},
        replicas=replicas,
        masters=masters,
    )


def _replicas(rows: Any, *, is_in_sync: bool) -> list[ReplicaFacts]:
    return [
        ReplicaFacts(
            as_int(as_dict(row).get("brokerId"), -1),
            as_text(as_dict(row).get("brokerAddress")),
            as_dict(row).get("alive") is True,
            is_in_sync,
        )
        for row in as_list(rows)
    ]


def _object(answer: Any) -> dict[str, Any]:
    """Returns the object in an answer; an empty one where there is none."""
    if answer is None or answer.code != ResponseCode.SUCCESS:
        return {}
    try:
        return parse_object(answer.body)
    except MQError:
        return {}


async def _unless_it_fails(asking: Awaitable[_Result]) -> _Result | None:
    try:
        return await asking
    except MQError:
        return None


async def _certificate_end_s(address: str, config: Mapping[str, str]) -> int | None:
    """Returns when the certificate ends that a broker shows to who speaks TLS.

    One of mqcore without a certificate is not asked: it would log the attempt.
    """
    is_ours = "haStrangers" in config or "mqcoreReactors" in config
    if is_ours and not config.get("tls.server.certPath"):
        return None
    context = ssl.create_default_context()
    # Only looked at: also one that has ended is to be seen.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError, TimeoutError, ValueError):
        async with asyncio.timeout(_PORT_TIMEOUT_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=context)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        await _closed(writer)
        return end_of(shown)
    return None


async def _takes_connections(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError, TimeoutError, ValueError):
        async with asyncio.timeout(_PORT_TIMEOUT_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        await _closed(writer)
        return True
    return False


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Closes a connection; one of TLS notifies the other end, whose answer may not come."""
    writer.close()
    try:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_PORT_TIMEOUT_S):
                await writer.wait_closed()
    finally:
        writer.transport.abort()
