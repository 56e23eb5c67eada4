"""Fills the lane's policy from the tables: what it may execute by itself, and how.

The only place that knows both the tables and the lane's tuples.
"""

from collections.abc import Iterable

from mqcore.broker.filters import FilterData
from mqcore.broker.state import BrokerState
from mqcore.model.groups import GroupConfig
from mqcore.model.heartbeats import BROADCASTING
from mqcore.model.topics import SCHEDULE_TOPIC, TopicConfig
from mqcore.native import (
    BrokerPolicy,
    FilterBits,
    GroupPolicy,
    MembersPolicy,
    PopPolicy,
    RegisteredFilter,
    Subscription,
    TimingPolicy,
    TopicPolicy,
    WaitPolicy,
)
from mqcore.remoting import ResponseCode

__all__ = [
    "SCHEDULE_TOPIC",
    "fill",
    "fill_bits",
    "fill_groups",
    "fill_subscriptions",
    "fill_topics",
    "refuse_sends",
]


_MS_PER_S = 1_000
# What a client is told that sends to a store that is only read here.
_MOUNTED = "the broker[{}] serves {} for reading alone: it takes no message"
# What a client is told that sends while the broker stops: another broker may take it.
_STOPPING = "[REJECTREQUEST]the broker is stopping"


def broker_policy(state: BrokerState, *, refuse_sends: str | None = None) -> BrokerPolicy:
    """Returns what the lane needs to know of the broker."""
    settings = state.settings
    code = ResponseCode.SYSTEM_BUSY
    if settings.mounted_dir:
        refuse_sends = _MOUNTED.format(settings.advertised_host, settings.mounted_dir)
        code = ResponseCode.NO_PERMISSION
    return BrokerPolicy(
        name=settings.name,
        cluster=settings.cluster,
        address=settings.advertised_host,
        perm=settings.permission,
        region=settings.region,
        is_traced=settings.is_trace_on,
        accepts_sends_from_ms=settings.accepts_sends_from_ms,
        is_long_polling=settings.long_polling,
        short_polling_ms=settings.short_polling_ms,
        is_replica_readable=settings.reads_from_replicas,
        rejects_transactions=settings.rejects_transactions,
        transaction_timeout_ms=settings.transaction_timeout_ms,
        note_bytes_max=max(1, settings.transaction_note_bytes),
        note_interval_ms=max(0, settings.transaction_note_interval_ms),
        refuse_sends=refuse_sends,
        refuse_sends_code=code,
        version=state.version,
        filters_properties=settings.filters_properties,
        filters_retries=settings.filters_retries,
        timing=timing_policy(state),
        pops=pop_policy(state),
        waits=WaitPolicy(
            pulls_max=settings.held_pulls_max,
            pulls_per_connection_max=settings.held_pulls_per_connection_max,
            pulls_per_queue_max=settings.held_pulls_per_queue_max,
            sends_max=settings.parked_sends_max,
            sends_per_connection_max=settings.parked_sends_per_connection_max,
        ),
    )


def timing_policy(state: BrokerState) -> TimingPolicy:
    """Returns what the lane needs to know of messages with a time of their own."""
    settings = state.settings
    return TimingPolicy(
        is_enabled=settings.has_timers,
        max_delay_ms=settings.timer_max_delay_s * _MS_PER_S,
        congested_at=settings.timers_congested_at,
        ahead_ms=state.timers_ahead_ms,
        is_recall_enabled=settings.allows_recall,
        is_recall_enabled_read_only=settings.allows_recall_read_only,
    )


def pop_policy(state: BrokerState) -> PopPolicy:
    """Returns what the lane needs to know about pops."""
    settings = state.settings
    return PopPolicy(
        revive_queues=max(1, settings.pop_revive_queues),
        has_buffer=settings.pop_has_buffer,
        stay_ms=max(0, settings.pop_stay_ms),
        stored_before_ms=settings.pop_stored_before_ms,
        kept_max=max(0, settings.pop_kept_max),
        kept_per_queue_max=max(0, settings.pop_kept_per_queue_max),
        in_flight_max=max(0, settings.pop_in_flight_max) if settings.pop_bounds_in_flight else None,
        retry_first_percent=min(100, max(0, settings.pop_retry_first_percent)),
        has_retry_v2=settings.pop_has_retry_v2,
        reads_retry_v1=settings.pop_reads_retry_v1,
        begins_in_memory=settings.pop_begins_in_memory,
        names_retry_topic=settings.pop_names_retry_topic,
        held_per_line=max(0, settings.pop_held_per_line),
        held_max=max(0, settings.pop_held_max),
    )


