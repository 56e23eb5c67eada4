"""What planning asks of name servers and brokers, by blocking sockets: few questions, many retries.

Spark's planner is a process of its own per query and runs no event loop. Connections live as long
as the process, one pool per way to a cluster. Knows no plan. After `MQAdminImpl`.
"""

import itertools
import logging
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mqcore.admin.results import TopicStats
from mqcore.client.blocking.sockets import BlockingLink, SocketPool
from mqcore.client.instance import tls_context
from mqcore.client.name_servers import addresses_of
from mqcore.client.routes import TopicRoute
from mqcore.clock import monotonic_ms
from mqcore.errors import (
    MQError,
    NameServerError,
    NoRouteError,
    RemotingError,
    ResponseError,
    UnsupportedError,
)
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_int, as_list, as_text
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.model.subscriptions import SubscriptionData
from mqcore.model.topics import AUTO_CREATE_TOPIC, PERM_READ_WRITE, RETRY_PREFIX
from mqcore.native import Command
from mqcore.remoting import RequestCode, ResponseCode, TlsFiles, expect
from mqcore.remoting.signing import Credentials, signed
from mqcore.spark.topic_source.options import ReadOptions

__all__ = ["Access", "Cluster", "QueueBounds", "cluster_of"]

_log = logging.getLogger(__name__)

# As clients of Python send it, and as the version that our servers and clients are by default.
_PYTHON: Final = 3
_VERSION: Final = 409
# A broker that moved is asked for anew as soon as it does not answer.
_ROUTE_MS: Final = 10_000
# Answers that another try may change.
_PASSING: Final = frozenset(
    {ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL, ResponseCode.SERVICE_NOT_AVAILABLE}
)


@dataclass(frozen=True, slots=True)
class Access:
    """How a cluster is reached; the key of its connections.

    Attributes:
        namesrv: Name servers.
        access_key: The account, None for none.
        secret_key: Its secret.
        security_token: The token of a temporary account.
        tls: Speak TLS.
        timeout_s: Deadline of a question.
        retries: Tries after the first one.
        backoff_s: Pause before each.
    """

    namesrv: str
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    tls: bool | TlsFiles = False
    timeout_s: float = 5.0
    retries: int = 5
    backoff_s: float = 0.2

    @classmethod
    def of(cls, options: ReadOptions) -> "Access":
        """Returns how the options define it."""
        return cls(
            options.namesrv,
            options.access_key,
            options.secret_key,
            options.security_token,
            options.tls,
            options.request_timeout_ms / 1000,
            options.retries,
            options.retry_backoff_ms / 1000,
        )


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """What a queue holds.

    Attributes:
        min: Offset of its oldest message.
        max: Offset behind its newest one.
        last_ms: When that was stored, Unix ms; 0 without one.
    """

    min: int
    max: int
    last_ms: int = 0


