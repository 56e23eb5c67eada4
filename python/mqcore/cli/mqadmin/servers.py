"""The way to name servers, brokers and controllers, with what mqadmin asks before it asks.

Addresses of clusters, routes of topics, tables as JSON. Knows no command and prints nothing.
"""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from mqcore.admin.messages import Messages
from mqcore.admin.results import ClusterInfo
from mqcore.admin.transport import Transport
from mqcore.cli.cluster import Cluster
from mqcore.client.instance import tls_context
from mqcore.client.name_servers import addresses_of
from mqcore.errors import MQError, NoRouteError
from mqcore.model.reading import as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import parse, parse_object
from mqcore.native import Command
from mqcore.remoting import Client, RequestCode, ResponseCode

__all__ = ["Servers"]

_MASTER: Final = 0
_MS_PER_S: Final = 1_000


class Servers:
    """Connections to the servers of one cluster; belongs to one event loop.

    Attributes:
        name_servers: The addresses of the name servers.
        messages: The way to messages, by id, key and place.
    """

    def __init__(self, cluster: Cluster) -> None:
        """Prepares; nothing is connected yet.

        Raises:
            AddressError: A name server's address is none.
        """
        self.name_servers = addresses_of(cluster.namesrv)
        remote = Client(tls=tls_context(cluster.tls), credentials=cluster.credentials)
        self._transport = Transport(remote, cluster.namesrv, cluster.timeout_s)
        self.messages = Messages(self._transport)

    async def __aenter__(self) -> Self:
        """Returns itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the connections."""
        await self._transport.close()

    async def ask(
        self,
        address: str,
        code: int,
        ext: Mapping[str, object] | None = None,
        body: bytes = b"",
        *,
        fine: tuple[int, ...] = (),
        timeout_ms: int | None = None,
    ) -> Command:
        """Asks one server; returns an answer whose code is success, or one of `fine`.

        Raises:
            ResponseError: It refused.
            RemotingError: It did not answer.
        """
        timeout_s = None if timeout_ms is None else timeout_ms / _MS_PER_S
        texts = {name: _text(value) for name, value in (ext or {}).items()}
        return await self._transport.ask(address, code, texts, body, fine=fine, timeout_s=timeout_s)

    async def json(
        self,
        address: str,
        code: int,
        ext: Mapping[str, object] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[str, Any]:
        """Asks one server; returns the object in the answer's body, empty for none.

        Raises:
            ResponseError: It refused.
            RemotingError: It did not answer.
        """
        body = (await self.ask(address, code, ext, timeout_ms=timeout_ms)).body
        return parse_object(body) if body else {}

    async def listed(
        self, address: str, code: int, ext: Mapping[str, object] | None = None
    ) -> list[dict[str, Any]]:
        """Asks one server; returns the objects of the list in the answer's body, none for none.

        Raises:
            ResponseError: It refused.
            RemotingError: It did not answer.
        """
        body = (await self.ask(address, code, ext)).body
        return [as_dict(each) for each in as_list(parse(body))] if body else []

    async def look_up(
        self, code: int, ext: Mapping[str, object] | None = None, *, fine: tuple[int, ...] = ()
    ) -> Command:
        """Asks the name servers until one answers.

        Raises:
            NameServerError: None answered.
            ResponseError: One refused.
        """
        texts = {name: _text(value) for name, value in (ext or {}).items()}
        return await self._transport.look_up(code, texts, fine=fine)

    async def ask_name_servers(
        self, code: int, ext: Mapping[str, object], body: bytes = b""
    ) -> None:
        """Asks every name server.

        Raises:
            MQError: One refused, or did not answer; those before it took it.
        """
        for address in self.name_servers:
            await self.ask(address, code, ext, body)

    async def cluster(self) -> ClusterInfo:
        """Returns the brokers that name servers know (106)."""
        return await self._transport.cluster()

    async def names_of(self, cluster: str) -> list[str]:
        """Returns the broker names of a cluster, in order.

        Raises:
            MQError: Name servers know no such cluster.
        """
        return _names_of(await self.cluster(), cluster)

    async def masters(self, cluster: str) -> list[str]:
        """Returns the addresses of a cluster's masters (`fetchMasterAddrByClusterName`).

        Raises:
            MQError: Name servers know no such cluster.
        """
        info = await self.cluster()
        found = (info.brokers.get(name, {}).get(_MASTER) for name in _names_of(info, cluster))
        return [address for address in found if address]

    async def all_of(self, cluster: str) -> list[str]:
        """Returns the addresses of a cluster's masters and slaves.

        Raises:
            MQError: Name servers know no such cluster.
        """
        info = await self.cluster()
        return [
            address
            for name in _names_of(info, cluster)
            for address in info.brokers.get(name, {}).values()
        ]

    async def groups_of(self, cluster: str) -> list[tuple[str | None, list[str]]]:
        """Returns each master with its slaves, None for a name without master.

        Raises:
            MQError: Name servers know no such cluster.
        """
        info = await self.cluster()
        groups = []
        for name in _names_of(info, cluster):
            addresses = info.brokers.get(name, {})
            slaves = [address for each, address in addresses.items() if each != _MASTER]
            groups.append((addresses.get(_MASTER), slaves))
        return groups

    async def of_name(self, broker_name: str) -> list[str]:
        """Returns the addresses of the brokers of a name; none for one that is not there."""
        return list((await self.cluster()).brokers.get(broker_name, {}).values())

    async def name_of(self, address: str) -> str:
        """Returns the broker name of an address.

        Raises:
            MQError: Name servers know no such broker.
        """
        for name, addresses in (await self.cluster()).brokers.items():
            if address in addresses.values():
                return name
        raise MQError(f"no broker at {address} is registered at {';'.join(self.name_servers)}")

    async def route(self, topic: str) -> dict[str, Any]:
        """Returns the route of a topic as name servers give it (105).

        Raises:
            NoRouteError: No name server knows it.
        """
        answer = await self.look_up(
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            {"topic": topic, "acceptStandardJsonOnly": True},
            fine=(ResponseCode.TOPIC_NOT_EXIST,),
        )
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            # For the error that names what to do.
            await self._transport.route(topic)
        return parse_object(answer.body)

    async def brokers_of(self, topic: str) -> dict[str, str]:
        """Returns an address per broker name of a topic: the master's, where there is one.

        Raises:
            NoRouteError: No name server knows it.
        """
        return await self._transport.addresses_of_topic(topic)

    async def address_of(self, topic: str, broker_name: str) -> str:
        """Returns the address of a broker name that has a topic.

        Raises:
            NoRouteError: No name server knows the topic.
            MQError: The topic is not on such a broker.
        """
        brokers = await self.brokers_of(topic)
        if broker_name not in brokers:
            raise MQError(
                f"topic {topic} is not on broker {broker_name}: it is on {', '.join(brokers)}"
            )
        return brokers[broker_name]

    async def topics(self) -> list[str]:
        """Returns all topics that a name server knows (206), in its order."""
        answer = await self.look_up(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return [as_text(each) for each in as_list(parse_object(answer.body).get("topicList"))]

    async def any_route(self, topics: Iterable[str]) -> dict[str, str]:
        """Returns the brokers of the first of some topics that is known.

        Raises:
            NoRouteError: None is.
        """
        last: NoRouteError | None = None
        for topic in topics:
            try:
                return await self.brokers_of(topic)
            except NoRouteError as error:
                last = error
        assert last is not None
        raise last


def _names_of(info: ClusterInfo, cluster: str) -> list[str]:
    if cluster not in info.clusters:
        known = ", ".join(info.clusters) or "none"
        raise MQError(f"name servers know no cluster {cluster}; clusters known: {known}")
    return list(info.clusters[cluster])


def broker_ids(data: object) -> dict[int, str]:
    """Returns addresses by broker id, of a `BrokerData`."""
    rows = as_dict(as_dict(data).get("brokerAddrs")).items()
    return dict(sorted((as_int(key, -1), as_text(address)) for key, address in rows))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
