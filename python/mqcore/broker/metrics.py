"""A broker in Prometheus metrics, under the names that RocketMQ 5 gives them.

Pure: a snapshot goes in, text comes out. Names that begin with `mqcore_` are ours; all others, and
their labels, are those of RocketMQ's dashboards.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mqcore.broker.deduplication import Deduplication

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# What every metric of RocketMQ's broker carries.
_COMMON = ("cluster", "node_type", "node_id")


@dataclass(frozen=True, slots=True)
class TopicFlow:
    """One topic.

    Attributes:
        topic: Its name.
        messages_in: Messages stored in its queues since the first one.
        is_system: Whether it belongs to the broker.
    """

    topic: str
    messages_in: int
    is_system: bool = False


@dataclass(frozen=True, slots=True)
class GroupLag:
    """One consumer group on one topic.

    Attributes:
        group: The group.
        topic: The topic.
        lag_messages: Messages behind the group's offsets.
        is_retry: Whether it is the group's retry topic.
    """

    group: str
    topic: str
    lag_messages: int
    is_retry: bool = False


@dataclass(frozen=True, slots=True)
class TimerFigures:
    """Messages with a time of their own.

    Attributes:
        behind: Messages in their queue that are not entered.
        behind_ms: How far the first slot that is not delivered lies back, ms.
        waiting: Messages that wait.
        entered: Messages entered since the start.
        delivered: Messages delivered since the start.
        by_topic: Messages that wait, by topic.
        by_bound: Messages that are due within so many seconds, and not within the bound before.
    """

    behind: int
    behind_ms: int
    waiting: int
    entered: int
    delivered: int
    by_topic: Mapping[str, int]
    by_bound: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class ReplicaFigures:
    """A slave of this master.

    Attributes:
        address: Where it connects from, without its port: that is another after each connection.
        lag_bytes: How far it is behind the log.
        lag_ms: For how long it has not had everything that was stored at one time, ms.
        sent_bytes_per_second: Bytes sent to it in the last second.
    """

    address: str
    lag_bytes: int
    lag_ms: int
    sent_bytes_per_second: int


@dataclass(frozen=True, slots=True)
class TopicTransactions:
    """The transactions of one topic.

    Attributes:
        topic: The topic that the messages are meant for.
        waiting: Half messages without an end.
        committed: Committed since the start.
        rolled_back: Rolled back since the start.
    """

    topic: str
    waiting: int
    committed: int
    rolled_back: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A broker at one moment.

    Attributes:
        cluster: Its cluster.
        node_id: Its name.
        labels: More labels, of the setting `metricsLabel`.
        permission: What clients may do.
        topics: Number of topics.
        groups: Number of consumer groups.
        flows: Every topic.
        lags: Every group on every topic it has offsets of.
        transactions: Every topic that had transactions.
        checks: Questions about half messages since the start, by what became of them.
        producers: Connected producers by language and version.
        consumers: Connected consumers by group, language and version.
        divided: Groups whose members want different messages: how many different subscriptions.
        conflicts: How often a group came to be divided since the start.
        messages_in: Messages stored for sends since the start.
        messages_out: Messages given to pulls since the start.
        bytes_in: Bytes of records stored for sends since the start.
        bytes_out: Bytes of records given to pulls since the start.
        refused: Refusals since the start, by reason.
        closed: Connections closed for a fault since the start, by reason.
        waiting: What waits in the broker: parked sends, held pulls.
        storage_bytes: Bytes of the log.
        flush_behind_bytes: Stored, not synced.
        dispatch_behind_bytes: Stored, not in its queues.
        reserve_ms: Age of the oldest message; -1 without one.
        memory: Bytes of memory by kind: mapped, locked, resident.
        repairs: What was found damaged in the store since the start, by kind.
        replicas: The slaves that are connected.
        refill: Bytes that are in the log and bytes in all of whole files that a slave copies; None
            while it copies none.
        is_following: Whether this slave is connected to its master; None for a master.
        timers: Messages with a time of their own, None without any.
        deduplication: Sends that are remembered, None where they are not.
        damage: Reports of damage in the log that nobody acknowledged, by kind: how many, their
            bytes, the whole records that were cut off.
        certificates: When certificates end, Unix seconds, by the kind of their file.
        faults: What is wrong with it, empty when it is well.
    """

    cluster: str
    node_id: str
    labels: Mapping[str, str] = field(default_factory=dict)
    permission: int = 0
    topics: int = 0
    groups: int = 0
    flows: tuple[TopicFlow, ...] = ()
    lags: tuple[GroupLag, ...] = ()
    transactions: tuple[TopicTransactions, ...] = ()
    checks: Mapping[str, int] = field(default_factory=dict)
    producers: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    consumers: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    divided: Mapping[str, int] = field(default_factory=dict)
    conflicts: int = 0
    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    closed: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)
    storage_bytes: int = 0
    flush_behind_bytes: int = 0
    dispatch_behind_bytes: int = 0
    reserve_ms: int = -1
    repairs: Mapping[str, int] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)
    replicas: tuple[ReplicaFigures, ...] = ()
    is_following: bool | None = None
    refill: tuple[int, int] | None = None
    timers: TimerFigures | None = None
    deduplication: Deduplication | None = None
    damage: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    certificates: Mapping[str, int] = field(default_factory=dict)
    faults: tuple[str, ...] = ()


