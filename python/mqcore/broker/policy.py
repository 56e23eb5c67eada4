"""Fills the fast path's policy from the tables: what it may execute by itself, and how.

The only place that knows both the tables and the fast path's tuples.
"""

from collections.abc import Iterable

from mqcore.broker.filters import FilterData
from mqcore.broker.state import BrokerState
from mqcore.config.policy_fields import policy_values
from mqcore.model.attributes import MESSAGE_TYPE, PRIORITY
from mqcore.model.groups import GroupConfig
from mqcore.model.heartbeats import BROADCASTING
from mqcore.model.topics import SCHEDULE_TOPIC, TopicConfig
from mqcore.native import (
    BrokerPolicy,
    ExpressionBits,
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


# Remark for a client that sends to a store that is only read here.
_MOUNTED = "the broker[{}] serves {} for reading alone: it takes no message"
# Remarks of a slave: of 5.x for sends, and for pulls without `slaveReadEnable`; of 4.9 for sends,
# and of a broker that its controller has given no role.
_REJECTED = "[REJECTREQUEST]system busy, start flow control for a while"
_NOT_AVAILABLE = (
    "service not available now. It may be caused by one of the following reasons: the broker's "
    "disk is full, messages are put to the slave, message store has been shut down, etc."
)
# First release whose slave refuses them unread, and sends consumers back to its master: V5_0_0.
_REJECTS_FROM = 413
# Remark for a client that sends while the broker stops: another broker may take it.
_STOPPING = "[REJECTREQUEST]the broker is stopping"


def broker_policy(state: BrokerState, *, refuse_sends: str | None = None) -> BrokerPolicy:
    """Returns what the fast path needs to know of the broker."""
    settings, role = state.settings, state.role
    code = ResponseCode.SYSTEM_BUSY
    if settings.mounted_dir:
        refuse_sends = _MOUNTED.format(settings.advertised_host, settings.mounted_dir)
        code = ResponseCode.NO_PERMISSION
    refuse_pulls = None
    if role.is_fenced:
        refuse_sends, code = _NOT_AVAILABLE, ResponseCode.SERVICE_NOT_AVAILABLE
    elif role.is_slave:
        refuse_sends, code = _REJECTED, ResponseCode.SYSTEM_BUSY
        if state.version < _REJECTS_FROM or settings.has_acting_master:
            refuse_sends, code = _NOT_AVAILABLE, ResponseCode.SERVICE_NOT_AVAILABLE
        is_hidden = not settings.reads_from_replicas and not state.passes_on
        if state.version >= _REJECTS_FROM and is_hidden:
            # Who was master goes on to serve those that take it for that.
            refuse_pulls = _REJECTED
    return BrokerPolicy(
        **policy_values("broker", settings),
        refuse_sends=refuse_sends,
        refuse_sends_code=code,
        refuse_pulls=refuse_pulls,
        passes_on=state.passes_on,
        is_slave=not role.is_master,
        has_master=state.replicas.has_master,
        sends_back=state.version >= _REJECTS_FROM,
        needs_replica=role.is_master and role.waits_for_slaves,
        version=state.version,
        timing=TimingPolicy(**policy_values("timing", settings), ahead_ms=state.timers_ahead_ms),
        pops=PopPolicy(**policy_values("pops", settings)),
        waits=WaitPolicy(**policy_values("waits", settings)),
    )


def topic_policy(topic: TopicConfig, *, needs_check: bool = False) -> TopicPolicy:
    """Returns what the fast path needs to know of a topic."""
    return TopicPolicy(
        perm=topic.perm,
        read_queues=topic.read_queues,
        write_queues=topic.write_queues,
        sys_flag=topic.sys_flag,
        is_ordered=topic.order,
        has_multi_tags=topic.filter_type == "MULTI_TAG",
        needs_check=needs_check,
        has_priorities=topic.attributes.get(MESSAGE_TYPE) == PRIORITY,
    )


def group_policy(group: GroupConfig, *, needs_check: bool = False) -> GroupPolicy:
    """Returns what the fast path needs to know of a group."""
    return GroupPolicy(
        is_consume_enabled=group.is_consume_enabled,
        is_broadcast_enabled=group.is_broadcast_enabled,
        retry_queues=group.retry_queues,
        max_retries=group.retry_max_times,
        broker_id=group.broker_id,
        slow_broker_id=group.slow_broker_id,
        needs_check=needs_check,
        priority_percent=group.priority_percent,
    )


def fill(state: BrokerState) -> None:
    """Fills everything."""
    fill_broker(state)
    fill_topics(state, None)
    fill_bits(state)
    groups = state.groups
    state.fast_path.set_groups(
        {n: group_policy(g, needs_check=groups.forbids(n)) for n, g in groups.groups.items()}
    )


def fill_broker(state: BrokerState) -> None:
    """Fills what is decided of the broker itself."""
    state.fast_path.set_broker(broker_policy(state))


def refuse_sends(state: BrokerState) -> None:
    """Lets the fast path refuse every send from now on: the broker stops."""
    state.fast_path.set_broker(broker_policy(state, refuse_sends=_STOPPING))


def fill_topics(state: BrokerState, names: Iterable[str] | None) -> None:
    """Fills some topics; all of them without names."""
    static = state.static_topics.topics
    is_checked = state.check is not None
    if names is None:
        known = state.topics.topics.items()
        state.fast_path.set_topics(
            {n: topic_policy(t, needs_check=is_checked or n in static) for n, t in known}
        )
        return
    for name in names:
        topic = state.topics.find(name)
        needs_check = is_checked or name in static
        policy = None if topic is None else topic_policy(topic, needs_check=needs_check)
        state.fast_path.set_topic(name, policy)


def fill_groups(state: BrokerState, names: Iterable[str]) -> None:
    """Fills some groups."""
    for name in names:
        group = state.groups.find(name)
        needs_check = state.groups.forbids(name)
        policy = None if group is None else group_policy(group, needs_check=needs_check)
        state.fast_path.set_group(name, policy)


def fill_bits(state: BrokerState) -> None:
    """Fills which expressions set bits of messages, those of groups that are gone among them."""
    filters = state.filters
    if not state.makes_bits or filters.placed == state.bits_filled:
        return
    rows = [ExpressionBits(each.topic, each.expression, _bits(each)) for each in filters.all()]
    filters.settle(state.fast_path.set_filter_bits(rows))
    state.bits_filled = filters.placed


def _bits(data: FilterData) -> FilterBits:
    return FilterBits(data.bits.positions, data.bits.count, data.born_ms)


def fill_subscriptions(state: BrokerState, groups: Iterable[str]) -> None:
    """Fills what some groups want; nothing for a group that is not online."""
    # First: that may move registration times, which are in the groups' own rows.
    fill_bits(state)
    for name in groups:
        group = state.members.consumers.get(name)
        if group is None:
            state.fast_path.set_members(name, None)
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
        state.fast_path.set_members(name, MembersPolicy(wanted, filters, is_broadcasting))