def topic_policy(topic: TopicConfig, *, needs_check: bool = False) -> TopicPolicy:
    """Returns what the lane needs to know of a topic."""
    return TopicPolicy(
        perm=topic.perm,
        read_queues=topic.read_queues,
        write_queues=topic.write_queues,
        sys_flag=topic.sys_flag,
        is_ordered=topic.order,
        has_multi_tags=topic.filter_type == "MULTI_TAG",
        needs_check=needs_check,
    )


def group_policy(group: GroupConfig, *, needs_check: bool = False) -> GroupPolicy:
    """Returns what the lane needs to know of a group."""
    return GroupPolicy(
        is_consume_enabled=group.is_consume_enabled,
        is_broadcast_enabled=group.is_broadcast_enabled,
        retry_queues=group.retry_queues,
        max_retries=group.retry_max_times,
        broker_id=group.broker_id,
        slow_broker_id=group.slow_broker_id,
        needs_check=needs_check,
    )


def fill(state: BrokerState) -> None:
    """Fills everything."""
    state.lane.set_broker(broker_policy(state))
    fill_topics(state, None)
    fill_bits(state)
    groups = state.groups
    state.lane.set_groups(
        {n: group_policy(g, needs_check=groups.forbids(n)) for n, g in groups.groups.items()}
    )


def refuse_sends(state: BrokerState) -> None:
    """Lets the lane refuse every send from now on: the broker stops."""
    state.lane.set_broker(broker_policy(state, refuse_sends=_STOPPING))


def fill_topics(state: BrokerState, names: Iterable[str] | None) -> None:
    """Fills some topics; all of them without names."""
    is_checked = state.check is not None
    if names is None:
        known = state.topics.topics.items()
        state.lane.set_topics({n: topic_policy(t, needs_check=is_checked) for n, t in known})
        return
    for name in names:
        topic = state.topics.find(name)
        policy = None if topic is None else topic_policy(topic, needs_check=is_checked)
        state.lane.set_topic(name, policy)


def fill_groups(state: BrokerState, names: Iterable[str]) -> None:
    """Fills some groups."""
    for name in names:
        group = state.groups.find(name)
        needs_check = state.groups.forbids(name)
        policy = None if group is None else group_policy(group, needs_check=needs_check)
        state.lane.set_group(name, policy)


def fill_bits(state: BrokerState) -> None:
    """Fills which expressions set bits of messages, those of groups that are gone among them."""
    filters = state.filters
    if not state.makes_bits or filters.placed == state.bits_filled:
        return
    rows = [(each.topic, each.expression, _bits(each)) for each in filters.all()]
    filters.settle(state.lane.set_filter_bits(rows))
    state.bits_filled = filters.placed


def _bits(data: FilterData) -> FilterBits:
    return FilterBits(data.bits.positions, data.bits.count, data.born_ms)


def fill_subscriptions(state: BrokerState, groups: Iterable[str]) -> None:
    """Fills what some groups want; nothing for a group that is not online."""
    # First: that may move births, which the groups' own rows tell.
    fill_bits(state)
    for name in groups:
        group = state.members.consumers.get(name)
        if group is None:
            state.lane.set_members(name, None)
            continue
        wanted = [
            Subscription(each.topic, each.expression, each.kind, each.version)
            for each in group.subscriptions.values()
        ]
        filters = [
            RegisteredFilter(
                each.topic,
                each.expression,
                each.version,
                _bits(each) if state.makes_bits else None,
            )
            for each in state.filters.of_group(name)
        ]
        is_broadcasting = group.data.message_model == BROADCASTING
        state.lane.set_members(name, MembersPolicy(wanted, filters, is_broadcasting))
