"""The alerts, as data: when one is raised, how soon, how urgent, and an example that raises it.

A run-book has a section for each (`docs/run-books.md`). Knows no file.
"""

from dataclasses import dataclass, field

JOB = 'job="mqcore"'
# The page of the run-books; `write.py --run-books URL` links to one's own copy of it.
RUN_BOOKS = "docs/run-books.md"
_MIB = 1 << 20
_BROKER = 'cluster="c",node_type="broker",node_id="b"'
_LOCAL = f'{_BROKER},storage_type="local",storage_medium="disk"'


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        name: Its name: the heading of its section in the run-book.
        expr: When it holds; families as `expressions` has them.
        wait: For how long it has to hold.
        level: `page` wakes somebody, `ticket` waits for the morning.
        summary: One line, with the labels of the series.
        raising: Series with values a minute apart that raise it, as promtool has them.
        at: When it is raised by them.
        labels: Labels of the alert that they raise.
    """

    name: str
    expr: str
    wait: str
    level: str
    summary: str
    raising: dict[str, str]
    at: str
    labels: dict[str, str] = field(default_factory=dict)

    def link(self, run_books: str = RUN_BOOKS) -> str:
        """Returns where its section is."""
        return f"{run_books}#{self.name.lower()}"


def _one(name: str, labels: str, values: str) -> dict[str, str]:
    return {f"{name}{{{labels}}}": values}


_NODE = {"cluster": "c", "node_id": "b"}
_WHOLE = {**_NODE, "node_type": "broker"}
_GROUP = f'{_BROKER},consumer_group="g",topic="t",is_retry="false",is_system="false"'

ALERTS = (
    Alert(
        "BrokerDown",
        f"{{up;{JOB}}} == 0",
        "1m",
        "page",
        "{{ $labels.instance }} does not answer Prometheus",
        _one("up", f'{JOB},instance="i"', "0x10"),
        "2m",
        {"job": "mqcore", "instance": "i"},
    ),
    Alert(
        "StoreRefuses",
        "{mqcore_broker_healthy} == 0",
        "0m",
        "page",
        "{{ $labels.node_id }} takes no messages",
        _one("mqcore_broker_healthy", _BROKER, "0x10"),
        "1m",
        _WHOLE,
    ),
    Alert(
        "DiskFullSoon",
        "predict_linear({mqcore_disk_free_bytes}[1h], 4 * 3600) < 0",
        "15m",
        "page",
        "The disk of {{ $labels.node_id }} is full within four hours",
        _one("mqcore_disk_free_bytes", _BROKER, "200000-1000x120"),
        "90m",
        _WHOLE,
    ),
    Alert(
        "DiskNearlyFull",
        "{mqcore_disk_free_bytes} / {mqcore_disk_size_bytes} < 0.15",
        "10m",
        "ticket",
        "The disk of {{ $labels.node_id }} is full to more than 85 percent",
        {
            **_one("mqcore_disk_free_bytes", _BROKER, "10x30"),
            **_one("mqcore_disk_size_bytes", _BROKER, "100x30"),
        },
        "15m",
        _WHOLE,
    ),
    Alert(
        "GroupBehind",
        "max by (cluster, consumer_group, topic) "
        '({rocketmq_consumer_lag_latency_milliseconds;is_retry="false"}) > 300000 '
        "and max by (cluster, consumer_group, topic) "
        '(deriv({rocketmq_consumer_lag_messages;is_retry="false"}[15m])) > 0',
        "10m",
        "ticket",
        "{{ $labels.consumer_group }} is five minutes behind on {{ $labels.topic }} and falls back",
        {
            **_one("rocketmq_consumer_lag_latency_milliseconds", _GROUP, "400000x40"),
            **_one("rocketmq_consumer_lag_messages", _GROUP, "0+100x40"),
        },
        "30m",
        {"cluster": "c", "consumer_group": "g", "topic": "t"},
    ),
    Alert(
        "GroupGone",
        "sum by (cluster, consumer_group) "
        '({rocketmq_consumer_lag_messages;is_system="false"}) > 0 '
        "unless sum by (cluster, consumer_group) ({mqcore_consumers_online}) > 0",
        "10m",
        "ticket",
        "{{ $labels.consumer_group }} has messages to read and no member",
        _one("rocketmq_consumer_lag_messages", _GROUP, "5x40"),
        "15m",
        {"cluster": "c", "consumer_group": "g"},
    ),
    Alert(
        "DeadLetters",
        # A series that is new begins above zero: its increase is not seen otherwise.
        "sum by (cluster, consumer_group) "
        "(increase({rocketmq_send_to_dlq_messages_total}[10m])) > 0 or "
        "sum by (cluster, consumer_group) ({rocketmq_send_to_dlq_messages_total} "
        "unless {rocketmq_send_to_dlq_messages_total} offset 10m) > 0",
        "0m",
        "ticket",
        "{{ $labels.consumer_group }} has given up messages",
        _one(
            "rocketmq_send_to_dlq_messages_total",
            f'{_BROKER},consumer_group="g",topic="t",is_system="false"',
            "_x5 1x20",
        ),
        "7m",
        {"cluster": "c", "consumer_group": "g"},
    ),
    Alert(
        "Refusals",
        "sum by (cluster, node_id, reason) (rate({mqcore_refused_total;"
        'reason=~"busy|unavailable|system_busy|service_not_available"}[5m])) > 0',
        "5m",
        "page",
        "{{ $labels.node_id }} refuses requests: {{ $labels.reason }}",
        _one("mqcore_refused_total", f'{_BROKER},reason="busy"', "0+60x30"),
        "15m",
        {**_NODE, "reason": "busy"},
    ),
    Alert(
        "SlowSends",
        "histogram_quantile(0.99, sum by (cluster, node_id, le) "
        '(rate({rocketmq_rpc_latency_milliseconds:bucket;request_code=~"send.*"}[5m]))) > 100',
        "10m",
        "ticket",
        "One send in a hundred at {{ $labels.node_id }} takes longer than 100 ms",
        {
            f'rocketmq_rpc_latency_milliseconds_bucket{{{_BROKER},protocol_type="remoting",'
            'request_code="send_message_v2",response_code="success",is_long_polling="false",'
            f'result="success",le="{end}"}}': values
            for end, values in (("100.0", "0x40"), ("1000.0", "0+60x40"), ("+Inf", "0+60x40"))
        },
        "30m",
        _NODE,
    ),
    Alert(
        "FlushBehind",
        f"{{rocketmq_storage_flush_behind_bytes}} > {256 * _MIB}",
        "5m",
        "ticket",
        "{{ $labels.node_id }} has 256 MiB and more that are not synced",
        _one("rocketmq_storage_flush_behind_bytes", _LOCAL, f"{300 * _MIB}x20"),
        "10m",
        {**_WHOLE, "storage_type": "local", "storage_medium": "disk"},
    ),
    Alert(
        "DispatchBehind",
        f"{{rocketmq_storage_dispatch_behind_bytes}} > {256 * _MIB}",
        "5m",
        "ticket",
        "{{ $labels.node_id }} has 256 MiB and more that no consumer sees yet",
        _one("rocketmq_storage_dispatch_behind_bytes", _LOCAL, f"{300 * _MIB}x20"),
        "10m",
        {**_WHOLE, "storage_type": "local", "storage_medium": "disk"},
    ),
    Alert(
        "HalfMessagesPileUp",
        "sum by (cluster, topic) ({rocketmq_half_messages}) > 0 "
        "and sum by (cluster, topic) (deriv({rocketmq_half_messages}[1h])) > 0",
        "30m",
        "ticket",
        "Transactions of {{ $labels.topic }} are begun and not ended",
        _one("rocketmq_half_messages", f'{_BROKER},topic="t"', "0+1x120"),
        "100m",
        {"cluster": "c", "topic": "t"},
    ),
    Alert(
        "TimersLate",
        # In seconds, whatever the name.
        "{rocketmq_timer_dequeue_latency_milliseconds} > 5",
        "10m",
        "ticket",
        "{{ $labels.node_id }} delivers timed messages more than five seconds late",
        _one("rocketmq_timer_dequeue_latency_milliseconds", _LOCAL, "9x30"),
        "15m",
        {**_WHOLE, "storage_type": "local", "storage_medium": "disk"},
    ),
    Alert(
        "DividedGroup",
        "{mqcore_inconsistent_subscriptions} > 1",
        "5m",
        "ticket",
        "Members of {{ $labels.consumer_group }} subscribe to different messages",
        _one("mqcore_inconsistent_subscriptions", f'{_BROKER},consumer_group="g"', "2x20"),
        "10m",
        {**_WHOLE, "consumer_group": "g"},
    ),
    Alert(
        "ReplicaBehind",
        "{mqcore_replica_lag_milliseconds} > 10000",
        "5m",
        "page",
        "{{ $labels.replica }} is more than ten seconds behind {{ $labels.node_id }}",
        _one("mqcore_replica_lag_milliseconds", f'{_BROKER},replica="r"', "20000x20"),
        "10m",
        {**_WHOLE, "replica": "r"},
    ),
    Alert(
        "SlaveAlone",
        "{mqcore_replication_connected} == 0",
        "2m",
        "page",
        "{{ $labels.node_id }} is not connected to its master",
        _one("mqcore_replication_connected", _BROKER, "0x20"),
        "5m",
        _WHOLE,
    ),
    Alert(
        "DamageReported",
        "sum by (cluster, node_id, kind) ({mqcore_damage_reports}) > 0",
        "0m",
        "page",
        "Something of the log of {{ $labels.node_id }} was cut or replaced: {{ $labels.kind }}",
        _one("mqcore_damage_reports", f'{_BROKER},kind="cut"', "1x20"),
        "2m",
        {**_NODE, "kind": "cut"},
    ),
    Alert(
        "FilesRunOut",
        "{mqcore_process_open_files} / {mqcore_process_files_limit} > 0.8",
        "5m",
        "ticket",
        "{{ $labels.node_id }} has four fifths of the files open that it may have",
        {
            **_one("mqcore_process_open_files", _BROKER, "900x20"),
            **_one("mqcore_process_files_limit", _BROKER, "1000x20"),
        },
        "10m",
        _WHOLE,
    ),
    Alert(
        "CertificateEnds",
        "{mqcore_tls_certificate_not_after_seconds} - time() < 14 * 86400",
        "10m",
        "ticket",
        "The {{ $labels.kind }} certificate of {{ $labels.node_id }} ends within two weeks",
        _one("mqcore_tls_certificate_not_after_seconds", f'{_BROKER},kind="server"', "86400x30"),
        "15m",
        {**_WHOLE, "kind": "server"},
    ),
    Alert(
        "CertificateRefused",
        "{mqcore_tls_files_refused} > 0",
        "10m",
        "ticket",
        "Renewed {{ $labels.kind }} certificates of {{ $labels.node_id }} cannot be used",
        _one("mqcore_tls_files_refused", f'{_BROKER},kind="server"', "1x30"),
        "15m",
        {**_WHOLE, "kind": "server"},
    ),
    Alert(
        "AuditNotWritten",
        "{mqcore_audit_failing} > 0",
        "5m",
        "ticket",
        "The audit of {{ $labels.node_id }} cannot be written",
        _one("mqcore_audit_failing", _BROKER, "1x20"),
        "10m",
        _WHOLE,
    ),
    Alert(
        "SeriesLeftOut",
        "{mqcore_series_left_out} > 0",
        "10m",
        "ticket",
        "Too many series of {{ $labels.family }}: some are summed up as _other",
        _one("mqcore_series_left_out", f'{_BROKER},family="f"', "3x30"),
        "15m",
        {**_WHOLE, "family": "f"},
    ),
)
