"""The routes that a client knows, and how it comes to know them.

Asks name servers, one question per topic at a time; who asks meanwhile waits for the same answer.
Notifies listeners of routes that differ from what was known. Knows no producer and no consumer.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from mqcore.client.name_servers import NameServers
from mqcore.client.routes import MASTER_ID, BrokerAddresses, TopicRoute
from mqcore.errors import BadJsonError, MQError, NameServerError, NoRouteError, ResponseError
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_text
from mqcore.model.relaxed_json import parse_object
from mqcore.model.static_topics import LOGICAL_PREFIX, NOBODY
from mqcore.model.topics import AUTO_CREATE_TOPIC
from mqcore.remoting.request_codes import RequestCode
from mqcore.remoting.response_codes import ResponseCode

__all__ = ["DEFAULT_QUEUES", "RouteTable"]

_log = logging.getLogger(__name__)

# `defaultTopicQueueNums`: what a producer asks for where its topic is not there yet.
DEFAULT_QUEUES = 4
# Brokers named in an error; a large cluster would bury the sentence.
_NAMED_BROKERS_MAX = 8


class RouteTable:
    """Routes by topic, and brokers by name."""

    def __init__(
        self, name_servers: NameServers, *, call_timeout_s: float, default_queues: int
    ) -> None:
        """Begins empty.

        Args:
            name_servers: Who is asked.
            call_timeout_s: The deadline of a question.
            default_queues: Queues that a producer asks for of a topic that is not there.
        """
        self._name_servers = name_servers
        self._call_timeout_s = call_timeout_s
        self._default_queues = default_queues
        self._routes: dict[str, TopicRoute] = {}
        self._brokers: dict[str, BrokerAddresses] = {}
        self._masters: dict[str, str] = {}
        self._asking: dict[str, asyncio.Task[TopicRoute | None]] = {}
        # Routes that are only a template's: no broker has the topic yet.
        self._templates: set[str] = set()
        self._listeners: list[Callable[[str, TopicRoute], None]] = []

    def listen(self, listener: Callable[[str, TopicRoute], None]) -> None:
        """Adds a listener of routes that changed."""
        self._listeners.append(listener)

    @property
    def topics(self) -> set[str]:
        """The topics whose route is known."""
        return set(self._routes)

    def known(self, topic: str) -> TopicRoute | None:
        """Returns the route that was last heard of."""
        return self._routes.get(topic)

    def brokers(self) -> Iterable[BrokerAddresses]:
        """Returns the brokers of all known routes."""
        return list(self._brokers.values())

    def address_of(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """Returns a broker's address, None where no route has it."""
        if broker_id == MASTER_ID:
            # Every send asks for it.
            return self._masters.get(broker_name)
        broker = self._brokers.get(broker_name)
        if broker is None:
            return None
        return next((address for known, address in broker.by_id if known == broker_id), None)

    def broker_of(self, queue: MessageQueue) -> str:
        """Returns the name of the broker that a queue is at; of a static topic, of its leader."""
        if not queue.broker_name.startswith(LOGICAL_PREFIX):
            # Every send asks for it.
            return queue.broker_name
        route = self._routes.get(queue.topic)
        return NOBODY if route is None else route.broker_of(queue)

    def any_address_of(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """Returns the address of a broker id, or of another broker of that name."""
        broker = self._brokers.get(broker_name)
        return broker.any_of(broker_id) if broker is not None else None

    async def route(self, topic: str, *, has_template: bool = False) -> TopicRoute:
        """Returns the route of a topic; asks when it is not known.

        Raises:
            NoRouteError: No broker has it.
            NameServerError: No name server answered.
        """
        found = self._routes.get(topic)
        if found is not None and (has_template or topic not in self._templates):
            return found
        found = await self.refresh(topic)
        if found is None and has_template:
            found = await self._template(topic)
        if found is None:
            raise await self._no_route(topic)
        return found

    async def refresh(self, topic: str) -> TopicRoute | None:
        """Asks for a topic's route now; returns it, None where no broker has it.

        A topic that is gone keeps its known route: brokers answer for themselves, and a name
        server that was just started knows nothing yet.

        Raises:
            NameServerError: No name server answered.
        """
        task = self._asking.get(topic)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._ask(topic))
            self._asking[topic] = task
            task.add_done_callback(lambda done: self._answered(topic, done))
        return await asyncio.shield(task)

    def _answered(self, topic: str, task: asyncio.Task[TopicRoute | None]) -> None:
        del self._asking[topic]
        if not task.cancelled():
            # Who asked may have been cancelled meanwhile: then nobody is to hear of a failure.
            task.exception()

    async def _ask(self, topic: str) -> TopicRoute | None:
        route = await self._asked(topic)
        if route is not None:
            self._templates.discard(topic)
            self._put(topic, route)
        return route

    async def _template(self, topic: str) -> TopicRoute | None:
        """Returns what the route will be once a broker makes the topic."""
        found = await self._asked(AUTO_CREATE_TOPIC)
        if found is None:
            return None
        route = found.as_template(topic, self._default_queues)
        self._templates.add(topic)
        self._put(topic, route)
        return route

    async def _asked(self, topic: str) -> TopicRoute | None:
        # Without the second field, or a version of at least 401, the answer is Java's own dialect.
        ext = {"topic": topic, "acceptStandardJsonOnly": "true"}
        answer = await self._name_servers.call(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, ext, timeout_s=self._call_timeout_s
        )
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        where = ";".join(self._name_servers.addresses)
        if answer.code != 0:
            remark = answer.remark or ""
            raise ResponseError(
                f"a name server of {where} answered {answer.code} for topic {topic}: "
                f"{remark.strip()}",
                address=where,
                code=answer.code,
                remark=remark,
            )
        try:
            return TopicRoute.of_body(topic, answer.body)
        except BadJsonError as error:
            raise NameServerError(
                f"a name server of {where} sent a route of {topic} that cannot be read: {error}",
                address=where,
                causes={},
            ) from error

    def _put(self, topic: str, route: TopicRoute) -> None:
        if self._routes.get(topic) == route:
            return
        _log.debug("the route of %s: %s", topic, route)
        self._routes[topic] = route
        self._brokers = {
            broker.name: broker for known in self._routes.values() for broker in known.brokers
        } | {broker.name: broker for broker in route.brokers}
        self._masters = {
            name: master
            for name, broker in self._brokers.items()
            if (master := broker.master) is not None
        }
        for listener in self._listeners:
            listener(topic, route)

    async def _no_route(self, topic: str) -> NoRouteError:
        """Returns the error that names who was asked and who is there."""
        brokers = await self._known_brokers()
        named = ", ".join(f"{name} ({address})" for name, address in sorted(brokers.items()))
        if len(brokers) > _NAMED_BROKERS_MAX:
            named = f"{len(brokers)} of them"
        where = ", ".join(self._name_servers.addresses)
        is_made_by_sends = bool(brokers) and await self._is_made_by_sends()
        if is_made_by_sends:
            todo = f"the first send to it creates it, and so does `mqcore topic create {topic}`"
        elif brokers:
            todo = (
                f"create it with `mqcore topic create {topic}`, or set autoCreateTopicEnable=true "
                "on a broker"
            )
        else:
            todo = "start a broker that registers there, such as `mqcore broker run`"
        return NoRouteError(
            f"no route for topic {topic} at name servers {where}; brokers known: "
            f"{named or 'none'}; {todo}",
            address=where,
            topic=topic,
            name_servers=self._name_servers.addresses,
            brokers=brokers,
            is_made_by_sends=is_made_by_sends,
        )

    async def _is_made_by_sends(self) -> bool:
        try:
            return await self._asked(AUTO_CREATE_TOPIC) is not None
        except MQError:
            return False

    async def _known_brokers(self) -> dict[str, str]:
        try:
            answer = await self._name_servers.call(
                RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=self._call_timeout_s
            )
            table = as_dict(parse_object(answer.body).get("brokerAddrTable"))
        except MQError as error:
            _log.info("the brokers of the cluster are not known: %s", error.message)
            return {}
        return {
            name: ", ".join(map(as_text, as_dict(as_dict(data).get("brokerAddrs")).values()))
            for name, data in table.items()
        }
