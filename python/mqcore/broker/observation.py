"""What `/metrics` shows of a broker: gathered here, rendered by `metrics`.

Members are looked at on the loop; everything else in a thread, which lets the loop run between the
parts of its work. Rows of topics and groups are those of `observed_topics`.
"""

import asyncio
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from mqcore.broker.damage_reports import damage_reports
from mqcore.broker.deduplication import Deduplication
from mqcore.broker.health import Registered, live_checks, ready_checks
from mqcore.broker.metric_families import COMMON, FAMILIES
from mqcore.broker.observed_topics import Pieces, bulk, group_rows, revive_rows, timer_rows
from mqcore.broker.state import BrokerState
from mqcore.errors import MQError, StateFileError
from mqcore.metrics.audit_figures import audit_rows
from mqcore.metrics.certificate_renewals import Protections
from mqcore.metrics.families import Buckets, Rows
from mqcore.metrics.page import metrics_page
from mqcore.metrics.program import program_rows
from mqcore.metrics.text import Snapshot, common_labels
from mqcore.model.groups import BUILTIN_GROUPS, SYSTEM_GROUP_PREFIX
from mqcore.model.versions import version_name
from mqcore.native import Stats
from mqcore.remoting import CODES, OwnRequestCode, ResponseCode
from mqcore.remoting.health import health_pages
from mqcore.remoting.observatory import Source

__all__ = ["faults_of", "pages", "snapshot"]

_REFUSED = "refused_"
_CLOSED = "closed_"
_US_PER_MS: Final = 1_000
_US_PER_S: Final = 1_000_000
_MS_PER_S: Final = 1_000
_LOCAL: Final = ("local", "disk")
# What official brokers have a pool of threads for, and which of our figures is what waits there.
_PROCESSORS: Final = {
    "send": ("parked", "deferred"),
    "async_put": (),
    "pull": ("held", "filtered_waiting"),
    "pop": ("pops_held",),
    "ack": (),
    "query_message": (),
    "client_manager": (),
    "heartbeat": (),
    "lite_pull": (),
    "transaction": ("ends_to_note",),
    "consumer_manager": (),
    "admin": (),
    "reply": (),
}
_MODES: Final = {
    "CONSUME_ACTIVELY": "pull",
    "CONSUME_PASSIVELY": "push",
    "CONSUME_POP": "pop",
}


# Users who hold most: there may be thousands, and what they hold is small.
_USERS_SHOWN = 10


def pages(state: BrokerState, registered: Registered) -> dict[str, Source]:
    """Returns the pages of a broker by their path.

    Args:
        state: The broker.
        registered: Returns the name servers that know it.
    """
    return {
        "/metrics": metrics_page(lambda: snapshot(state), state.settings.metrics_series_max),
        **health_pages(live_checks(state), ready_checks(state, registered)),
    }


def faults_of(stats: Stats) -> tuple[str, ...]:
    """Returns what keeps the store from taking messages, empty when nothing does."""
    poisoned = (stats.poisoned,) if stats.poisoned else ()
    return (*poisoned, *stats.refused)


async def snapshot(state: BrokerState) -> Snapshot:
    """Returns the broker at this moment."""
    of_loop = {**_members(state), **audit_rows(state.trail.figures)}
    fast_path = await asyncio.to_thread(state.fast_path.stats)
    return await asyncio.to_thread(_whole, state, fast_path, of_loop)


