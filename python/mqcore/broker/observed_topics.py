"""Metrics by topic and by group: what was sent and given, lags, check points of pops, timers.

Those of which there may be many are written by the fast path, without the interpreter.
"""

from collections.abc import Iterator
from typing import Final

from mqcore.broker.metric_families import BULK, FAMILIES
from mqcore.broker.pop import REVIVE_GROUP
from mqcore.broker.state import BrokerState
from mqcore.broker.timers import BOUNDS_S
from mqcore.metrics.families import Buckets, Rows, is_age
from mqcore.metrics.text import Snapshot, common_text, head_of
from mqcore.model.groups import BUILTIN_GROUPS, SYSTEM_GROUP_PREFIX
from mqcore.model.topics import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_PREFIX, revive_topic
from mqcore.native import BulkFamily, BulkOrder, BulkText

__all__ = ["Pieces", "bulk", "group_rows", "revive_rows", "timer_rows"]

_MS_PER_S: Final = 1_000
# A piece is copied and sent in some hundred microseconds.
_PIECE_BYTES: Final = 131_072
_LOCAL: Final = ("local", "disk")
_Labels = tuple[str, ...]


def bulk(state: BrokerState, snapshot: Snapshot, series_max: int) -> BulkText:
    """Returns the text of the families by topic and by group."""
    families = tuple(
        BulkFamily(
            figure=figure,
            name=name,
            head=head_of(FAMILIES[name]),
            labels=FAMILIES[name].labels,
            bounds=tuple(str(float(bound)) for bound in FAMILIES[name].bounds),
            is_age=is_age(FAMILIES[name]),
        )
        for name, figure in BULK.items()
    )
    order = BulkOrder(
        common=common_text(snapshot),
        series_max=series_max,
        system_topics=frozenset(state.topics.system_names),
        system_topic_prefix=SYSTEM_PREFIX,
        system_groups=frozenset(BUILTIN_GROUPS),
        system_group_prefix=SYSTEM_GROUP_PREFIX,
        retry_prefix=RETRY_PREFIX,
        dead_letter_prefix=DLQ_PREFIX,
        own_group=REVIVE_GROUP,
        families=families,
    )
    return state.fast_path.times.bulk_text(order)


class Pieces:
    """A text of the fast path, in pieces that are copied one by one."""

    def __init__(self, text: BulkText) -> None:
        """Takes the text."""
        self._text = text

    def __iter__(self) -> Iterator[bytes]:
        """Copies one piece after the other."""
        for start in range(0, len(self._text), _PIECE_BYTES):
            yield self._text.piece(start, _PIECE_BYTES)


def _is_system(state: BrokerState, topic: str, group: str) -> str:
    """Returns the label `is_system` (`BrokerMetricsManager.isSystem`)."""
    is_inner = group in BUILTIN_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)
    return "true" if is_inner or state.topics.is_system(topic) else "false"


def group_rows(state: BrokerState) -> dict[str, Rows]:
    """Returns what groups gave back, and how long transactions of topics took."""
    dead: dict[_Labels, int] = {}
    back: dict[_Labels, int] = {}
    for given in state.fast_path.times.given_back():
        if given.dead:
            is_system = _is_system(state, given.topic, given.group)
            dead[given.group, given.topic, is_system] = given.dead
        if given.retried:
            back[given.group, given.topic] = given.retried
    finishes: dict[_Labels, Buckets] = {}
    for found in state.fast_path.times.topic_seconds():
        if any(found.finishes):
            finishes[(found.topic,)] = Buckets(found.finishes, found.finishes_sum)
    return {
        "rocketmq_send_to_dlq_messages_total": dead,
        "mqcore_sent_back_total": back,
        "rocketmq_finish_message_latency_milliseconds": finishes,
    }


def revive_rows(state: BrokerState, behind_ms: int | None) -> dict[str, Rows]:
    """Returns how far the check points of pops were looked at, by queue.

    Args:
        state: The broker.
        behind_ms: For how long the first that was not looked at has been there, where there is one.
    """
    lags: dict[_Labels, int] = {}
    ages: dict[_Labels, int] = {}
    topic = revive_topic(state.settings.cluster)
    for queue_id in state.read_queues(topic):
        done = state.fast_path.offsets.find(REVIVE_GROUP, topic, queue_id)
        end = state.bounds(topic, queue_id)[1]
        # The offset of this group is that of the last check point that it is done with.
        lag = max(0, end - 1 - (-1 if done is None else done))
        lags[(str(queue_id),)] = lag
        ages[(str(queue_id),)] = (behind_ms or 0) if lag else 0
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
