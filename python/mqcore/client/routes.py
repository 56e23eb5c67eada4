"""Where a topic's queues are: the answer of a name server, as values. Pure functions of bytes.

After the official `MQClientInstance.topicRouteData2TopicPublishInfo` and its twin for consumers.
"""

from dataclasses import dataclass, field
from typing import Any, Self

from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import parse_object
from mqcore.model.static_topics import LOGICAL_PREFIX, NOBODY, StaticQueues, brokers_of_queues
from mqcore.model.topics import PERM_READ, PERM_WRITE

__all__ = ["MASTER_ID", "BrokerAddresses", "QueueCounts", "TopicRoute"]

MASTER_ID = 0


@dataclass(frozen=True, slots=True, order=True)
class BrokerAddresses:
    """The brokers of one name.

    Attributes:
        name: Their name.
        cluster: The cluster that they belong to.
        by_id: Address by broker id, ascending; 0 is the master.
    """

    name: str
    cluster: str
    by_id: tuple[tuple[int, str], ...]

    @property
    def master(self) -> str | None:
        """The master's address, None where there is no master now."""
        return next((address for broker_id, address in self.by_id if broker_id == MASTER_ID), None)

    def any_of(self, broker_id: int) -> str | None:
        """Returns the address of a broker id; of another one where that is gone."""
        wanted = dict(self.by_id).get(broker_id)
        return wanted or next((address for _, address in self.by_id), None)


@dataclass(frozen=True, slots=True, order=True)
class QueueCounts:
    """What one broker name holds of a topic.

    Attributes:
        broker_name: Who.
        read: Queues that are read.
        write: Queues that are written.
        perm: Sum of permission bits.
    """

    broker_name: str
    read: int
    write: int
    perm: int


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The route of a topic. Two routes that are equal mean the same to everybody.

    Attributes:
        topic: The topic, its namespace included.
        brokers: Brokers, by name in ascending order.
        counts: Queues, by broker name in ascending order.
        order_conf: The fixed order of queues of an ordered topic, empty without one.
        static: What brokers lead of a static topic (5.x), by broker name; none of other topics.
        write_queues: Queues that may be written: permitted, and their broker has a master.
        read_queues: Queues that may be read.
    """

    topic: str
    brokers: tuple[BrokerAddresses, ...]
    counts: tuple[QueueCounts, ...]
    order_conf: str = ""
    static: tuple[StaticQueues, ...] = ()
    write_queues: tuple[MessageQueue, ...] = field(init=False, compare=False, repr=False)
    read_queues: tuple[MessageQueue, ...] = field(init=False, compare=False, repr=False)
    _leaders: dict[MessageQueue, str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Lists the queues."""
        object.__setattr__(self, "_leaders", brokers_of_queues(self.topic, self.static))
        object.__setattr__(self, "write_queues", tuple(_write_queues(self)))
        if self.static:
            object.__setattr__(self, "read_queues", tuple(self._leaders))
            return
        object.__setattr__(
            self,
            "read_queues",
            tuple(
                MessageQueue(self.topic, counts.broker_name, queue_id)
                for counts in self.counts
                if counts.perm & PERM_READ
                for queue_id in range(counts.read)
            ),
        )

    @classmethod
    def of_body(cls, topic: str, body: bytes) -> Self:
        """Returns the route in the answer to GET_ROUTEINFO_BY_TOPIC.

        Raises:
            BadJsonError: It cannot be read.
        """
        found = parse_object(body)
        brokers = (_broker_of(item) for item in as_list(found.get("brokerDatas")))
        counts = (_counts_of(item) for item in as_list(found.get("queueDatas")))
        static = as_dict(found.get("topicQueueMappingByBroker"))
        return cls(
            topic=topic,
            brokers=tuple(sorted(broker for broker in brokers if broker.name)),
            counts=tuple(sorted(count for count in counts if count.broker_name)),
            order_conf=as_text(found.get("orderTopicConf")),
            static=tuple(StaticQueues.of_json(static[name]) for name in sorted(static)),
        )

    def as_template(self, topic: str, queues_max: int) -> "TopicRoute":
        """Returns the route that a topic will have which a broker makes by itself.

        Args:
            topic: The topic that is not there yet.
            queues_max: How many queues the producer asks for.
        """
        counts = tuple(
            QueueCounts(
                item.broker_name, min(item.read, queues_max), min(item.read, queues_max), item.perm
            )
            for item in self.counts
        )
        return TopicRoute(topic, self.brokers, counts)

    def broker_of(self, queue: MessageQueue) -> str:
        """Returns the name of the broker that a queue is at; of a static topic, of its leader."""
        if not queue.broker_name.startswith(LOGICAL_PREFIX):
            return queue.broker_name
        return self._leaders.get(queue, NOBODY)

    def broker(self, name: str) -> BrokerAddresses | None:
        """Returns the brokers of a name, None where the route has none."""
        return next((broker for broker in self.brokers if broker.name == name), None)


def _broker_of(value: Any) -> BrokerAddresses:
    found = as_dict(value)
    addresses = {
        as_int(key, -1): as_text(address)
        for key, address in as_dict(found.get("brokerAddrs")).items()
    }
    return BrokerAddresses(
        name=as_text(found.get("brokerName")),
        cluster=as_text(found.get("cluster")),
        by_id=tuple(sorted((key, text) for key, text in addresses.items() if text and key >= 0)),
    )


def _counts_of(value: Any) -> QueueCounts:
    found = as_dict(value)
    return QueueCounts(
        broker_name=as_text(found.get("brokerName")),
        read=as_int(found.get("readQueueNums")),
        write=as_int(found.get("writeQueueNums")),
        perm=as_int(found.get("perm")),
    )


def _write_queues(route: TopicRoute) -> list[MessageQueue]:
    if route.order_conf:
        pairs = (item.rpartition(":") for item in route.order_conf.split(";"))
        return [
            MessageQueue(route.topic, name, queue_id)
            for name, _, count in pairs
            if name
            for queue_id in range(as_int(count))
        ]
    if route.static:
        return list(brokers_of_queues(route.topic, route.static))
    with_master = {broker.name for broker in route.brokers if broker.master}
    return [
        MessageQueue(route.topic, counts.broker_name, queue_id)
        for counts in route.counts
        if counts.perm & PERM_WRITE and counts.broker_name in with_master
        for queue_id in range(counts.write)
    ]
