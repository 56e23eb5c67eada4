"""The boards, as data: panels with their expressions and units. Knows no file and no Grafana."""

from dataclasses import dataclass

# What variables of a board select by.
OF_BROKER = 'cluster=~"$cluster",node_id=~"$node_id"'
_OF_GROUP = 'consumer_group=~"$consumer_group"'
_LAG = f'topic=~"$topic",{_OF_GROUP}'


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        title: Its title.
        unit: Of its values, as Grafana names units.
        queries: Expressions with the names of their series.
        kind: `timeseries`, `stat` or `table`.
        words: What it shows, where the title does not show it.
    """

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    words: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """One board.

    Attributes:
        uid: What its address is made of.
        title: Its title.
        panels: Its panels, two in a row.
        variables: Which labels it lets choose.
    """

    uid: str
    title: str
    panels: tuple[Panel, ...]
    variables: tuple[str, ...] = ("cluster", "node_id")


def _rate(name: str, by: str, more: str = "") -> str:
    return f"sum by ({by}) (rate({{{name}{more}}}[$__rate_interval]))"


def _quantile(share: float, name: str, by: str, more: str = "") -> str:
    buckets = f"sum by (le, {by}) (rate({{{name}:bucket{more}}}[$__rate_interval]))"
    return f"histogram_quantile({share}, {buckets})"


_STAGE = "mqcore_request_stage_seconds"

CLUSTER = Board(
    "mqcore-cluster",
    "mqcore: cluster",
    (
        Panel(
            "Brokers",
            "short",
            (("count by (cluster) ({mqcore_build_info})", "{{cluster}}"),),
            "stat",
        ),
        Panel(
            "Brokers that take no messages",
            "short",
            (
                (
                    "count by (cluster) ({mqcore_broker_healthy} == 0) or "
                    "0 * count by (cluster) ({mqcore_broker_healthy})",
                    "{{cluster}}",
                ),
            ),
            "stat",
        ),
        Panel(
            "Messages in", "ops", ((_rate("rocketmq_messages_in_total", "node_id"), "{{node_id}}"),)
        ),
        Panel(
            "Messages out",
            "ops",
            ((_rate("rocketmq_messages_out_total", "node_id"), "{{node_id}}"),),
        ),
        Panel(
            "Bytes in", "Bps", ((_rate("rocketmq_throughput_in_total", "node_id"), "{{node_id}}"),)
        ),
        Panel(
            "Bytes out",
            "Bps",
            ((_rate("rocketmq_throughput_out_total", "node_id"), "{{node_id}}"),),
        ),
        Panel(
            "Share of requests that fail",
            "percentunit",
            (
                (
                    "sum by (node_id) (rate({rocketmq_rpc_latency_milliseconds:count;"
                    'response_code!~"success|pull_.*|polling_timeout|query_not_found"}'
                    "[$__rate_interval])) / sum by (node_id) "
                    "(rate({rocketmq_rpc_latency_milliseconds:count}[$__rate_interval])) "
                    "or 0 * sum by (node_id) "
                    "(rate({rocketmq_rpc_latency_milliseconds:count}[$__rate_interval]))",
                    "{{node_id}}",
                ),
            ),
        ),
        Panel(
            "Free disk",
            "percentunit",
            (("{mqcore_disk_free_bytes} / {mqcore_disk_size_bytes}", "{{node_id}}"),),
        ),
        Panel(
            "Messages that wait for groups",
            "short",
            (
                (
                    'sum by (cluster) ({rocketmq_consumer_lag_messages;is_system="false"})',
                    "{{cluster}}",
                ),
            ),
        ),
        Panel(
            "Slaves",
            "short",
            (("{mqcore_replicas}", "{{node_id}}"),),
        ),
    ),
)

BROKER = Board(
    "mqcore-broker",
    "mqcore: broker",
    (
        Panel(
            "Sends, p50 and p99",
            "ms",
            tuple(
                (
                    _quantile(
                        share,
                        "rocketmq_rpc_latency_milliseconds",
                        "node_id",
                        ';request_code=~"send.*"',
                    ),
                    f"{{{{node_id}}}} {name}",
                )
                for share, name in ((0.5, "p50"), (0.99, "p99"))
            ),
        ),
        Panel(
            "Requests by code, p99",
            "ms",
            (
                (
                    _quantile(0.99, "rocketmq_rpc_latency_milliseconds", "request_code"),
                    "{{request_code}}",
                ),
            ),
            words="Pulls that are held count with the time for which they were.",
        ),
        Panel(
            "Stages of sends, p99",
            "s",
            ((_quantile(0.99, _STAGE, "stage", ';kind="send"'), "{{stage}}"),),
            words="Where the time of sends goes; `mqcore broker slow` has the slowest ones.",
        ),
        Panel(
            "Stages of pulls, p99",
            "s",
            ((_quantile(0.99, _STAGE, "stage", ';kind="pull",stage!="held"'), "{{stage}}"),),
        ),
        Panel(
            "Requests by code",
            "reqps",
            (
                (
                    "sum by (request_code) "
                    "(rate({rocketmq_rpc_latency_milliseconds:count}[$__rate_interval]))",
                    "{{request_code}}",
                ),
            ),
        ),
        Panel(
            "Requests that wait",
            "short",
            (
                (
                    "sum by (processor) ({rocketmq_processor_watermark}) > 0 or "
                    'sum by (processor) ({rocketmq_processor_watermark;processor=~"send|pull"})',
                    "{{processor}}",
                ),
            ),
        ),
        Panel(
            "Refusals by reason",
            "ops",
            ((_rate("mqcore_refused_total", "reason"), "{{reason}}"),),
        ),
        Panel(
            "Held back by quotas, seconds per second",
            "short",
            ((_rate("mqcore_throttled_seconds_total", "who"), "{{who}}"),),
        ),
        Panel("Connections", "short", (("{mqcore_connections}", "{{node_id}}"),)),
        Panel(
            "Stored and not synced; not in queues",
            "bytes",
            (
                ("{rocketmq_storage_flush_behind_bytes}", "{{node_id}} sync"),
                ("{rocketmq_storage_dispatch_behind_bytes}", "{{node_id}} queues"),
            ),
        ),
        Panel("Memory of the store", "bytes", (("{mqcore_memory_bytes}", "{{node_id}} {{kind}}"),)),
        Panel(
            "Size of the log; age of its first message",
            "bytes",
            (("{mqcore_log_bytes}", "{{node_id}}"),),
        ),
        Panel(
            "Damage that nobody acknowledged",
            "short",
            (("{mqcore_damage_reports}", "{{node_id}} {{kind}}"),),
            "stat",
        ),
    ),
)

TOPICS = Board(
    "mqcore-topics",
    "mqcore: topics and groups",
    (
        Panel(
            "Messages in by topic",
            "ops",
            ((_rate("rocketmq_messages_in_total", "topic", ';topic=~"$topic"'), "{{topic}}"),),
        ),
        Panel(
            "Messages in by kind",
            "ops",
            (
                (
                    _rate("rocketmq_messages_in_total", "message_type", ';topic=~"$topic"'),
                    "{{message_type}}",
                ),
            ),
        ),
        Panel(
            "Messages out by group",
            "ops",
            (
                (
                    _rate("rocketmq_messages_out_total", "consumer_group", f";{_LAG}"),
                    "{{consumer_group}}",
                ),
            ),
        ),
        Panel(
            "Size of messages, p95",
            "bytes",
            ((_quantile(0.95, "rocketmq_message_size", "topic", ';topic=~"$topic"'), "{{topic}}"),),
        ),
        Panel(
            "Lag in messages",
            "short",
            (
                (
                    f"sum by (consumer_group, topic) ({{rocketmq_consumer_lag_messages;{_LAG}}})",
                    "{{consumer_group}} {{topic}}",
                ),
            ),
        ),
        Panel(
            "Lag in time",
            "ms",
            (
                (
                    "max by (consumer_group, topic) "
                    f"({{rocketmq_consumer_lag_latency_milliseconds;{_LAG}}})",
                    "{{consumer_group}} {{topic}}",
                ),
            ),
        ),
        Panel(
            "Given and not committed",
            "short",
            (
                (
                    "sum by (consumer_group, topic) "
                    f"({{rocketmq_consumer_inflight_messages;{_LAG}}})",
                    "{{consumer_group}} {{topic}}",
                ),
            ),
        ),
        Panel(
            "Not given yet",
            "short",
            (
                (
                    f"sum by (consumer_group, topic) ({{rocketmq_consumer_ready_messages;{_LAG}}})",
                    "{{consumer_group}} {{topic}}",
                ),
            ),
        ),
        Panel(
            "Time before messages are given",
            "ms",
            (
                (
                    "max by (consumer_group, topic) "
                    f"({{rocketmq_consumer_queueing_latency_milliseconds;{_LAG}}})",
                    "{{consumer_group}} {{topic}}",
                ),
            ),
        ),
        Panel(
            "Members",
            "short",
            (
                (
                    f"sum by (consumer_group) ({{mqcore_consumers_online;{_OF_GROUP}}})",
                    "{{consumer_group}}",
                ),
            ),
        ),
        Panel(
            "Dead letters",
            "short",
            (
                (
                    "sum by (consumer_group) ({rocketmq_send_to_dlq_messages_total;"
                    'consumer_group=~"$consumer_group"})',
                    "{{consumer_group}}",
                ),
            ),
        ),
        Panel(
            "Sent back for a retry",
            "short",
            (
                (
                    f"sum by (consumer_group) ({{mqcore_sent_back_total;{_OF_GROUP}}})",
                    "{{consumer_group}}",
                ),
            ),
        ),
    ),
    ("cluster", "node_id", "topic", "consumer_group"),
)

LATER = Board(
    "mqcore-later",
    "mqcore: messages for later",
    (
        Panel("Timed messages that wait", "short", (("{rocketmq_timing_messages}", "{{topic}}"),)),
        Panel(
            "The same by the time until they are due",
            "short",
            (
                (
                    "sum by (timer_bound_s) ({rocketmq_timer_message_snapshot})",
                    "{{timer_bound_s}} s",
                ),
            ),
        ),
        Panel(
            "Timed messages entered and delivered",
            "ops",
            (
                (_rate("rocketmq_timer_enqueue_total", "topic"), "{{topic}} in"),
                (_rate("rocketmq_timer_dequeue_total", "topic"), "{{topic}} out"),
            ),
        ),
        Panel(
            "How late timers are",
            "s",
            (("{rocketmq_timer_dequeue_latency_milliseconds}", "{{node_id}}"),),
            words="In seconds, whatever the name, as officially.",
        ),
        Panel(
            "For how long messages are to wait, p95",
            "s",
            ((_quantile(0.95, "rocketmq_delay_message_latency_seconds", "topic"), "{{topic}}"),),
        ),
        Panel("Half messages", "short", (("{rocketmq_half_messages}", "{{topic}}"),)),
        Panel(
            "Ends of transactions",
            "short",
            (
                ("sum by (topic) ({rocketmq_commit_messages_total})", "{{topic}} committed"),
                ("sum by (topic) ({rocketmq_rollback_messages_total})", "{{topic}} rolled back"),
            ),
        ),
        Panel(
            "Questions about half messages",
            "ops",
            ((_rate("mqcore_transaction_checks_total", "result"), "{{result}}"),),
        ),
        Panel(
            "Pops that are open",
            "short",
            (("{rocketmq_pop_checkpoint_buffer_size}", "{{node_id}}"),),
        ),
        Panel(
            "Check points that were not looked at",
            "short",
            (("sum by (queue_id) ({rocketmq_pop_revive_lag_milliseconds})", "queue {{queue_id}}"),),
        ),
    ),
)

PROCESS = Board(
    "mqcore-process",
    "mqcore: process",
    (
        Panel(
            "Processors in use",
            "short",
            ((_rate("mqcore_process_cpu_seconds_total", "node_id"), "{{node_id}}"),),
        ),
        Panel("Memory", "bytes", (("{mqcore_process_resident_bytes}", "{{node_id}}"),)),
        Panel(
            "Open files",
            "short",
            (
                ("{mqcore_process_open_files}", "{{node_id}}"),
                ("{mqcore_process_files_limit}", "{{node_id}} limit"),
            ),
        ),
        Panel(
            "Running for",
            "s",
            (("time() - {mqcore_process_start_seconds}", "{{node_id}}"),),
            "stat",
        ),
        Panel(
            "Versions",
            "short",
            (("count by (version) ({mqcore_build_info})", "{{version}}"),),
            "table",
        ),
        Panel(
            "Lines of the audit",
            "ops",
            (
                (_rate("mqcore_audit_lines_total", "node_id, event"), "{{node_id}} {{event}}"),
                (_rate("mqcore_audit_lines_missed_total", "node_id"), "{{node_id}} not written"),
            ),
            words="Changes, and what access control has refused.",
        ),
        Panel(
            "Bytes of the audit",
            "Bps",
            ((_rate("mqcore_audit_bytes_total", "node_id"), "{{node_id}}"),),
        ),
        Panel(
            "Series that are summed up",
            "short",
            (
                (
                    "sum by (node_id) ({mqcore_series_left_out}) or "
                    "0 * sum by (node_id) ({mqcore_build_info})",
                    "{{node_id}}",
                ),
            ),
        ),
    ),
)

BOARDS = (CLUSTER, BROKER, TOPICS, LATER, PROCESS)