def exposition(snapshot: Snapshot) -> bytes:
    """Returns a snapshot in Prometheus's text format."""
    return generate_latest(_Once(snapshot))


class _Once(Collector):
    """Gives one snapshot to Prometheus's renderer."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        return metrics(self._snapshot)


class _Family:
    """Makes metrics with the labels that all of a broker's have."""

    def __init__(self, snapshot: Snapshot) -> None:
        extra = {name: text for name, text in snapshot.labels.items() if name not in _COMMON}
        self._names = (*_COMMON, *extra)
        self._values = (snapshot.cluster, "broker", snapshot.node_id, *extra.values())

    def gauge(
        self, name: str, what: str, labels: tuple[str, ...], rows: Mapping[tuple[str, ...], int]
    ) -> Metric:
        found = GaugeMetricFamily(name, what, labels=(*self._names, *labels))
        for values, number in rows.items():
            found.add_metric((*self._values, *values), number)
        return found

    def counter(
        self, name: str, what: str, labels: tuple[str, ...], rows: Mapping[tuple[str, ...], int]
    ) -> Metric:
        found = CounterMetricFamily(name, what, labels=(*self._names, *labels))
        for values, number in rows.items():
            found.add_metric((*self._values, *values), number)
        return found

    def one(self, name: str, what: str, number: int) -> Metric:
        return self.gauge(name, what, (), {(): number})


def metrics(snapshot: Snapshot) -> Iterator[Metric]:
    """Yields the metrics of a snapshot."""
    family = _Family(snapshot)
    yield from _flow_metrics(snapshot, family)
    yield from _transaction_metrics(snapshot, family)
    yield from _client_metrics(snapshot, family)
    yield from _store_metrics(snapshot, family)
    yield family.gauge(
        "mqcore_tls_certificate_not_after_seconds",
        "When the certificate of a file ends, Unix time; of several the first",
        ("kind",),
        {(kind,): end for kind, end in snapshot.certificates.items()},
    )
    yield from _replica_metrics(snapshot, family)
    if snapshot.timers is not None:
        yield from _timer_metrics(snapshot.timers, family)
    if snapshot.deduplication is not None:
        yield from _deduplication_metrics(snapshot.deduplication, family)
    yield family.one("rocketmq_broker_permission", "4 read, 2 write, 6 both", snapshot.permission)
    yield family.one("rocketmq_topic_number", "Topics", snapshot.topics)
    yield family.one("rocketmq_consumer_group_number", "Consumer groups", snapshot.groups)
    yield family.one("mqcore_broker_healthy", "1 when nothing is wrong", not snapshot.faults)


