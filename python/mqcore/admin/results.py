"""What servers report to an administrator, as values. Pure functions of parsed JSON.

Lenient as official tools are: a member that is missing is 0, or empty.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, Self

from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_float, as_int, as_list, as_text
from mqcore.model.relaxed_json import queue_of_key
from mqcore.model.subscriptions import SubscriptionData

__all__ = [
    "ClusterInfo",
    "Connected",
    "CounterWindow",
    "GroupConnections",
    "GroupProgress",
    "HandOver",
    "HandOverStep",
    "QueueProgress",
    "QueueRange",
    "TopicStats",
    "queue_table",
]

_MASTER_ID = 0


# The order of queues, without a comparison of objects.
_IN_ORDER: Final = attrgetter("topic", "broker_name", "queue_id")


def queue_table(value: Any) -> dict[MessageQueue, Any]:
    """Returns a map that has queues as keys, by queue in ascending order.

    Such keys are objects on the wire; parsing leaves the text of each.
    """
    named = {queue_of_key(key): item for key, item in as_dict(value).items()}
    queues = (queue for queue in named if queue is not None)
    return {queue: named[queue] for queue in sorted(queues, key=_IN_ORDER)}


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The brokers that a name server knows (`ClusterInfo`).

    Attributes:
        brokers: Addresses by broker id, of each broker name; 0 is the master.
        clusters: The broker names of each cluster.
    """

    brokers: Mapping[str, Mapping[int, str]]
    clusters: Mapping[str, tuple[str, ...]]

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a JSON object describes."""
        found = as_dict(value)
        brokers = {}
        for name, data in as_dict(found.get("brokerAddrTable")).items():
            rows = as_dict(as_dict(data).get("brokerAddrs")).items()
            addresses = {as_int(key, -1): as_text(address) for key, address in rows}
            brokers[name] = dict(sorted(addresses.items()))
        clusters = {
            name: tuple(sorted(as_text(each) for each in as_list(names)))
            for name, names in as_dict(found.get("clusterAddrTable")).items()
        }
        return cls(brokers=dict(sorted(brokers.items())), clusters=dict(sorted(clusters.items())))

    def masters(self, cluster: str | None = None) -> dict[str, str]:
        """Returns the masters' addresses by broker name; of one cluster, or of all."""
        names = self.brokers if cluster is None else self.clusters.get(cluster, ())
        found = {name: self.brokers.get(name, {}).get(_MASTER_ID) for name in names}
        return {name: address for name, address in found.items() if address}

    def masters_first(self) -> list[tuple[str, int, str]]:
        """Returns name, id and address of every broker: masters by name, then the others."""
        rows = [
            (broker_id != _MASTER_ID, name, broker_id, address)
            for name, by_id in self.brokers.items()
            for broker_id, address in by_id.items()
        ]
        return [row[1:] for row in sorted(rows)]

    def cluster_of(self, broker_name: str) -> str:
        """Returns the cluster of a broker name, empty for one that is in none."""
        return next((each for each, names in self.clusters.items() if broker_name in names), "")


@dataclass(frozen=True, slots=True)
class QueueRange:
    """One queue of a topic (`TopicOffset`).

    Attributes:
        queue: Which.
        min_offset: First queue offset that is kept.
        max_offset: Queue offset behind the last message.
        last_update_ms: When the last message was stored, Unix ms; 0 without one.
    """

    queue: MessageQueue
    min_offset: int
    max_offset: int
    last_update_ms: int

    @property
    def count(self) -> int:
        """Messages that are kept."""
        return max(0, self.max_offset - self.min_offset)


