"""What `/metrics` shows of a broker: gathered here, rendered by `metrics`.

Figures of the fast path and of members are taken on the loop, those of the store in a thread.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from mqcore.broker.certificate_ends import certificate_ends
from mqcore.broker.consumer_offsets import split_key
from mqcore.broker.damage_reports import damage_reports
from mqcore.broker.deduplication import Deduplication
from mqcore.broker.health import Registered, live_checks, ready_checks
from mqcore.broker.metrics import (
    CONTENT_TYPE,
    GroupLag,
    ReplicaFigures,
    Snapshot,
    TimerFigures,
    TopicFlow,
    TopicTransactions,
    exposition,
    parsed_labels,
)
from mqcore.broker.state import BrokerState
from mqcore.broker.timers import BOUNDS_S
from mqcore.errors import MQError, StateFileError
from mqcore.model.topics import RETRY_PREFIX
from mqcore.model.versions import version_name
from mqcore.native import Stats
from mqcore.remoting.health import health_pages
from mqcore.remoting.observatory import Page, Source

_OK = 200
_MS_PER_S = 1_000
_REFUSED = "refused_"
_CLOSED = "closed_"


def pages(state: BrokerState, registered: Registered) -> dict[str, Source]:
    """Returns the pages of a broker by their path.

    Args:
        state: The broker.
        registered: Returns the name servers that know it.
    """

    async def metrics() -> Page:
        return Page(_OK, exposition(await snapshot(state)), CONTENT_TYPE)

    return {
        "/metrics": metrics,
        **health_pages(live_checks(state), ready_checks(state, registered)),
    }


def faults_of(stats: Stats) -> tuple[str, ...]:
    """Returns what keeps the store from taking messages, empty when nothing does."""
    poisoned = (stats.poisoned,) if stats.poisoned else ()
    return (*poisoned, *stats.refused)


async def snapshot(state: BrokerState) -> Snapshot:
    """Returns the broker at this moment."""
    fast_path = state.fast_path.stats()
    offsets = await asyncio.to_thread(state.fast_path.offsets.snapshot)
    producers: Counter[tuple[str, ...]] = Counter(
        (client.language, version_name(client.version))
        for group in state.members.producers.values()
        for client in group.values()
    )
    consumers: Counter[tuple[str, ...]] = Counter(
        (name, client.language, version_name(client.version))
        for name, group in state.members.consumers.items()
        for client in group.clients.values()
    )
    consumer_groups = state.members.consumers.items()
    divided = {
        name: group.subscription_check.count
        for name, group in consumer_groups
        if group.subscription_check.count > 1
    }
    clients = _Clients(producers, consumers, divided)
    transactions = tuple(
        TopicTransactions(each.topic, max(0, each.waiting), each.committed, each.rolled_back)
        for each in state.fast_path.half_messages.counts()
    )
    whole = await asyncio.to_thread(_whole, state, fast_path, offsets, clients)
    return replace(whole, transactions=transactions, checks=dict(state.checks))


class _Clients(NamedTuple):
    """Figures of members, taken on the loop."""

    producers: Mapping[tuple[str, ...], int]
    consumers: Mapping[tuple[str, ...], int]
    divided: Mapping[str, int]


def _whole(
    state: BrokerState,
    fast_path: Mapping[str, int],
    offsets: Mapping[str, Mapping[int, int]],
    clients: _Clients,
) -> Snapshot:
    settings, stats = state.settings, state.store.stats()
    return Snapshot(
        cluster=settings.cluster,
        node_id=settings.name,
        labels=parsed_labels(settings.metrics_labels),
        permission=settings.permission,
        topics=len(state.topics.topics),
        groups=len(state.groups.groups),
        flows=_flows(state),
        lags=_lags(state, offsets),
        producers=clients.producers,
        consumers=clients.consumers,
        divided=clients.divided,
        conflicts=state.conflicts,
        messages_in=fast_path.get("sends", 0),
        messages_out=fast_path.get("pulled", 0),
        bytes_in=fast_path.get("send_bytes", 0),
        bytes_out=fast_path.get("pulled_bytes", 0),
        refused=_sum(_of_kind(fast_path, _REFUSED), state.refusals),
        closed=_sum(_of_kind(fast_path, _CLOSED), state.link_refusals),
        waiting={
            "parked sends": fast_path.get("parked", 0),
            "held pulls": fast_path.get("held", 0),
        },
        storage_bytes=stats.appended - stats.log_start,
        flush_behind_bytes=stats.flush_lag_bytes,
        dispatch_behind_bytes=stats.dispatch_lag_bytes,
        repairs={
            "record": stats.records_damaged,
            "unit_mended": stats.units_mended,
            "offset_lost": stats.units_lost,
        },
        reserve_ms=_reserve_ms(state, stats),
        memory={
            "mapped": stats.mapped_bytes,
            "locked": stats.locked_bytes,
            "resident": stats.resident_bytes,
        },
        replicas=_replicas(state),
        is_following=_is_following(state),
        refill=_refill(state),
        timers=_timers(state),
        deduplication=Deduplication.of(fast_path),
        damage=_damage(settings.store_dir),
        certificates=certificate_ends(settings.listener),
        faults=faults_of(stats),
    )


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


def _replicas(state: BrokerState) -> tuple[ReplicaFigures, ...]:
    master = state.replicas.master
    return tuple(
        ReplicaFigures(
            each.address.rpartition(":")[0],
            each.lag_bytes,
            each.lag_ms,
            each.bytes_per_second,
        )
        for each in (() if master is None else master.slaves())
    )


def _is_following(state: BrokerState) -> bool | None:
    slave = state.replicas.slave
    return None if slave is None else bool(slave.progress().address)


def _refill(state: BrokerState) -> tuple[int, int] | None:
    refilling = state.replicas.refilling
    if refilling is None:
        return None
    figures = refilling.figures
    return figures.done_bytes, figures.total_bytes


def _timers(state: BrokerState) -> TimerFigures | None:
    timers = state.timers
    if timers is None:
        return None
    progress, now_ms = timers.progress(), state.now_ms() + state.timers_ahead_ms
    bounds_ms = [(bound, now_ms + bound * _MS_PER_S) for bound in BOUNDS_S]
    by_bound = {}
    from_ms = now_ms
    for bound, to_ms in bounds_ms:
        by_bound[bound] = timers.waiting_between(from_ms, to_ms)
        from_ms = to_ms
    return TimerFigures(
        behind=progress.behind,
        behind_ms=max(0, now_ms - progress.read_ms),
        waiting=progress.waiting,
        entered=progress.entered,
        delivered=progress.delivered,
        by_topic={each.topic: each.count for each in timers.waiting()},
        by_bound=by_bound,
    )


def _flows(state: BrokerState) -> tuple[TopicFlow, ...]:
    totals: dict[str, int] = {}
    for queue in state.store.queues():
        totals[queue.topic] = totals.get(queue.topic, 0) + queue.max_offset
    return tuple(
        TopicFlow(topic, total, is_system=state.topics.is_system(topic))
        for topic, total in totals.items()
    )


def _lags(state: BrokerState, offsets: Mapping[str, Mapping[int, int]]) -> tuple[GroupLag, ...]:
    lags = []
    for key, queues in offsets.items():
        topic_group = split_key(key)
        if topic_group is None:
            continue
        topic, group = topic_group
        behind = sum(
            max(0, state.bounds(topic, queue_id)[1] - queues.get(queue_id, 0))
            for queue_id in state.read_queues(topic)
        )
        lags.append(GroupLag(group, topic, behind, is_retry=topic.startswith(RETRY_PREFIX)))
    return tuple(lags)


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    # The loop may add a reason while this thread looks: a copy is made in one step.
    return dict(Counter(one) + Counter(dict(other)))


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
