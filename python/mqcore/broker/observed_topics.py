"""Rows of metrics by topic and by group: what was sent and given, lags, timers.

There may be many: the thread that makes them rests between their parts.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from mqcore.broker.metrics import Buckets, Rows
from mqcore.broker.pop import REVIVE_GROUP
from mqcore.broker.state import BrokerState
from mqcore.broker.timers import BOUNDS_S
from mqcore.model.groups import BUILTIN_GROUPS, SYSTEM_GROUP_PREFIX
from mqcore.model.topics import DLQ_PREFIX, RETRY_PREFIX, revive_topic
from mqcore.native import GroupLag

__all__ = ["group_rows", "timer_rows", "topic_rows"]

_T = TypeVar("_T")
# Rows between two rests: a fraction of a millisecond of work.
_ROWS_PER_PART: Final = 500
_MS_PER_S: Final = 1_000
_LOCAL: Final = ("local", "disk")
_Labels = tuple[str, ...]


def _resting(rows: Iterable[_T], rest: Callable[[], None]) -> Iterator[_T]:
    for at, row in enumerate(rows):
        if at % _ROWS_PER_PART == _ROWS_PER_PART - 1:
            rest()
        yield row


def _flag(is_so: bool) -> str:
    return "true" if is_so else "false"


def _is_system(state: BrokerState, topic: str, group: str = "") -> str:
    """Returns the label `is_system` (`BrokerMetricsManager.isSystem`)."""
    is_inner = group in BUILTIN_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)
    return _flag(is_inner or state.topics.is_system(topic))


def topic_rows(state: BrokerState, rest: Callable[[], None]) -> dict[str, Rows]:
    """Returns what was sent, by topic and kind of message."""
    times = state.fast_path.times
    messages: dict[_Labels, int] = {}
    throughput: dict[_Labels, int] = {}
    sizes: dict[_Labels, Buckets] = {}
    for each in _resting(times.topics(), rest):
        labels = (each.topic, each.kind, _is_system(state, each.topic))
        messages[labels] = each.messages
        throughput[labels] = each.bytes
        sizes[labels] = Buckets(each.sizes, each.sizes_sum)
    finishes: dict[_Labels, Buckets] = {}
    for found in times.topic_seconds():
        if any(found.finishes):
            finishes[(found.topic,)] = Buckets(found.finishes, found.finishes_sum)
    return {
        "rocketmq_messages_in_total": messages,
        "rocketmq_throughput_in_total": throughput,
        "rocketmq_message_size": sizes,
        "rocketmq_finish_message_latency_milliseconds": finishes,
    }


def group_rows(state: BrokerState, rest: Callable[[], None]) -> dict[str, Rows]:
    """Returns what groups were given and gave back, and how far they are behind."""
    messages: dict[_Labels, int] = {}
    throughput: dict[_Labels, int] = {}
    for got in _resting(state.fast_path.group_gets(), rest):
        if got.topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            continue
        labels = (got.topic, got.group, _is_system(state, got.topic, got.group))
        messages[labels] = got.messages
        throughput[labels] = got.bytes
    dead: dict[_Labels, int] = {}
    back: dict[_Labels, int] = {}
    for given in state.fast_path.times.given_back():
        if given.dead:
            is_system = _is_system(state, given.topic, given.group)
            dead[given.group, given.topic, is_system] = given.dead
        if given.retried:
            back[given.group, given.topic] = given.retried
    return {
        "rocketmq_messages_out_total": messages,
        "rocketmq_throughput_out_total": throughput,
        "rocketmq_send_to_dlq_messages_total": dead,
        "mqcore_sent_back_total": back,
        **_lag_rows(state, rest),
    }


def _lag_rows(state: BrokerState, rest: Callable[[], None]) -> dict[str, Rows]:
    lags: dict[_Labels, int] = {}
    behind: dict[_Labels, int] = {}
    in_flight: dict[_Labels, int] = {}
    ready: dict[_Labels, int] = {}
    queueing: dict[_Labels, int] = {}
    revive: GroupLag | None = None
    for lag in _resting(state.fast_path.times.lags(), rest):
        if lag.group == REVIVE_GROUP:
            revive = lag
            continue
        is_retry = _flag(lag.topic.startswith(RETRY_PREFIX))
        labels = (lag.group, lag.topic, is_retry, _is_system(state, lag.topic, lag.group))
        lags[labels] = lag.messages
        in_flight[labels] = lag.in_flight
        ready[labels] = lag.ready
        # Without a time to look them up they are left out: 0 would say that nothing is behind.
        if lag.behind_ms is not None:
            behind[labels] = lag.behind_ms
        if lag.queueing_ms is not None:
            queueing[labels] = lag.queueing_ms
    return {
        "rocketmq_consumer_lag_messages": lags,
        "rocketmq_consumer_lag_latency_milliseconds": behind,
        "rocketmq_consumer_inflight_messages": in_flight,
        "rocketmq_consumer_ready_messages": ready,
        "rocketmq_consumer_queueing_latency_milliseconds": queueing,
        **_revive_rows(state, revive),
    }


def _revive_rows(state: BrokerState, revive: GroupLag | None) -> dict[str, Rows]:
    """Returns how far the check points of pops were looked at, by queue."""
    lags: dict[_Labels, int] = {}
    ages: dict[_Labels, int] = {}
    topic = revive_topic(state.settings.cluster)
    for queue_id in state.read_queues(topic):
        done = state.fast_path.offsets.find(REVIVE_GROUP, topic, queue_id)
        end = state.bounds(topic, queue_id)[1]
        # The offset of this group is that of the last check point that it is done with.
        lag = max(0, end - 1 - (-1 if done is None else done))
        lags[(str(queue_id),)] = lag
        ages[(str(queue_id),)] = (revive.behind_ms or 0) if revive is not None and lag else 0
    return {
        "rocketmq_pop_revive_lag_milliseconds": lags,
        "rocketmq_pop_revive_latency_milliseconds": ages,
    }


def timer_rows(state: BrokerState) -> dict[str, Rows]:
    """Returns how far the timers are; nothing without any."""
    timers = state.timers
    if timers is None:
        return {}
    progress, now_ms = timers.progress(), state.now_ms() + state.timers_ahead_ms
    by_bound: dict[_Labels, int] = {}
    from_ms = now_ms
    for bound in BOUNDS_S:
        to_ms = now_ms + bound * _MS_PER_S
        by_bound[(*_LOCAL, str(bound))] = timers.waiting_between(from_ms, to_ms)
        from_ms = to_ms
    moved = timers.moved()
    delays: dict[_Labels, Buckets] = {}
    for found in state.fast_path.times.topic_seconds():
        if any(found.delays):
            delays[(*_LOCAL, found.topic)] = Buckets(found.delays, found.delays_sum)
    late_ms = max(0, now_ms - progress.read_ms)
    return {
        "rocketmq_timer_enqueue_lag": {_LOCAL: progress.behind},
        # What is not entered is at the end of the wheel's queue, which is looked at at once.
        "rocketmq_timer_enqueue_latency_milliseconds": {_LOCAL: late_ms if progress.behind else 0},
        "rocketmq_timer_dequeue_lag": {_LOCAL: progress.waiting},
        "rocketmq_timer_dequeue_latency_milliseconds": {_LOCAL: late_ms // _MS_PER_S},
        "rocketmq_timing_messages": {
            (*_LOCAL, each.topic): each.count for each in timers.waiting()
        },
        "rocketmq_timer_enqueue_total": {(*_LOCAL, each.topic): each.entered for each in moved},
        "rocketmq_timer_dequeue_total": {(*_LOCAL, each.topic): each.left for each in moved},
        "rocketmq_timer_message_snapshot": by_bound,
        "rocketmq_delay_message_latency_seconds": delays,
    }