def _members(state: BrokerState) -> dict[str, Rows]:
    """Returns the figures of members, on the loop."""
    producers: Counter[tuple[str, ...]] = Counter(
        (client.language.lower(), version_name(client.version).lower(), "remoting")
        for group in state.members.producers.values()
        for client in group.values()
    )
    consumers: Counter[tuple[str, ...]] = Counter()
    online: dict[tuple[str, ...], int] = {}
    divided: dict[tuple[str, ...], int] = {}
    for name, group in state.members.consumers.items():
        mode = _MODES.get(group.data.consume_type, "push")
        is_system = flag(name in BUILTIN_GROUPS or name.startswith(SYSTEM_GROUP_PREFIX))
        online[(name,)] = len(group.clients)
        if group.subscription_check.count > 1:
            divided[(name,)] = group.subscription_check.count
        for client in group.clients.values():
            version = version_name(client.version).lower()
            labels = (name, client.language.lower(), version, mode, "remoting", is_system)
            consumers[labels] += 1
    most = state.users.most(_USERS_SHOWN)
    return {
        "mqcore_user_connections": {(each.user,): each.connections for each in most},
        "mqcore_user_held_bytes": {(each.user,): each.held_bytes for each in most},
        "rocketmq_producer_connections": dict(producers),
        "rocketmq_consumer_connections": dict(consumers),
        "mqcore_consumers_online": online,
        "mqcore_inconsistent_subscriptions": divided,
        "mqcore_subscription_conflicts_total": {(): state.conflicts},
    }


def _whole(
    state: BrokerState, fast_path: Mapping[str, int], of_loop: Mapping[str, Rows]
) -> Snapshot:
    stats = state.store.stats()
    parts = (
        _broker_rows(state, fast_path, stats),
        group_rows(state),
        of_loop,
        _transaction_rows(state),
        _request_rows(state),
        _store_rows(state, stats),
        _disk_rows(state),
        program_rows(state.settings.listener, state.boot_ms, _protections(state)),
        _replica_rows(state),
        timer_rows(state),
        _deduplication_rows(fast_path),
        _limit_rows(state),
    )
    rows: dict[str, Rows] = {}
    for part in parts:
        rows |= part
    settings = state.settings
    own = dict(zip(COMMON, (settings.cluster, "broker", settings.name), strict=True))
    common = common_labels(own, settings.metrics_labels, in_delta=settings.metrics_in_delta)
    found = Snapshot(FAMILIES, common, rows)
    written = bulk(state, found, state.settings.metrics_series_max)
    rows |= revive_rows(state, written.own_behind_ms)
    return replace(found, bulk=Pieces(written), left_out=written.left_out)


def _one(number: float) -> Rows:
    return {(): number}


def _keyed(numbers: Mapping[str, int]) -> Rows:
    return {(name,): number for name, number in numbers.items()}


def flag(is_so: bool) -> str:
    """Returns the value of a label that is true or false."""
    return "true" if is_so else "false"


def _broker_rows(state: BrokerState, fast_path: Mapping[str, int], stats: Stats) -> dict[str, Rows]:
    return {
        "rocketmq_processor_watermark": {
            (name,): sum(fast_path.get(each, 0) for each in figures)
            for name, figures in _PROCESSORS.items()
        },
        "rocketmq_broker_permission": _one(state.settings.permission),
        "rocketmq_topic_number": _one(len(state.topics.topics)),
        "rocketmq_consumer_group_number": _one(len(state.groups.groups)),
        "mqcore_broker_healthy": _one(int(not faults_of(stats))),
        "mqcore_is_master": _one(int(state.role.is_master)),
        "mqcore_sends_total": _one(fast_path.get("sends", 0)),
        "mqcore_pulled_total": _one(fast_path.get("pulled", 0)),
        "mqcore_connections": _one(fast_path.get("connections", 0)),
        "mqcore_refused_total": _keyed(_sum(_of_kind(fast_path, _REFUSED), state.refusals)),
        "mqcore_connections_closed_total": _keyed(
            _sum(_of_kind(fast_path, _CLOSED), state.link_refusals)
        ),
        "rocketmq_pop_checkpoint_buffer_size": _one(fast_path.get("pops_open", 0)),
        "rocketmq_pop_offset_buffer_size": _one(fast_path.get("pops_open", 0)),
        "mqcore_pop_records_total": _one(fast_path.get("pop_records", 0)),
        "mqcore_pop_revived_total": _one(state.revived),
    }


def _transaction_rows(state: BrokerState) -> dict[str, Rows]:
    counts = state.fast_path.half_messages.counts()
    return {
        "rocketmq_half_messages": {(each.topic,): max(0, each.waiting) for each in counts},
        "rocketmq_commit_messages_total": {(each.topic,): each.committed for each in counts},
        "rocketmq_rollback_messages_total": {(each.topic,): each.rolled_back for each in counts},
        "mqcore_transaction_checks_total": _keyed(dict(state.checks)),
    }


