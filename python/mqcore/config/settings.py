"""What broker and name server are built with: typed settings, made from a configuration.

Frozen: who changes a setting makes a new one with `dataclasses.replace`. Each field names the
official key that it comes from; the table of keys holds the defaults, this file none.
"""

import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from mqcore.config.effective import Configuration, resolved
from mqcore.config.keys import Program
from mqcore.config.layers import Layer
from mqcore.errors import ConfigurationError

# An address of documentation: nothing is sent there, the system only says which way it would go.
_FAR_AWAY = ("192.0.2.1", 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """Where and how a program listens. Field by field the official key."""

    host: Annotated[str, "bindAddress"]
    port: Annotated[int, "listenPort"]
    idle_s: Annotated[int, "serverChannelMaxIdleTimeSeconds"]
    backlog: Annotated[int, "serverSocketBacklog"]
    connections_max: Annotated[int, "connectionsMax"]
    send_buffer_bytes: Annotated[int, "serverSocketSndBufSize"]
    receive_buffer_bytes: Annotated[int, "serverSocketRcvBufSize"]
    tls_mode: Annotated[str, "tls.server.mode"]
    tls_certificate: Annotated[Path | str, "tls.server.certPath"]
    tls_key: Annotated[Path | str, "tls.server.keyPath"]
    tls_key_password: Annotated[str, "tls.server.keyPassword"] = field(repr=False)
    tls_trusted: Annotated[Path | str, "tls.server.trustCertPath"]
    tls_need_client_auth: Annotated[str, "tls.server.need.client.auth"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """A broker. Field by field the official key; times in the unit of the name.

    Attributes:
        listener: Where it listens.
        engine: The store's own settings that somebody set, for `mqcore.Store(config=...)`.
        configuration: All settings with their sources: what an administrator is shown.
    """

    listener: ListenerSettings
    engine: Mapping[str, str]
    configuration: Configuration = field(repr=False, compare=False)
    store_dir: Annotated[Path, "storePathRootDir"]
    name_servers: Annotated[tuple[str, ...], "namesrvAddr"]
    advertised_host: Annotated[str, "brokerIP1"]
    replication_host: Annotated[str, "brokerIP2"]
    replication_port: Annotated[int, "haListenPort"]
    name: Annotated[str, "brokerName"]
    cluster: Annotated[str, "brokerClusterName"]
    broker_id: Annotated[int, "brokerId"]
    permission: Annotated[int, "brokerPermission"]
    default_topic_queues: Annotated[int, "defaultTopicQueueNums"]
    creates_topics: Annotated[bool, "autoCreateTopicEnable"]
    has_cluster_topic: Annotated[bool, "clusterTopicEnable"]
    has_broker_topic: Annotated[bool, "brokerTopicEnable"]
    creates_groups: Annotated[bool, "autoCreateSubscriptionGroup"]
    trace_topic: Annotated[str, "msgTraceTopicName"]
    has_trace_topic: Annotated[bool, "traceTopicEnable"]
    is_trace_on: Annotated[bool, "traceOn"]
    region: Annotated[str, "regionId"]
    register_interval_ms: Annotated[int, "registerNameServerPeriod"]
    register_timeout_ms: Annotated[int, "registerBrokerTimeoutMills"]
    offsets_interval_ms: Annotated[int, "flushConsumerOffsetInterval"]
    delay_offsets_interval_ms: Annotated[int, "flushDelayOffsetInterval"]
    delay_levels: Annotated[str, "messageDelayLevel"]
    has_timers: Annotated[bool, "timerWheelEnable"]
    timer_max_delay_s: Annotated[int, "timerMaxDelaySec"]
    timers_congested_at: Annotated[int, "timerCongestNumEachSlot"]
    timers_flush_ms: Annotated[int, "timerFlushIntervalMs"]
    timers_stopped: Annotated[bool, "timerStopEnqueue"]
    timers_silent_after_start_ms: Annotated[int, "disappearTimeAfterStart"]
    allows_recall: Annotated[bool, "recallMessageEnable"]
    allows_recall_read_only: Annotated[bool, "allowRecallWhenBrokerNotWriteable"]
    pop_revive_queues: Annotated[int, "reviveQueueNum"]
    pop_revive_interval_ms: Annotated[int, "reviveInterval"]
    pop_has_buffer: Annotated[bool, "enablePopBufferMerge"]
    pop_stay_ms: Annotated[int, "popCkStayBufferTime"]
    pop_stored_before_ms: Annotated[int, "popCkStayBufferTimeOut"]
    pop_kept_max: Annotated[int, "popCkMaxBufferSize"]
    pop_kept_per_queue_max: Annotated[int, "popCkOffsetMaxQueueSize"]
    pop_bounds_in_flight: Annotated[bool, "enablePopMessageThreshold"]
    pop_in_flight_max: Annotated[int, "popInflightMessageThreshold"]
    pop_retry_first_percent: Annotated[int, "popFromRetryProbability"]
    pop_has_retry_v2: Annotated[bool, "enableRetryTopicV2"]
    pop_reads_retry_v1: Annotated[bool, "retrieveMessageFromPopRetryTopicV1"]
    pop_begins_in_memory: Annotated[bool, "initPopOffsetByCheckMsgInMem"]
    pop_names_retry_topic: Annotated[bool, "popResponseReturnActualRetryTopic"]
    deletes_pop_retry_topics: Annotated[bool, "clearRetryTopicWhenDeleteTopic"]
    pop_held_per_line: Annotated[int, "popPollingSize"]
    pop_held_max: Annotated[int, "maxPopPollingSize"]
    held_pulls_max: Annotated[int, "heldPullsMax"]
    held_pulls_per_connection_max: Annotated[int, "heldPullsPerConnectionMax"]
    held_pulls_per_queue_max: Annotated[int, "heldPullsPerQueueMax"]
    parked_sends_max: Annotated[int, "parkedSendsMax"]
    parked_sends_per_connection_max: Annotated[int, "parkedSendsPerConnectionMax"]
    rejects_transactions: Annotated[bool, "rejectTransactionMessage"]
    keeps_reset_offsets: Annotated[bool, "useServerSideResetOffset"]
    transaction_timeout_ms: Annotated[int, "transactionTimeOut"]
    transaction_check_max: Annotated[int, "transactionCheckMax"]
    transaction_check_interval_ms: Annotated[int, "transactionCheckInterval"]
    transaction_counts_interval_ms: Annotated[int, "transactionMetricFlushInterval"]
    transaction_note_bytes: Annotated[int, "transactionOpMsgMaxSize"]
    transaction_note_interval_ms: Annotated[int, "transactionOpBatchInterval"]
    query_max: Annotated[int, "defaultQueryMaxNum"]
    long_polling: Annotated[bool, "longPollingEnable"]
    short_polling_ms: Annotated[int, "shortPollingTimeMills"]
    assigns_queues: Annotated[bool, "serverLoadBalancerEnable"]
    assignment_routes_interval_ms: Annotated[int, "loadBalancePollNameServerInterval"]
    default_request_mode: Annotated[str, "defaultMessageRequestMode"]
    default_pop_share_queues: Annotated[int, "defaultPopShareQueueNum"]
    reads_from_replicas: Annotated[bool, "slaveReadEnable"]
    notifies_members: Annotated[bool, "notifyConsumerIdsChangedEnable"]
    filters_properties: Annotated[bool, "enablePropertyFilter"]
    filters_retries: Annotated[bool, "filterSupportRetry"]
    makes_filter_bits: Annotated[bool, "enableCalcFilterBitMap"]
    extends_queues: Annotated[bool, "enableConsumeQueueExt"]
    filter_kept_ms: Annotated[int, "filterDataCleanTimeSpan"]
    filter_bloom_expected: Annotated[int, "expectConsumerNumUseFilter"]
    filter_bloom_error_percent: Annotated[int, "maxErrorRateOfBloomFilter"]
    accepts_sends_from_ms: Annotated[int, "startAcceptSendRequestTimeStamp"]
    allows_mixed_types: Annotated[bool, "enableMixedMessageType"]
    protects_system_topics: Annotated[bool, "validateSystemTopicWhenUpdateTopic"]
    config_black_list: Annotated[str, "configBlackList"]
    metrics_kind: Annotated[str, "metricsExporterType"]
    metrics_host: Annotated[str, "metricsPromExporterHost"]
    metrics_port: Annotated[int, "metricsPromExporterPort"]
    metrics_labels: Annotated[str, "metricsLabel"]
    reported_version: Annotated[str, "reportedVersion"]
    mounted_dir: Annotated[str, "mountedStoreDir"]
    slow_operation_ms: Annotated[int, "slowOperationMs"]
    deduplication_minutes: Annotated[int, "deduplicationWindowMinutes"]
    deduplication_memory_mib: Annotated[int, "deduplicationMemoryMB"]
    topics_max: Annotated[int, "topicsMax"]
    queues_max: Annotated[int, "queuesMax"]
    groups_max: Annotated[int, "groupsMax"]
    clients_per_group_max: Annotated[int, "clientsPerGroupMax"]
    groups_per_heartbeat_max: Annotated[int, "groupsPerHeartbeatMax"]
    subscriptions_per_group_max: Annotated[int, "subscriptionsPerGroupMax"]
    subscriptions_per_heartbeat_max: Annotated[int, "subscriptionsPerHeartbeatMax"]
    heartbeat_bytes_max: Annotated[int, "heartbeatBytesMax"]
    queue_files_open_max: Annotated[int, "queueFilesOpenMax"]

    @property
    def has_metrics(self) -> bool:
        """Whether /metrics and /healthz are served."""
        return self.metrics_kind == "PROM"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesrvSettings:
    """A name server. Field by field the official key.

    Attributes:
        listener: Where it listens.
        configuration: All settings with their sources: what an administrator is shown.
    """

    listener: ListenerSettings
    configuration: Configuration = field(repr=False, compare=False)
    kv_config_path: Annotated[Path, "kvConfigPath"]
    config_black_list: Annotated[str, "configBlackList"]
    gives_order_conf: Annotated[bool, "orderMessageEnable"]
    gives_order_conf_to_brokers: Annotated[bool, "returnOrderTopicConfigToBroker"]
    lists_all_topics: Annotated[bool, "enableAllTopicList"]
    lists_topics: Annotated[bool, "enableTopicList"]
    registration_deletes_topics: Annotated[bool, "deleteTopicWithBrokerRegistration"]
    notifies_min_broker_id: Annotated[bool, "notifyMinBrokerIdChanged"]
    has_acting_master: Annotated[bool, "supportActingMaster"]
    scan_interval_ms: Annotated[int, "scanNotActiveBrokerInterval"]
    topics_max: Annotated[int, "namesrvTopicsMax"]
    topics_per_registration_max: Annotated[int, "topicsPerRegistrationMax"]
    brokers_max: Annotated[int, "brokersMax"]
    waits_for_service: Annotated[bool, "needWaitForService"]
    wait_for_service_s: Annotated[int, "waitSecondsForService"]


def broker_settings(configuration: Configuration | None = None) -> BrokerSettings:
    """Returns the settings of a broker; without a configuration all defaults.

    An empty broker name becomes the host's name, and an empty `brokerIP1` the address that others
    reach this machine at (the loopback address when only that is listened on).
    """
    configuration = configuration or resolved(Program.BROKER, ())
    values = _values(BrokerSettings, configuration)
    listener = listener_settings(configuration)
    host = values["advertised_host"] or reachable_host(listener.host)
    return BrokerSettings(
        **values
        | {
            "listener": listener,
            "engine": configuration.engine_settings(),
            "configuration": configuration,
            "advertised_host": host,
            "replication_host": values["replication_host"] or host,
            "name": values["name"] or socket.gethostname(),
        }
    )


def namesrv_settings(configuration: Configuration | None = None) -> NamesrvSettings:
    """Returns the settings of a name server; without a configuration all defaults."""
    configuration = configuration or resolved(Program.NAMESRV, ())
    return NamesrvSettings(
        **_values(NamesrvSettings, configuration)
        | {"listener": listener_settings(configuration), "configuration": configuration}
    )


def settings_of_pairs(pairs: Mapping[str, str]) -> BrokerSettings:
    """Returns the settings of a broker from official keys alone, for programs that embed one.

    Raises:
        ConfigurationError: A value cannot work.
    """
    return broker_settings(resolved(Program.BROKER, [Layer("given", pairs)]))


def listener_settings(configuration: Configuration) -> ListenerSettings:
    """Returns where a program listens."""
    return ListenerSettings(**_values(ListenerSettings, configuration))


def key_fields(kind: type[Any]) -> dict[str, str]:
    """Returns the fields of a class of settings, each with the official key it comes from."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")
    }


def _values(kind: type[Any], configuration: Configuration) -> dict[str, Any]:
    values = {name: configuration.value(key) for name, key in key_fields(kind).items()}
    faults = tuple(
        f"{key} must not be empty"
        for name, key in key_fields(kind).items()
        if get_type_hints(kind)[name] is Path and not values[name]
    )
    if faults:
        raise ConfigurationError("; ".join(faults), faults=faults)
    return values


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a listener on a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def reachable_host(bound: str) -> str:
    """Returns the address that others dial for a listener bound to a host.

    Args:
        bound: The address listened on; a wildcard means the address of the way out of here.
    """
    try:
        is_wildcard = ipaddress.ip_address(bound).is_unspecified
    except ValueError:
        is_wildcard = not bound
    if not is_wildcard:
        return bound
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_FAR_AWAY)
        except OSError:
            # No way out: nobody but this machine can dial it.
            return "127.0.0.1"
        host: str = probe.getsockname()[0]
        return host