@dataclass(frozen=True, slots=True)
class TopicStats:
    """How full a topic is (`TopicStatsTable`).

    Attributes:
        topic: Which.
        queues: Its queues, by broker name and number.
        put_per_s: Messages that come in per second, over the last minute; 0 where brokers do not
            report it (4.9).
    """

    topic: str
    queues: tuple[QueueRange, ...]
    put_per_s: float

    @classmethod
    def of_bodies(cls, topic: str, values: list[Any]) -> Self:
        """Returns the answers of all brokers combined."""
        rows = []
        for value in values:
            for queue, row in queue_table(as_dict(value).get("offsetTable")).items():
                cells = as_dict(row)
                rows.append(
                    QueueRange(
                        queue,
                        as_int(cells.get("minOffset")),
                        as_int(cells.get("maxOffset")),
                        as_int(cells.get("lastUpdateTimestamp")),
                    )
                )
        put = sum(as_float(as_dict(value).get("topicPutTps")) for value in values)
        return cls(topic, tuple(sorted(rows, key=lambda row: row.queue)), put)


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """How far a group has read one queue (`OffsetWrapper`).

    Attributes:
        queue: Which.
        broker_offset: Queue offset behind the last message.
        group_offset: Where the group goes on.
        last_ms: When the message read last was stored, Unix ms; 0 for none.
    """

    queue: MessageQueue
    broker_offset: int
    group_offset: int
    last_ms: int

    @property
    def lag(self) -> int:
        """Messages that were not read yet."""
        return max(0, self.broker_offset - self.group_offset)


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How far a group has read (`ConsumeStats`).

    Attributes:
        group: Which.
        queues: The queues that it reads, by topic, broker name and number.
        get_per_s: Messages that it takes per second, over the last minute.
    """

    group: str
    queues: tuple[QueueProgress, ...]
    get_per_s: float

    @classmethod
    def of_bodies(cls, group: str, values: list[Any]) -> Self:
        """Returns the answers of all brokers combined."""
        rows = []
        for value in values:
            for queue, row in queue_table(as_dict(value).get("offsetTable")).items():
                cells = as_dict(row)
                rows.append(
                    QueueProgress(
                        queue,
                        as_int(cells.get("brokerOffset")),
                        max(0, as_int(cells.get("consumerOffset"))),
                        as_int(cells.get("lastTimestamp")),
                    )
                )
        taken = sum(as_float(as_dict(value).get("consumeTps")) for value in values)
        if len(values) > 1:
            rows.sort(key=lambda row: _IN_ORDER(row.queue))
        return cls(group, tuple(rows), taken)

    @property
    def lag(self) -> int:
        """Messages that were not read yet, of all queues."""
        return sum(row.lag for row in self.queues)


@dataclass(frozen=True, slots=True, order=True)
class Connected:
    """One connected client (`Connection`).

    Attributes:
        client_id: Who.
        address: From where, as the broker sees it.
        language: In which it was written.
        version: Ordinal of its version.
    """

    client_id: str
    address: str
    language: str
    version: int

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns the client that a JSON object describes."""
        found = as_dict(value)
        return cls(
            client_id=as_text(found.get("clientId")),
            address=as_text(found.get("clientAddr")),
            language=as_text(found.get("language")),
            version=as_int(found.get("version")),
        )


@dataclass(frozen=True, slots=True)
class GroupConnections:
    """The members of a group that is online (`ConsumerConnection`).

    Attributes:
        clients: Its members, by client id.
        consume_type: `CONSUME_PASSIVELY` for push, `CONSUME_ACTIVELY` for pull consumers.
        message_model: `CLUSTERING` or `BROADCASTING`.
        from_where: Where a new group begins.
        subscriptions: What it wants, by topic.
        differences: What members want where they do not all want the same, by client id and topic
            (`""`: not the topic); empty where they agree, and always of an official broker, which
            does not report it.
    """

    clients: tuple[Connected, ...]
    consume_type: str
    message_model: str
    from_where: str
    subscriptions: Mapping[str, SubscriptionData]
    differences: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of_bodies(cls, values: list[Any]) -> Self:
        """Returns the answers of all brokers combined; the first one's settings count."""
        found = [as_dict(value) for value in values]
        rows = [Connected.of_json(row) for each in found for row in as_list(each["connectionSet"])]
        subscriptions = {}
        for each in found:
            for topic, wanted in as_dict(each.get("subscriptionTable")).items():
                data = SubscriptionData.of_json(wanted)
                if data is not None:
                    subscriptions[topic] = data
        differences = {
            client_id: {topic: as_text(text) for topic, text in as_dict(wanted).items()}
            for each in found
            for client_id, wanted in as_dict(each.get("inconsistentSubscriptions")).items()
        }
        first = found[0]
        return cls(
            clients=tuple(sorted({row.client_id: row for row in rows}.values())),
            consume_type=as_text(first.get("consumeType")),
            message_model=as_text(first.get("messageModel")),
            from_where=as_text(first.get("consumeFromWhere")),
            subscriptions=dict(sorted(subscriptions.items())),
            differences=dict(sorted(differences.items())),
        )