def _flow_metrics(snapshot: Snapshot, family: _Family) -> Iterator[Metric]:
    yield family.counter(
        "rocketmq_messages_in",
        "Messages stored, per topic",
        ("topic", "is_system"),
        {(each.topic, _flag(each.is_system)): each.messages_in for each in snapshot.flows},
    )
    totals = (
        ("mqcore_sends", "Messages stored for sends", snapshot.messages_in),
        ("rocketmq_messages_out", "Messages given to pulls", snapshot.messages_out),
        ("rocketmq_throughput_in", "Bytes stored for sends", snapshot.bytes_in),
        ("rocketmq_throughput_out", "Bytes given to pulls", snapshot.bytes_out),
    )
    for name, what, number in totals:
        yield family.counter(name, what, (), {(): number})
    yield family.counter(
        "mqcore_refused", "Requests refused", ("reason",), _keyed(snapshot.refused)
    )
    yield family.counter(
        "mqcore_connections_closed",
        "Connections closed for a fault",
        ("reason",),
        _keyed(snapshot.closed),
    )
    yield family.gauge(
        "rocketmq_processor_watermark",
        "Requests that wait",
        ("processor",),
        _keyed(snapshot.waiting),
    )


def _transaction_metrics(snapshot: Snapshot, family: _Family) -> Iterator[Metric]:
    rows = snapshot.transactions
    yield family.gauge(
        "rocketmq_half_messages",
        "Half messages without an end",
        ("topic",),
        {(each.topic,): each.waiting for each in rows},
    )
    yield family.counter(
        "rocketmq_commit_messages",
        "Transactions committed",
        ("topic",),
        {(each.topic,): each.committed for each in rows},
    )
    yield family.counter(
        "rocketmq_rollback_messages",
        "Transactions rolled back",
        ("topic",),
        {(each.topic,): each.rolled_back for each in rows},
    )
    yield family.counter(
        "mqcore_transaction_checks",
        "Half messages asked about, by what became of the question",
        ("result",),
        _keyed(snapshot.checks),
    )


def _client_metrics(snapshot: Snapshot, family: _Family) -> Iterator[Metric]:
    yield family.gauge(
        "rocketmq_consumer_lag_messages",
        "Messages behind a group's offsets",
        ("consumer_group", "topic", "is_retry"),
        {
            (each.group, each.topic, _flag(each.is_retry)): each.lag_messages
            for each in snapshot.lags
        },
    )
    yield family.gauge(
        "rocketmq_producer_connections",
        "Producers",
        ("language", "version"),
        snapshot.producers,
    )
    yield family.gauge(
        "rocketmq_consumer_connections",
        "Consumers",
        ("consumer_group", "language", "version"),
        snapshot.consumers,
    )
    yield family.gauge(
        "mqcore_inconsistent_subscriptions",
        "Different subscriptions inside one group",
        ("consumer_group",),
        _keyed(snapshot.divided),
    )
    yield family.counter(
        "mqcore_subscription_conflicts",
        "How often members of a group came to subscribe differently",
        (),
        {(): snapshot.conflicts},
    )


def _store_metrics(snapshot: Snapshot, family: _Family) -> Iterator[Metric]:
    labels = ("storage_type", "storage_medium")
    local = ("local", "disk")
    gauges = (
        ("rocketmq_storage_size", "Bytes of the log", snapshot.storage_bytes),
        (
            "rocketmq_storage_flush_behind_bytes",
            "Bytes stored and not synced",
            snapshot.flush_behind_bytes,
        ),
        (
            "rocketmq_storage_dispatch_behind_bytes",
            "Bytes stored and not in their queues",
            snapshot.dispatch_behind_bytes,
        ),
        (
            "rocketmq_storage_message_reserve_time",
            "Age of the oldest message, ms",
            snapshot.reserve_ms,
        ),
    )
    for name, what, number in gauges:
        yield family.gauge(name, what, labels, {local: number})
    damage = (
        ("mqcore_damage_reports", "Cuts and replacements in the log, not acknowledged"),
        ("mqcore_damage_bytes", "Bytes cut off the log or replaced, not acknowledged"),
        ("mqcore_damage_whole_records", "Whole records that were cut off"),
    )
    for index, (name, what) in enumerate(damage):
        rows = {kind: numbers[index] for kind, numbers in snapshot.damage.items()}
        yield family.gauge(name, what, ("kind",), _keyed(rows))
    yield family.counter(
        "mqcore_store_damage",
        "Found damaged in the store: records, queue units made again, queue offsets lost",
        ("kind",),
        _keyed(snapshot.repairs),
    )
    yield family.gauge(
        "mqcore_memory_bytes", "Memory of the store", ("kind",), _keyed(snapshot.memory)
    )


