"""The table of all metrics of a broker: one row each, declared here and nowhere else.

Names, types, labels and units are those of RocketMQ 5.5 as its exporter shows them to Prometheus;
names that begin with `mqcore_` are ours. `/metrics`, OTLP, the page of metrics, boards and alerts
are made of it. Knows no figure.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from mqcore.metrics.audit_figures import AUDIT_FAMILIES
from mqcore.metrics.families import Family, Kind
from mqcore.metrics.program import PROGRAM_FAMILIES

__all__ = ["BULK", "COMMON", "FAMILIES", "LATENCY_BOUNDS_MS", "METER", "STORE"]

# The name of the meter, for OpenTelemetry.
METER: Final = "broker-meter"
# What every sample has, before the labels of the setting `metricsLabel`.
COMMON: Final = ("cluster", "node_type", "node_id")
# What the samples of the store have besides.
STORE: Final = ("storage_type", "storage_medium")
_KIB: Final = 1_024
# Bounds of histograms, as `BrokerMetricsManager`, `RemotingMetricsManager` and
# `DefaultStoreMetricsManager` have them.
LATENCY_BOUNDS_MS: Final = (1, 3, 5, 7, 10, 100, 1_000, 2_000, 3_000)
_SIZE_BOUNDS: Final = tuple(_KIB * kib for kib in (1, 4, 512, _KIB, 2 * _KIB, 4 * _KIB))
_MAKING_BOUNDS_MS: Final = (10, 100, 1_000, 3_000, 5_000)
_FINISH_BOUNDS_S: Final = (5, 60, 600, 3_600, 43_200, 86_400)
_DELAY_BOUNDS_S: Final = (60, 600, 3_600, 43_200, 86_400, 259_200)
# Powers of two of a microsecond up to 16.8 s, as the fast path counts stages.
_STAGE_BOUNDS_S: Final = tuple((1 << bucket) / 1_000_000 for bucket in range(25))


def _counter(name: str, labels: str, words: str, *, unit: str = "", only: str = "") -> Family:
    return Family(name, Kind.COUNTER, tuple(labels.split()), words, unit, only=only)


def _gauge(name: str, labels: str, words: str, *, unit: str = "", only: str = "") -> Family:
    return Family(name, Kind.GAUGE, tuple(labels.split()), words, unit, only=only)


def _histogram(
    name: str,
    labels: str,
    words: str,
    bounds: tuple[float, ...],
    *,
    unit: str = "",
    only: str = "",
) -> Family:
    return Family(name, Kind.HISTOGRAM, tuple(labels.split()), words, unit, bounds, only)


_STORE: Final = " ".join(STORE)
_MASTER, _SLAVE = "a master", "a slave"
_TIMERS = "timers are on (`timerWheelEnable`)"
_DEDUPLICATION = "`deduplicationWindowMs` is set"

_ROWS: Final = (
    _gauge(
        "rocketmq_processor_watermark",
        "processor",
        "Requests that wait: sends for their sync or replica, pulls and pops that are held",
    ),
    _gauge("rocketmq_broker_permission", "", "4 read, 2 write, 6 both"),
    _gauge("rocketmq_topic_number", "", "Topics"),
    _gauge("rocketmq_consumer_group_number", "", "Consumer groups"),
    _counter(
        "rocketmq_messages_in_total",
        "topic message_type is_system",
        "Messages that were sent, since the start",
    ),
    _counter(
        "rocketmq_throughput_in_total",
        "topic message_type is_system",
        "Bytes of the records of messages that were sent, since the start",
    ),
    _histogram(
        "rocketmq_message_size",
        "topic message_type is_system",
        "Bytes of the record of a message that was sent",
        _SIZE_BOUNDS,
    ),
    _counter(
        "rocketmq_messages_out_total",
        "topic consumer_group is_system",
        "Messages given to pulls and pops, since the start; none of retry and dead-letter topics",
    ),
    _counter(
        "rocketmq_throughput_out_total",
        "topic consumer_group is_system",
        "Bytes of records given to pulls and pops, since the start",
    ),
    _histogram(
        "rocketmq_topic_create_execution_time_milliseconds",
        "invocation_status is_system",
        "How long it took to make or change a topic",
        _MAKING_BOUNDS_MS,
        unit="milliseconds",
    ),
    _histogram(
        "rocketmq_consumer_group_create_execution_time_milliseconds",
        "invocation_status is_system",
        "How long it took to make or change a consumer group",
        _MAKING_BOUNDS_MS,
        unit="milliseconds",
    ),
    _gauge(
        "rocketmq_producer_connections", "language version protocol_type", "Producers connected"
    ),
    _gauge(
        "rocketmq_consumer_connections",
        "consumer_group language version consume_mode protocol_type is_system",
        "Consumers connected",
    ),
    _gauge(
        "rocketmq_consumer_lag_messages",
        "consumer_group topic is_retry is_system",
        "Messages behind the offsets of a group; of groups without a member too",
    ),
    _gauge(
        "rocketmq_consumer_lag_latency_milliseconds",
        "consumer_group topic is_retry is_system",
        "For how long the first message behind the offsets has been there",
        unit="milliseconds",
    ),
    _gauge(
        "rocketmq_consumer_inflight_messages",
        "consumer_group topic is_retry is_system",
        "Messages that were given and are not committed",
    ),
    _gauge(
        "rocketmq_consumer_ready_messages",
        "consumer_group topic is_retry is_system",
        "Messages that were not given yet",
    ),
    _gauge(
        "rocketmq_consumer_queueing_latency_milliseconds",
        "consumer_group topic is_retry is_system",
        "For how long the first message that was not given has been there",
        unit="milliseconds",
    ),
    _counter(
        "rocketmq_send_to_dlq_messages_total",
        "consumer_group topic is_system",
        "Messages that became dead letters, since the start",
    ),
    _gauge("rocketmq_half_messages", "topic", "Half messages without an end"),
    _counter("rocketmq_commit_messages_total", "topic", "Transactions committed, since the start"),
    _counter(
        "rocketmq_rollback_messages_total", "topic", "Transactions rolled back, since the start"
    ),
    _histogram(
        "rocketmq_finish_message_latency_milliseconds",
        "topic",
        "From a half message to its commit: in seconds, whatever the name, as officially",
        _FINISH_BOUNDS_S,
        unit="milliseconds",
    ),
    _histogram(
        "rocketmq_rpc_latency_milliseconds",
        "protocol_type request_code response_code is_long_polling result",
        "From a request to its answer",
        LATENCY_BOUNDS_MS,
        unit="milliseconds",
    ),
    _gauge(
        "rocketmq_storage_size_bytes",
        _STORE,
        "What is used of the partition of the log, by whomever, as officially",
        unit="bytes",
    ),
    _gauge("rocketmq_storage_flush_behind_bytes", _STORE, "Stored and not synced", unit="bytes"),
    _gauge(
        "rocketmq_storage_dispatch_behind_bytes",
        _STORE,
        "Stored and not in their queues",
        unit="bytes",
    ),
    _gauge(
        "rocketmq_storage_message_reserve_time_milliseconds",
        _STORE,
        "Age of the oldest message; -1 without one",
        unit="milliseconds",
    ),
    _gauge(
        "rocketmq_timer_enqueue_lag", _STORE, "Timed messages that are not entered", only=_TIMERS
    ),
    _gauge(
        "rocketmq_timer_enqueue_latency_milliseconds",
        _STORE,
        "For how long the first timed message that is not entered has been there",
        unit="milliseconds",
        only=_TIMERS,
    ),
    _gauge("rocketmq_timer_dequeue_lag", _STORE, "Timed messages that wait", only=_TIMERS),
    _gauge(
        "rocketmq_timer_dequeue_latency_milliseconds",
        _STORE,
        "How late the first slot is that is not delivered: in seconds, as officially",
        unit="milliseconds",
        only=_TIMERS,
    ),
    _gauge(
        "rocketmq_timing_messages",
        f"{_STORE} topic",
        "Timed messages that wait, by topic",
        only=_TIMERS,
    ),
    _counter(
        "rocketmq_timer_enqueue_total",
        f"{_STORE} topic",
        "Timed messages entered, since the start",
        only=_TIMERS,
    ),
    _counter(
        "rocketmq_timer_dequeue_total",
        f"{_STORE} topic",
        "Timed messages delivered or deleted, since the start",
        only=_TIMERS,
    ),
    _gauge(
        "rocketmq_timer_message_snapshot",
        f"{_STORE} timer_bound_s",
        "Timed messages that are due within so many seconds, and not within the bound before",
        only=_TIMERS,
    ),
    _histogram(
        "rocketmq_delay_message_latency_seconds",
        f"{_STORE} topic",
        "For how long timed messages are to wait",
        _DELAY_BOUNDS_S,
        unit="seconds",
        only=_TIMERS,
    ),
    _gauge("rocketmq_pop_checkpoint_buffer_size", "", "Pops that are open in memory"),
    _gauge("rocketmq_pop_offset_buffer_size", "", "Pops in memory whose offsets are not committed"),
    _gauge(
        "rocketmq_pop_revive_lag_milliseconds",
        "queue_id",
        "Check points that were not looked at: messages, whatever the name, as officially",
        unit="milliseconds",
    ),
    _gauge(
        "rocketmq_pop_revive_latency_milliseconds",
        "queue_id",
        "For how long the first of them has been there",
        unit="milliseconds",
    ),
    # Ours.
    _gauge("mqcore_broker_healthy", "", "1 when nothing is wrong"),
    _counter("mqcore_sends_total", "", "Messages stored for sends, since the start"),
    _counter("mqcore_pulled_total", "", "Messages given to pulls and pops, since the start"),
    _counter("mqcore_sent_back_total", "consumer_group topic", "Messages sent back for a retry"),
    _counter("mqcore_refused_total", "reason", "Requests refused, since the start"),
    _counter(
        "mqcore_connections_closed_total",
        "reason",
        "Connections closed for a fault, since the start",
    ),
    _counter(
        "mqcore_throttled_seconds_total",
        "who",
        "For how long a rule of `mqcoreQuotas` has held requests back",
    ),
    _counter("mqcore_throttled_total", "who", "Requests that a rule of `mqcoreQuotas` held back"),
    _counter(
        "mqcore_quota_refused_total",
        "who",
        "Requests that a rule of `mqcoreQuotas` refused",
    ),
    _gauge("mqcore_throttled", "who", "Requests that a rule of `mqcoreQuotas` holds back now"),
    _counter(
        "mqcore_failed_signatures_total",
        "answered",
        "Wrong signatures that were answered late, or not at all (`never`)",
    ),
    _counter(
        "mqcore_admin_changes_total",
        "outcome",
        "Changes of one user that came too fast: held back, or refused",
    ),
    _gauge("mqcore_connections", "", "Connections"),
    _gauge(
        "mqcore_user_connections",
        "user",
        "Connections of the users who hold most, where requests are signed",
    ),
    _gauge(
        "mqcore_user_held_bytes",
        "user",
        "What the connections of those users hold of unfinished frames and waiting requests",
    ),
    _histogram(
        "mqcore_request_stage_seconds",
        "kind stage",
        "How long a stage of a request took (`mqcore broker slow --stages`)",
        _STAGE_BOUNDS_S,
        unit="seconds",
    ),
    _counter(
        "mqcore_requests_untimed_total",
        "",
        "Answers without a time: too many at once, since the start",
    ),
    _gauge(
        "mqcore_series_left_out",
        "family",
        "Samples beyond `metricsOtelCardinalityLimit` that are summed up as `_other`",
    ),
    _counter(
        "mqcore_transaction_checks_total",
        "result",
        "Half messages asked about, by what became of the question",
    ),
    _gauge("mqcore_consumers_online", "consumer_group", "Members of a group that are connected"),
    _gauge(
        "mqcore_inconsistent_subscriptions",
        "consumer_group",
        "Different subscriptions inside one group",
    ),
    _counter(
        "mqcore_subscription_conflicts_total",
        "",
        "How often members of a group came to subscribe differently",
    ),
    _gauge("mqcore_log_bytes", "", "Bytes of the log", unit="bytes"),
    _gauge("mqcore_disk_free_bytes", "", "What is free on the partition of the log", unit="bytes"),
    _gauge("mqcore_disk_size_bytes", "", "The size of that partition", unit="bytes"),
    _gauge("mqcore_damage_reports", "kind", "Cuts and replacements in the log, not acknowledged"),
    _gauge(
        "mqcore_damage_bytes",
        "kind",
        "Bytes cut off the log or replaced, not acknowledged",
        unit="bytes",
    ),
    _gauge("mqcore_damage_whole_records", "kind", "Whole records that were cut off"),
    _counter(
        "mqcore_store_damage_total",
        "kind",
        "Found damaged in the store: records, queue units made again, queue offsets lost",
    ),
    _gauge("mqcore_memory_bytes", "kind", "Memory of the store", unit="bytes"),
    _gauge("mqcore_is_master", "", "1 for a master, 0 for a slave"),
    _gauge("mqcore_replicas", "", "Slaves that are connected", only=_MASTER),
    _gauge(
        "mqcore_replica_lag_bytes",
        "replica",
        "Bytes of the log that a slave has not reported",
        unit="bytes",
        only=_MASTER,
    ),
    _gauge(
        "mqcore_replica_lag_milliseconds",
        "replica",
        "How long ago a slave had everything that was stored",
        unit="milliseconds",
        only=_MASTER,
    ),
    _gauge(
        "mqcore_replica_sent_bytes_per_second",
        "replica",
        "Bytes sent to a slave in the last second",
        only=_MASTER,
    ),
    _gauge(
        "mqcore_replication_connected",
        "",
        "1 while this slave is connected to its master",
        only=_SLAVE,
    ),
    _gauge(
        "mqcore_refill_bytes",
        "",
        "Bytes of whole files of the master that are in the log",
        unit="bytes",
        only="a slave that copies whole files",
    ),
    _gauge(
        "mqcore_refill_total_bytes",
        "",
        "Bytes of whole files of the master that are to come, and that are there",
        unit="bytes",
        only="a slave that copies whole files",
    ),
    _counter("mqcore_pop_records_total", "", "Check points and acknowledgements of pops stored"),
    _counter("mqcore_pop_revived_total", "", "Messages that came again after a pop"),
    _counter(
        "mqcore_deduplication_repeats_total",
        "",
        "Sends answered as an earlier one",
        only=_DEDUPLICATION,
    ),
    _counter(
        "mqcore_deduplication_told_apart_total",
        "",
        "Same key, another message",
        only=_DEDUPLICATION,
    ),
    _counter(
        "mqcore_deduplication_displaced_total",
        "",
        "Forgotten before their time",
        only=_DEDUPLICATION,
    ),
    _gauge("mqcore_deduplication_keys", "", "Messages that are remembered", only=_DEDUPLICATION),
    _gauge("mqcore_deduplication_window_ms", "", "How far back", only=_DEDUPLICATION),
    *AUDIT_FAMILIES,
    *PROGRAM_FAMILIES,
)

# Those by topic and by group, of which there may be a hundred thousand series: written by the fast
# path, each under the name of its figure there.
BULK: Final[Mapping[str, str]] = MappingProxyType(
    {
        "rocketmq_messages_in_total": "messages_in",
        "rocketmq_throughput_in_total": "throughput_in",
        "rocketmq_message_size": "message_size",
        "rocketmq_messages_out_total": "messages_out",
        "rocketmq_throughput_out_total": "throughput_out",
        "rocketmq_consumer_lag_messages": "lag_messages",
        "rocketmq_consumer_lag_latency_milliseconds": "lag_latency",
        "rocketmq_consumer_inflight_messages": "inflight_messages",
        "rocketmq_consumer_ready_messages": "ready_messages",
        "rocketmq_consumer_queueing_latency_milliseconds": "queueing_latency",
    }
)

# Where the instrument of RocketMQ has another name or unit than Prometheus's name shows.
_PUSHED: Final = {
    "rocketmq_storage_flush_behind_bytes": ("rocketmq_storage_flush_behind_bytes", "bytes"),
    "rocketmq_storage_dispatch_behind_bytes": ("rocketmq_storage_dispatch_behind_bytes", "bytes"),
    "rocketmq_finish_message_latency_milliseconds": ("rocketmq_finish_message_latency", "ms"),
}
# By name, in the order in which they are shown.
FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {row.name: replace(row, pushed=_PUSHED.get(row.name)) for row in _ROWS}
)