def _request_rows(state: BrokerState) -> dict[str, Rows]:
    """Returns the times of requests: of the fast path, and of what Python answers."""
    times = state.fast_path.times
    latencies: dict[tuple[str, ...], Buckets] = {}

    def note(code: int, response: int, buckets: Buckets, *, is_held: bool, result: str) -> None:
        labels = ("remoting", _code(code), _response(response), flag(is_held), result)
        known = latencies.get(labels)
        if known is not None:
            counts = [sum(pair) for pair in zip(known.counts, buckets.counts, strict=True)]
            buckets = Buckets(counts, known.total + buckets.total)
        latencies[labels] = buckets

    for each in times.requests():
        buckets = Buckets(each.counts, each.sum_us / _US_PER_MS)
        result = "oneway" if each.is_oneway else "success"
        note(each.code, each.response, buckets, is_held=each.is_held, result=result)
    for (code, response), buckets in state.durations.by_pair().items():
        note(code, response, buckets, is_held=False, result="success")
    stages: dict[tuple[str, ...], Buckets] = {
        (each.kind, each.stage): Buckets(each.counts, each.sum_us / _US_PER_S)
        for each in times.stages()
    }
    return {
        "rocketmq_rpc_latency_milliseconds": latencies,
        "mqcore_request_stage_seconds": stages,
        "mqcore_requests_untimed_total": _one(times.untimed),
        **state.durations.made(),
    }


def _code(code: int) -> str:
    """Returns a request code as official labels have it."""
    known = CODES.get(code)
    if known is not None:
        return known.name.lower()
    try:
        return OwnRequestCode(code).name.lower()
    except ValueError:
        return str(code)


def _response(code: int) -> str:
    try:
        return ResponseCode(code).name.lower()
    except ValueError:
        return str(code)


def _store_rows(state: BrokerState, stats: Stats) -> dict[str, Rows]:
    damage = _damage(state.settings.store_dir)
    kinds = ("mqcore_damage_reports", "mqcore_damage_bytes", "mqcore_damage_whole_records")
    repairs = {
        "record": stats.records_damaged,
        "unit_mended": stats.units_mended,
        "offset_lost": stats.units_lost,
    }
    memory = {
        "mapped": stats.mapped_bytes,
        "locked": stats.locked_bytes,
        "resident": stats.resident_bytes,
    }
    return {
        "rocketmq_storage_flush_behind_bytes": {_LOCAL: stats.flush_lag_bytes},
        "rocketmq_storage_dispatch_behind_bytes": {_LOCAL: stats.dispatch_lag_bytes},
        "rocketmq_storage_message_reserve_time_milliseconds": {_LOCAL: _reserve_ms(state, stats)},
        "mqcore_log_bytes": _one(stats.appended - stats.log_start),
        "mqcore_store_damage_total": _keyed(repairs),
        "mqcore_memory_bytes": _keyed(memory),
        **{
            name: {(kind,): numbers[at] for kind, numbers in damage.items()}
            for at, name in enumerate(kinds)
        },
    }


def _damage(store_dir: Path) -> dict[str, tuple[int, int, int]]:
    """Returns how many open reports there are, their bytes and their whole records, by kind."""
    found = {"cut": (0, 0, 0), "keep": (0, 0, 0)}
    try:
        reports = damage_reports(store_dir)
    except StateFileError:
        # Figures go on; `mqcore store damage` names the file.
        return {**found, "unreadable": (1, 0, 0)}
    for report in reports:
        count, len_bytes, records = found[report.kind]
        if report.kind == "cut":
            records += report.whole_records
        found[report.kind] = (count + 1, len_bytes + report.bytes + report.missing_bytes, records)
    return found


