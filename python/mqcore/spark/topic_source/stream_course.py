"""The course of a stream: where it begins, how far each trigger comes, what a batch reads.

Everything that the classes which Spark calls have in common, whatever its version. Offsets in
Spark's checkpoint are the truth. Knows no Spark. After Kafka's `KafkaMicroBatchStream`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mqcore.clock import monotonic_ms
from mqcore.model.queues import MessageQueue
from mqcore.spark.topic_source.cluster import Cluster, QueueBounds
from mqcore.spark.topic_source.data_loss import Loss, LossRule, mended
from mqcore.spark.topic_source.mirror import GroupMirror
from mqcore.spark.topic_source.options import ReadOptions
from mqcore.spark.topic_source.planning import limited
from mqcore.spark.topic_source.range_reader import TOOLS_GROUP
from mqcore.spark.topic_source.resolution import Topics, cap_by_time, starts
from mqcore.spark.topic_source.sizes import RowSizes
from mqcore.spark.topic_source.stream_offsets import StreamOffset

__all__ = ["StreamCourse"]

QueueOffsets = dict[MessageQueue, int]


@dataclass(frozen=True, slots=True)
class _Reach:
    """How far a trigger could come: the ends, and the queues behind them."""

    ends: QueueOffsets
    bounds: dict[MessageQueue, QueueBounds]


class StreamCourse:
    """One streaming query, in its planner's process.

    Attributes:
        sizes: What messages take.
    """

    def __init__(
        self,
        options: ReadOptions,
        cluster: Cluster,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        """Takes what is read; asks nobody yet.

        Args:
            options: What the user gave.
            cluster: Who is asked.
            now_ms: A monotonic time.
        """
        self._options = options
        self._cluster = cluster
        self._now_ms = now_ms
        self._topics = Topics(cluster, options)
        self._loss = LossRule(is_fatal=options.fails_on_data_loss)
        self.sizes = RowSizes(cluster)
        self._initial: StreamOffset | None = None
        self._reach: _Reach | None = None
        self._target: QueueOffsets | None = None
        self._triggered_ms: int | None = None
        self._is_first = True
        self._gone: set[MessageQueue] = set()
        group = options.mirrors_to
        self._mirror = GroupMirror(cluster, group) if group is not None else None
        self._marked = (options.namesrv, group) if group is not None else None

    def initial(self) -> StreamOffset:
        """Returns where the query begins; the same each time it is asked for.

        Raises:
            MQError: What the options name is not there.
        """
        if self._initial is None:
            options, bounds = self._options, self._topics.known_bounds()
            if options.sql is not None:
                group = options.group or TOOLS_GROUP
                self._cluster.check_filter(self._topics.names(), group, options.sql)
            begun = starts(self._cluster, options, bounds, is_stream=True)
            mends, lost = mended(begun, bounds)
            self._loss.report(*lost)
            self._initial = StreamOffset(mends, is_fresh=True, mirror=self._marked)
        return self._initial

    def latest(self, start: StreamOffset, *, is_limited: bool) -> StreamOffset:
        """Returns how far the next batch comes; `start` itself where there is nothing new.

        Args:
            start: How far the stream has come.
            is_limited: Whether the limits per trigger count.

        Raises:
            MQError: Offsets are lost and that is fatal, or brokers do not answer.
        """
        reach = self._look()
        begun, lost = mended(start.next, reach.bounds)
        if self._loss.is_fatal:
            self._loss.report(*lost)
        self._note_gone({queue for queue in start.next if queue not in reach.bounds}, start)
        fresh_queues = {
            queue: reach.bounds[queue].min for queue in reach.ends if queue not in begun
        }
        begun |= fresh_queues
        ends = {queue: max(offset, begun[queue]) for queue, offset in reach.ends.items()}
        within = self._within_limits(begun, ends) if is_limited else ends
        if within is None:
            within = {queue: begun[queue] for queue in ends if queue not in fresh_queues}
            fresh_queues = {}
        # A queue that is gone keeps its offset.
        kept = {queue: offset for queue, offset in start.next.items() if queue not in within}
        init = (dict(start.next) if start.is_fresh else {}) | fresh_queues
        end = StreamOffset(kept | within, init=init, mirror=self._marked)
        return start if not start.is_fresh and end.next == start.next else end

    def aim(self) -> None:
        """Fixes the end of a query that reads what is there now, and no more."""
        self._target = None
        self._target = self._look().ends

    def report(self) -> StreamOffset | None:
        """Returns how far the stream could come, as it was last seen."""
        return None if self._reach is None else StreamOffset(self._reach.ends, mirror=self._marked)

    def between(self, start: StreamOffset, end: StreamOffset) -> tuple[QueueOffsets, QueueOffsets]:
        """Returns where each queue of a batch begins and ends.

        Raises:
            DataLossError: Something of it is gone, and that is fatal.
        """
        if self._is_first:
            # What a query goes on from is in its checkpoint; its first commit may never come.
            self._is_first = False
            if not start.is_fresh:
                self.commit_to_group(start)
        begun = start.start_for(end)
        moved = {queue: offset for queue, offset in begun.items() if end.next[queue] != offset}
        gone = [] if start.is_fresh else sorted(start.next.keys() - end.next.keys())
        self._loss.report(*(Loss.vanished(queue, start.next[queue]) for queue in gone))
        if not moved:
            return {}, {}
        bounds = (self._reach or self._look()).bounds
        begun, lost = mended(moved, bounds)
        self._loss.report(*lost)
        ends: QueueOffsets = {}
        for queue in begun:
            if queue not in bounds:
                continue
            high = end.next[queue]
            if high > bounds[queue].max:
                # What was seen may be older than the batch, on a run after a restart.
                bounds = self._look().bounds
                if queue in bounds and high > bounds[queue].max:
                    self._loss.report(Loss.truncated(queue, high, bounds[queue].max))
                    high = bounds[queue].max
            ends[queue] = max(high, begun[queue])
        return begun, ends

    def commit_to_group(self, offset: StreamOffset) -> None:
        """Commits a durable offset to the group, where there is one."""
        if self._mirror is not None:
            self._mirror.commit(offset.next)

    def _note_gone(self, gone: set[MessageQueue], start: StreamOffset) -> None:
        """Reports once of a queue that it is gone; the other losses are reported of each batch."""
        new = sorted(gone - self._gone)
        self._gone = gone
        self._loss.report(*(Loss.vanished(queue, start.next[queue]) for queue in new))

    def _look(self) -> _Reach:
        bounds = self._topics.bounds()
        ending_ms, target = self._options.ending_ms, self._target
        ends = (
            {queue: held.max for queue, held in bounds.items()}
            if ending_ms is None
            else cap_by_time(self._cluster, bounds, ending_ms)
        )
        if target is not None:
            # What came since, new queues too, is the next run's.
            ends = {queue: min(ends[queue], target[queue]) for queue in ends if queue in target}
        self._reach = _Reach(ends, bounds)
        return self._reach

    def _within_limits(self, begun: QueueOffsets, ends: QueueOffsets) -> QueueOffsets | None:
        """Returns ends within the limits per trigger; None where more is to be waited for."""
        options = self._options
        least = options.min_rows_per_trigger
        if least is not None and self._target is None and self._waits(begun, ends, least):
            return None
        self._triggered_ms = self._now_ms()
        found = ends
        if options.rows_per_trigger is not None:
            found = limited(begun, ends, options.rows_per_trigger)
        if options.bytes_per_trigger is not None:
            weights = self.sizes.of(begun, ends)
            by_bytes = limited(begun, ends, options.bytes_per_trigger, weights)
            found = {queue: min(offset, by_bytes[queue]) for queue, offset in found.items()}
        return found

    def _waits(self, begun: QueueOffsets, ends: QueueOffsets, least: int) -> bool:
        rows = sum(offset - begun[queue] for queue, offset in ends.items())
        last_ms = self._triggered_ms
        if rows >= least or last_ms is None:
            return False
        return self._now_ms() - last_ms < self._options.trigger_delay_ms