class Cluster:
    """The servers of one cluster, asked from any thread of one process."""

    def __init__(self, access: Access) -> None:
        """Prepares; connects nowhere yet.

        Raises:
            AddressError: A name server's address is none.
        """
        self.access = access
        self._name_servers = addresses_of(access.namesrv)
        self._tls = tls_context(access.tls)
        self._pool = SocketPool(tls=self._tls, connect_timeout_s=access.timeout_s)
        self._opaques = itertools.count(1)
        self._pause = threading.Event()
        # What name servers answered about topics, and when.
        self._routes: dict[str, tuple[int, TopicRoute | None]] = {}
        self._credentials: Credentials | None = None
        if access.access_key is not None and access.secret_key is not None:
            self._credentials = Credentials(
                access.access_key, access.secret_key, access.security_token
            )

    # Ways to ask.

    def request(self, code: int, ext: Mapping[str, str], body: bytes = b"") -> tuple[int, bytes]:
        """Returns the number and the frame of a request, signed where there are credentials."""
        fields = dict(ext)
        if self._credentials is not None:
            fields = signed(self._credentials, fields, body)
        opaque = next(self._opaques)
        command = Command(
            code, ext=fields, body=body or None, opaque=opaque, language=_PYTHON, version=_VERSION
        )
        return opaque, command.encode()

    def connect(self, address: str) -> BlockingLink:
        """Returns a new connection to a broker.

        Raises:
            ConnectError: It could not be made.
        """
        return BlockingLink(address, tls=self._tls, timeout_s=self.access.timeout_s)

    def pause(self) -> None:
        """Waits for the pause before a retry."""
        self._pause.wait(self.access.backoff_s)

    def ask(
        self,
        address: str,
        code: int,
        ext: Mapping[str, str],
        body: bytes = b"",
        *,
        fine: tuple[int, ...] = (),
    ) -> Command:
        """Asks a broker, again where that may help; returns an answer of success, or of `fine`.

        Raises:
            RemotingError: It refused, or did not answer.
        """
        for left in range(self.access.retries, -1, -1):
            opaque, frame = self.request(code, ext, body)
            try:
                answer = self._pool.exchange(address, opaque, frame, self.access.timeout_s, code)
                return expect(answer, address, *fine)
            except RemotingError as error:
                is_passing = not isinstance(error, ResponseError) or error.code in _PASSING
                if not left or not is_passing:
                    raise
                _log.info("asked again in %g s: %s", self.access.backoff_s, error)
            self.pause()
        raise AssertionError("a loop over tries ends with an answer or an error")

    def _look_up(self, code: int, ext: Mapping[str, str], *, fine: tuple[int, ...] = ()) -> Command:
        """Asks name servers, the first one that answers."""
        causes: dict[str, MQError] = {}
        for left in range(self.access.retries, -1, -1):
            for address in self._name_servers:
                opaque, frame = self.request(code, ext)
                try:
                    answer = self._pool.exchange(
                        address, opaque, frame, self.access.timeout_s, code
                    )
                except RemotingError as error:
                    causes[address] = error
                    continue
                return expect(answer, address, *fine)
            if left:
                self.pause()
        why = "; ".join(str(error) for error in causes.values())
        raise NameServerError(
            f"no name server of {self.access.namesrv} answers ({why}): check the option namesrv",
            causes=causes,
        )

    # Questions.

    def route(self, topic: str) -> TopicRoute | None:
        """Returns where a topic is, None where no name server knows it."""
        answer = self._look_up(
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            {"topic": topic, "acceptStandardJsonOnly": "true"},
            fine=(ResponseCode.TOPIC_NOT_EXIST,),
        )
        is_there = answer.code != ResponseCode.TOPIC_NOT_EXIST
        route = TopicRoute.of_body(topic, answer.body) if is_there else None
        if route is not None and route.static:
            raise UnsupportedError(
                f"topic {topic} is a static topic: its records have the offsets of their brokers, "
                "and Spark does not read it",
                address=self.access.namesrv,
            )
        self._routes[topic] = (monotonic_ms(), route)
        return route

    def topic_names(self) -> set[str]:
        """Returns the names of all topics."""
        answer = self._look_up(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {})
        return set(map(as_text, as_list(parse_object(answer.body).get("topicList"))))

    def system_names(self) -> set[str]:
        """Returns the names of topics that servers use for themselves."""
        answer = self._look_up(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, {})
        found = parse_object(answer.body)
        names = set(map(as_text, as_list(found.get("topicList"))))
        broker = as_text(found.get("brokerAddr"))
        if broker:
            response = self.ask(broker, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, {})
            names.update(map(as_text, as_list(parse_object(response.body).get("topicList"))))
        return names

    def address_of(self, queue: MessageQueue, *, is_new: bool = False) -> str:
        """Returns the address of a queue's broker: the master's, or of what replaces it.

        Args:
            queue: The queue.
            is_new: Ask name servers, whatever they answered lately.

        Raises:
            NoRouteError: No name server knows it.
        """
        kept = self._routes.get(queue.topic)
        if is_new or kept is None or monotonic_ms() - kept[0] > _ROUTE_MS:
            route = self.route(queue.topic)
        else:
            route = kept[1]
        broker = route.broker(queue.broker_name) if route is not None else None
        address = broker.any_of(0) if broker is not None else None
        if address is None:
            raise NoRouteError(
                f"topic {queue.topic} is not on broker {queue.broker_name} as name servers "
                f"{self.access.namesrv} know it: is the broker down, or the topic deleted?",
                topic=queue.topic,
                name_servers=self._name_servers,
                brokers={},
            )
        return address

    def bounds(self, topic: str) -> dict[MessageQueue, QueueBounds]:
        """Returns what the queues of a topic hold; nothing for a topic that is not there.

        Raises:
            RemotingError: A broker of it does not answer.
        """
        route = self.route(topic)
        found: dict[MessageQueue, QueueBounds] = {}
        for broker in route.brokers if route is not None else ():
            address = broker.any_of(0)
            if address is None:
                continue
            answer = self.ask(
                address,
                RequestCode.GET_TOPIC_STATS_INFO,
                {"topic": topic},
                fine=(ResponseCode.TOPIC_NOT_EXIST,),
            )
            if answer.code != ResponseCode.SUCCESS:
                continue
            for row in TopicStats.of_bodies(topic, [parse_object(answer.body)]).queues:
                found[row.queue] = QueueBounds(
                    max(0, row.min_offset), max(0, row.max_offset), row.last_update_ms
                )
        return dict(sorted(found.items()))

    def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Returns the first offset of a queue stored at a time or later, as its broker finds it."""
        answer = self.ask(
            self.address_of(queue),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            self._queue_fields(queue) | {"timestamp": str(timestamp_ms)},
        )
        return as_int(answer.ext.get("offset"))

    def group_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Returns where a group goes on in a queue, None where it never committed."""
        answer = self.ask(
            self.address_of(queue),
            RequestCode.QUERY_CONSUMER_OFFSET,
            self._queue_fields(queue) | {"consumerGroup": group},
            fine=(ResponseCode.QUERY_NOT_FOUND,),
        )
        return None if answer.code else as_int(answer.ext.get("offset"))

    def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commits where a group goes on in a queue."""
        fields = self._queue_fields(queue) | {"consumerGroup": group, "commitOffset": str(offset)}
        self.ask(self.address_of(queue), RequestCode.UPDATE_CONSUMER_OFFSET, fields)

    def make_group_known(self, group: str, queues: Iterable[MessageQueue]) -> None:
        """Makes a group's retry topic where it is not there: official tools know groups by it.

        Brokers make it when a consumer of the group sends heartbeats, and a mirror sends none.

        Args:
            group: Which.
            queues: Queues whose brokers are to have it.
        """
        topic = f"{RETRY_PREFIX}{group}"
        if self.route(topic) is not None:
            return
        fields = {
            "topic": topic,
            "defaultTopic": AUTO_CREATE_TOPIC,
            "readQueueNums": "1",
            "writeQueueNums": "1",
            "perm": str(PERM_READ_WRITE),
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        for address in sorted({self.address_of(queue) for queue in queues}):
            self.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)

    def check_filter(self, topics: Iterable[str], group: str, sql: str) -> None:
        """Asks a broker of each topic whether it can filter by an SQL92 expression.

        Raises:
            ResponseError: It cannot.
        """
        for topic in topics:
            wanted = SubscriptionData(topic=topic, expression=sql, kind="SQL92")
            body = {
                "clientId": f"spark@{os.getpid()}",
                "group": group,
                "subscriptionData": wanted.to_json(),
            }
            route = self.route(topic)
            for broker in route.brokers if route is not None else ():
                address = broker.any_of(0)
                if address is not None:
                    self.ask(address, RequestCode.CHECK_CLIENT_CONFIG, {}, compact(body))

    @staticmethod
    def _queue_fields(queue: MessageQueue) -> dict[str, str]:
        return {
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "bname": queue.broker_name,
        }


_lock = threading.Lock()
_clusters: dict[tuple[int, Access], Cluster] = {}


def cluster_of(access: Access) -> Cluster:
    """Returns this process's connections to a cluster; Spark's workers are used again."""
    with _lock:
        key = (os.getpid(), access)
        if key not in _clusters:
            # A worker is forked from one that may have had connections: those are not ours.
            for old in [each for each in _clusters if each[0] != key[0]]:
                del _clusters[old]
            _clusters[key] = Cluster(access)
        return _clusters[key]