def _replica_metrics(snapshot: Snapshot, family: _Family) -> Iterator[Metric]:
    rows = snapshot.replicas
    if snapshot.is_following is not None:
        what = "1 while this slave is connected to its master"
        yield family.one("mqcore_replication_connected", what, int(snapshot.is_following))
        if snapshot.refill is not None:
            done, total = snapshot.refill
            what = "Bytes of whole files of the master that are in the log"
            yield family.one("mqcore_refill_bytes", what, done)
            what = "Bytes of whole files of the master that are to come, and that are there"
            yield family.one("mqcore_refill_total_bytes", what, total)
        return
    # Several slaves of one machine are shown as the one that is worst.
    behind: dict[tuple[str, ...], int] = {}
    behind_ms: dict[tuple[str, ...], int] = {}
    sent: dict[tuple[str, ...], int] = {}
    for each in rows:
        key = (each.address,)
        behind[key] = max(each.lag_bytes, behind.get(key, 0))
        behind_ms[key] = max(each.lag_ms, behind_ms.get(key, 0))
        sent[key] = each.sent_bytes_per_second + sent.get(key, 0)
    yield family.one("mqcore_replicas", "Slaves that are connected", len(rows))
    gauges = (
        ("mqcore_replica_lag_bytes", "Bytes of the log that a slave has not reported", behind),
        (
            "mqcore_replica_lag_milliseconds",
            "How long ago a slave had everything that was stored",
            behind_ms,
        ),
        ("mqcore_replica_sent_bytes_per_second", "Bytes sent to a slave in the last second", sent),
    )
    for name, words, numbers in gauges:
        yield family.gauge(name, words, ("replica",), numbers)


def _timer_metrics(timers: TimerFigures, family: _Family) -> Iterator[Metric]:
    labels = ("storage_type", "storage_medium")
    local = ("local", "disk")
    gauges = (
        ("rocketmq_timer_enqueue_lag", "Timed messages that are not entered", timers.behind),
        ("rocketmq_timer_dequeue_lag", "Timed messages that wait", timers.waiting),
        ("rocketmq_timer_dequeue_latency", "Age of the first slot, ms", timers.behind_ms),
    )
    for name, what, number in gauges:
        yield family.gauge(name, what, labels, {local: number})
    counters = (
        ("rocketmq_timer_enqueue", "Timed messages entered", timers.entered),
        ("rocketmq_timer_dequeue", "Timed messages delivered", timers.delivered),
    )
    for name, what, number in counters:
        yield family.counter(name, what, labels, {local: number})
    yield family.gauge(
        "rocketmq_timing_messages",
        "Timed messages that wait, per topic",
        (*labels, "topic"),
        {(*local, topic): count for topic, count in timers.by_topic.items()},
    )
    yield family.gauge(
        "rocketmq_timer_message_snapshot",
        "Timed messages that wait, by the time until they are due",
        (*labels, "timer_bound_s"),
        {(*local, str(bound)): count for bound, count in timers.by_bound.items()},
    )


def _deduplication_metrics(window: Deduplication, family: _Family) -> Iterator[Metric]:
    counters = (
        ("mqcore_deduplication_repeats", "Sends answered as an earlier one", window.repeats),
        ("mqcore_deduplication_told_apart", "Same key, another message", window.distinguished),
        ("mqcore_deduplication_displaced", "Forgotten before their time", window.displaced),
    )
    for name, what, number in counters:
        yield family.counter(name, what, (), {(): number})
    yield family.one("mqcore_deduplication_keys", "Messages that are remembered", window.keys)
    yield family.one("mqcore_deduplication_window_ms", "How far back", window.window_ms)


def parsed_labels(text: str) -> dict[str, str]:
    """Returns the labels of the setting `metricsLabel`: `name:value` joined by commas.

    A name that Prometheus does not allow is left out.
    """
    found = {}
    for part in text.split(","):
        name, separator, value = (piece.strip() for piece in part.partition(":"))
        if separator and name.isidentifier() and name.isascii() and not name.startswith("__"):
            found[name] = value
    return found


def _keyed(numbers: Mapping[str, int]) -> dict[tuple[str, ...], int]:
    return {(name,): number for name, number in numbers.items()}


def _flag(is_so: bool) -> str:
    return "true" if is_so else "false"