def _disk_rows(state: BrokerState) -> dict[str, Rows]:
    try:
        usage = shutil.disk_usage(state.settings.store_dir)
    except OSError:
        return {}
    return {
        "rocketmq_storage_size_bytes": {_LOCAL: usage.used},
        "mqcore_disk_free_bytes": _one(usage.free),
        "mqcore_disk_size_bytes": _one(usage.total),
    }


def _replica_rows(state: BrokerState) -> dict[str, Rows]:
    slave, master = state.replicas.slave, state.replicas.master
    if slave is not None:
        rows: dict[str, Rows] = {
            "mqcore_replication_connected": _one(int(bool(slave.progress().address)))
        }
        refilling = state.replicas.refilling
        if refilling is not None:
            rows["mqcore_refill_bytes"] = _one(refilling.figures.done_bytes)
            rows["mqcore_refill_total_bytes"] = _one(refilling.figures.total_bytes)
        return rows
    slaves = () if master is None else master.slaves()
    # Several slaves of one machine are shown as the one that is worst: a port is another after
    # each connection.
    behind: dict[tuple[str, ...], int] = {}
    behind_ms: dict[tuple[str, ...], int] = {}
    sent: dict[tuple[str, ...], int] = {}
    for each in slaves:
        key = (each.address.rpartition(":")[0],)
        behind[key] = max(each.lag_bytes, behind.get(key, 0))
        behind_ms[key] = max(each.lag_ms, behind_ms.get(key, 0))
        sent[key] = each.bytes_per_second + sent.get(key, 0)
    return {
        "mqcore_replicas": _one(len(slaves)),
        "mqcore_replica_lag_bytes": behind,
        "mqcore_replica_lag_milliseconds": behind_ms,
        "mqcore_replica_sent_bytes_per_second": sent,
    }


def _protections(state: BrokerState) -> Protections:
    """Returns what protects the broker's connections, by their kind."""
    protection = state.replicas.protection
    return {
        "server": [each.context for each in state.serving_tls],
        "client": [state.outgoing_tls],
        "replication": list(protection.ends) if protection else [],
    }


def _limit_rows(state: BrokerState) -> dict[str, Rows]:
    quotas = {(each.rule,): each for each in state.fast_path.quotas()}
    engine, pace = state.access.engine, state.admin_pace
    signatures = {"late": engine.late_refusals, "never": engine.silent_refusals}
    return {
        "mqcore_throttled_seconds_total": {
            who: each.held_ms / _MS_PER_S for who, each in quotas.items()
        },
        "mqcore_throttled_total": {who: each.held for who, each in quotas.items()},
        "mqcore_quota_refused_total": {who: each.refused for who, each in quotas.items()},
        "mqcore_throttled": {who: each.waiting for who, each in quotas.items()},
        "mqcore_failed_signatures_total": _keyed(signatures),
        "mqcore_admin_changes_total": _keyed({"held": pace.held, "refused": pace.refused}),
    }


def _deduplication_rows(fast_path: Mapping[str, int]) -> dict[str, Rows]:
    window = Deduplication.of(fast_path)
    if window is None:
        return {}
    return {
        "mqcore_deduplication_repeats_total": _one(window.repeats),
        "mqcore_deduplication_told_apart_total": _one(window.distinguished),
        "mqcore_deduplication_displaced_total": _one(window.displaced),
        "mqcore_deduplication_keys": _one(window.keys),
        "mqcore_deduplication_window_ms": _one(window.window_ms),
    }


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    # The loop may add a reason while this thread looks: a copy is made in one step. What is zero
    # stays: a counter that begins above it shows no increase.
    more = dict(other)
    return {name: one.get(name, 0) + more.get(name, 0) for name in (*one, *more)}


def _of_kind(fast_path: Mapping[str, int], kind: str) -> dict[str, int]:
    found = fast_path.items()
    return {name.removeprefix(kind): count for name, count in found if name.startswith(kind)}


def _reserve_ms(state: BrokerState, stats: Stats) -> int:
    if stats.dispatched <= stats.log_start:
        return -1
    try:
        stored_ms = state.store.message_at(stats.log_start).store_timestamp_ms
    except MQError:
        return -1
    return max(0, state.now_ms() - stored_ms)