@dataclass(frozen=True, slots=True)
class CounterWindow:
    """A counter over a window of time (`BrokerStatsItem`).

    Attributes:
        total: Sum within the window.
        per_s: The same per second.
        average: Sum per event.
    """

    total: int
    per_s: float
    average: float

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a JSON object describes."""
        found = as_dict(value)
        return cls(
            total=as_int(found.get("sum")),
            per_s=as_float(found.get("tps")),
            average=as_float(found.get("avgpt")),
        )


@dataclass(frozen=True, slots=True)
class Replica:
    """A slave as its master sees it (`HAConnectionRuntimeInfo`).

    Attributes:
        address: Where it connects from.
        acknowledged: End of what it reported to have, bytes of the log.
        lag_bytes: How far it is behind.
        lag_ms: For how long it has not had everything that was stored at one time; None where an
            official broker answers, which does not report it.
        is_in_sync: Whether the master counts it as in sync.
        bytes_per_second: Bytes sent to it in the last second.
    """

    address: str
    acknowledged: int
    lag_bytes: int
    lag_ms: int | None
    is_in_sync: bool
    bytes_per_second: int

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a JSON object describes."""
        found = as_dict(value)
        return cls(
            address=as_text(found.get("addr")),
            acknowledged=as_int(found.get("slaveAckOffset")),
            lag_bytes=max(0, as_int(found.get("diff"))),
            lag_ms=as_int(found["lagMs"]) if "lagMs" in found else None,
            is_in_sync=found.get("inSync") is True,
            bytes_per_second=as_int(found.get("transferredByteInSecond")),
        )


@dataclass(frozen=True, slots=True)
class Refill:
    """How far a broker of mqcore is that copies whole files of its master's log.

    Attributes:
        total_bytes: Bytes of all whole files that are to come; 0 before that is known.
        done_bytes: Those that are in the log.
        bytes_per_second: The rate since it began.
    """

    total_bytes: int
    done_bytes: int
    bytes_per_second: int

    @property
    def percent(self) -> int:
        """The share that is in the log; 0 before it is known what is to come."""
        return self.done_bytes * 100 // self.total_bytes if self.total_bytes else 0

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what the part of a slave in a JSON object describes."""
        found = as_dict(value)
        return cls(
            total_bytes=as_int(found.get("refillTotalBytes")),
            done_bytes=as_int(found.get("refillBytes")),
            bytes_per_second=as_int(found.get("refillByteInSecond")),
        )


@dataclass(frozen=True, slots=True)
class ReplicationStatus:
    """The replication of a broker (`HARuntimeInfo`).

    Attributes:
        is_master: Whether it is a master.
        end: End of its log.
        replicas: The slaves that are connected to a master.
        master_address: Where a slave copies from; empty where it does not know.
        is_connected: Whether a slave is connected.
        refill: How far a slave is that copies whole files; None where it copies none.
    """

    is_master: bool
    end: int
    replicas: tuple[Replica, ...]
    master_address: str
    is_connected: bool
    refill: Refill | None = None

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a JSON object describes."""
        found = as_dict(value)
        client = as_dict(found.get("haClientRuntimeInfo"))
        is_master = found.get("master") is True
        end = found.get("masterCommitLogMaxOffset") if is_master else client.get("maxOffset")
        return cls(
            is_master=is_master,
            end=as_int(end),
            replicas=tuple(map(Replica.of_json, as_list(found.get("haConnectionInfo")))),
            master_address=as_text(client.get("masterAddr")),
            is_connected=client.get("activated") is True,
            refill=Refill.of_json(client) if "refillTotalBytes" in client else None,
        )


@dataclass(frozen=True, slots=True)
class HandOverStep:
    """One step of a hand-over.

    Attributes:
        at_ms: When it was done, ms from the begin.
        what: What was done.
    """

    at_ms: int
    what: str


@dataclass(frozen=True, slots=True)
class HandOver:
    """How far a master is with handing its role over.

    Attributes:
        phase: `none`, `running`, `done` or `failed`.
        successor: Address of the broker that is to be the master, or is; empty for none.
        successor_id: Its id at the controller.
        why: Why it has failed: the broker is the master as before.
        epoch: The epoch of the new master; 0 before it is elected.
        parked_ms: For how long requests of clients waited.
        steps: What was done so far.
    """

    phase: str
    successor: str
    successor_id: int
    why: str
    epoch: int
    parked_ms: int
    steps: tuple[HandOverStep, ...]

    @property
    def is_over(self) -> bool:
        """Whether it has ended, either way."""
        return self.phase in ("done", "failed")

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a JSON object describes."""
        found = as_dict(value)
        steps = (as_dict(each) for each in as_list(found.get("steps")))
        return cls(
            phase=as_text(found.get("phase"), "none"),
            successor=as_text(found.get("successor")),
            successor_id=as_int(found.get("successorId")),
            why=as_text(found.get("why")),
            epoch=as_int(found.get("epoch")),
            parked_ms=as_int(found.get("parkedMs")),
            steps=tuple(
                HandOverStep(as_int(each.get("atMs")), as_text(each.get("what"))) for each in steps
            ),
        )
