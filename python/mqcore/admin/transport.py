"""How an administrator's requests reach name servers and brokers.

They have deadlines, and the answers' codes are checked; the connections sign them. Knows no request
code. Name servers are asked one after the other until one answers, or all of them where each has to
know; brokers one by one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from mqcore.admin.arguments import of_queue, of_type, topic_text
from mqcore.admin.results import ClusterInfo
from mqcore.client.name_servers import NameServers, addresses_of
from mqcore.client.routes import TopicRoute
from mqcore.errors import ClosedError, MQError, NoRouteError
from mqcore.model.queues import MessageQueue
from mqcore.model.relaxed_json import parse_object
from mqcore.native import Command
from mqcore.remoting import Client, RequestCode, ResponseCode, expect

_Result = TypeVar("_Result")

# mqadmin waits 5 s for most of its questions.
TIMEOUT_S = 5.0


class Transport:
    """Connections to the servers of one cluster.

    Attributes:
        timeout_s: The deadline of a question.
    """

    def __init__(
        self,
        remote: Client,
        namesrv: str | Iterable[str] | None,
        timeout_s: float,
    ) -> None:
        """Takes what it works with.

        Args:
            remote: The connections; it signs for whoever it was made for.
            namesrv: Name servers.
            timeout_s: The deadline of a question.

        Raises:
            AddressError: A name server's address is none.
        """
        names = namesrv if namesrv is None or isinstance(namesrv, str) else list(namesrv)
        self._remote = remote
        self._name_servers = NameServers(remote, addresses_of(names), is_reporting=False)
        self.timeout_s = timeout_s
        self._is_closed = False

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses of the name servers."""
        return tuple(self._name_servers.addresses)

    async def close(self) -> None:
        """Closes the connections. Again: does nothing."""
        self._is_closed = True
        await self._remote.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the administrator was closed: make another one")

    async def ask(
        self,
        address: str,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        fine: tuple[int, ...] = (),
        timeout_s: float | None = None,
    ) -> Command:
        """Asks one server; returns an answer whose code is success, or one of `fine`.

        Raises:
            ResponseError: It refused.
            RemotingError: It did not answer.
            ClosedError: The administrator was closed.
            UsageError: The address is no text.
        """
        self._check_open()
        of_type("address", address, str)
        answer = await self._remote.call(
            address, code, ext, body, timeout_s=timeout_s or self.timeout_s
        )
        return expect(answer, address, *fine)

    async def look_up(
        self, code: int, ext: Mapping[str, str] | None = None, *, fine: tuple[int, ...] = ()
    ) -> Command:
        """Asks the name servers until one answers.

        Raises:
            NameServerError: None answered.
            ResponseError: One refused.
            ClosedError: The administrator was closed.
        """
        self._check_open()
        answer = await self._name_servers.call(code, ext, timeout_s=self.timeout_s)
        return expect(answer, ";".join(self._name_servers.addresses), *fine)

    async def notify_name_servers(self, code: int, ext: Mapping[str, str]) -> None:
        """Sends a request to every name server.

        Raises:
            MQError: One did not take it; it was sent to the others all the same.
        """
        await all_of(self._name_servers.addresses, lambda address: self.ask(address, code, ext))

    async def cluster(self) -> ClusterInfo:
        """Returns the brokers that name servers know."""
        answer = await self.look_up(RequestCode.GET_BROKER_CLUSTER_INFO)
        return ClusterInfo.of_json(parse_object(answer.body))

    async def masters(self, cluster: str | None = None) -> dict[str, str]:
        """Returns the masters' addresses by broker name; of one cluster, or of all.

        Raises:
            MQError: There is none.
        """
        info = await self.cluster()
        found = info.masters(cluster)
        if not found:
            known = ", ".join(info.clusters) or "none"
            where = f"cluster {cluster}" if cluster is not None else "any cluster"
            servers = ";".join(self._name_servers.addresses)
            raise MQError(
                f"no broker of {where} is registered at name servers {servers} "
                f"(clusters known: {known}): start one, or check its namesrvAddr"
            )
        return found

    async def route(self, topic: str) -> TopicRoute:
        """Returns where a topic is.

        Raises:
            NoRouteError: No name server knows it.
            UsageError: It is no text, or blank.
        """
        topic_text(topic)
        answer = await self.look_up(
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            {"topic": topic, "acceptStandardJsonOnly": "true"},
            fine=(ResponseCode.TOPIC_NOT_EXIST,),
        )
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            servers = self._name_servers.addresses
            raise NoRouteError(
                f"topic {topic} is not known at name servers {';'.join(servers)}: check the name "
                f"with `mqcore topic list`, or create it with `mqcore topic create {topic}`",
                topic=topic,
                name_servers=servers,
                brokers={},
            )
        return TopicRoute.of_body(topic, answer.body)

    async def addresses_of_topic(self, topic: str) -> dict[str, str]:
        """Returns one address per broker name that has a topic: the master's, where there is one.

        Raises:
            NoRouteError: No name server knows it.
        """
        return _addresses(await self.route(topic))

    async def address_of(self, queue: MessageQueue) -> str:
        """Returns the address of the broker that has a queue.

        Raises:
            NoRouteError: No name server knows the topic.
            MQError: The topic has no such broker.
            UsageError: It is no queue.
        """
        of_queue(queue)
        route = await self.route(queue.topic)
        brokers = _addresses(route)
        name = route.broker_of(queue)
        if name not in brokers:
            raise MQError(
                f"topic {queue.topic} is not on broker {queue.broker_name}: it is on "
                f"{', '.join(brokers) or 'none'}"
            )
        return brokers[name]


def _addresses(route: TopicRoute) -> dict[str, str]:
    found = {broker.name: broker.any_of(0) for broker in route.brokers}
    return {name: address for name, address in found.items() if address}


async def all_of(
    addresses: Iterable[str], ask: Callable[[str], Awaitable[_Result]]
) -> list[_Result]:
    """Asks several servers at once; returns their answers in the order of the addresses.

    Raises:
        MQError: The first failure, when all have answered or failed.
    """
    found = await asyncio.gather(*(ask(each) for each in addresses), return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return [each for each in found if not isinstance(each, BaseException)]
