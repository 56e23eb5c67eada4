"""Filters of a query that make fewer rows come: topics, queues, offsets, times, tags.

Spark still tests every row, so that each of them may be understood as far as it helps and no
further. A class of its own: Spark before 4.1 knows no such method, and later ones refuse it while
`spark.sql.python.filterPushdown.enabled` is off, the default.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from mqcore.model.queues import MessageQueue
from mqcore.model.subscriptions import ALL
from mqcore.spark.topic_source.batch_reader import TopicBatchReader
from mqcore.spark.topic_source.cluster import Cluster

__all__ = ["Narrowing", "PushdownBatchReader", "narrowing"]

_FOREVER: Final = 2**63 - 1

QueueOffsets = dict[MessageQueue, int]


@dataclass
class Narrowing:
    """What filters leave.

    Attributes:
        values: The values that a column may have, by column; a column without filters is absent.
        low: Least value of a column.
        high: Greatest value of a column.
    """

    values: dict[str, frozenset[Any]] = field(default_factory=dict)
    low: dict[str, int] = field(default_factory=dict)
    high: dict[str, int] = field(default_factory=dict)

    def has(self, queue: MessageQueue) -> bool:
        """Whether rows of a queue may pass."""
        found = {
            "topic": queue.topic,
            "brokername": queue.broker_name,
            "queueid": queue.queue_id,
        }
        return all(
            value in self.values.get(column, (value,)) for column, value in found.items()
        ) and self.low.get("queueid", 0) <= queue.queue_id <= self.high.get("queueid", _FOREVER)

    @property
    def tags(self) -> str:
        """The tag expression; `*` for everything."""
        return " || ".join(sorted(self.values["tags"])) if "tags" in self.values else ALL


_COLUMNS: Final = frozenset({"topic", "brokername", "queueid", "queueoffset", "tags"})
_TIME: Final = "storetimestamp"
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def narrowing(filters: Iterable[Filter]) -> Narrowing:
    """Returns what filters leave; one that is not understood narrows nothing."""
    found = Narrowing()
    for each in filters:
        path: tuple[str, ...] = getattr(each, "attribute", ())
        if len(path) != 1:
            continue
        column, value = str(path[0]).lower(), getattr(each, "value", None)
        if isinstance(each, EqualTo | EqualNullSafe) and column in _COLUMNS and value is not None:
            _only(found, column, [value])
        elif isinstance(each, In) and column in _COLUMNS:
            _only(found, column, [one for one in each.value if one is not None])
        elif column in ("queueid", "queueoffset") and isinstance(value, int):
            _bound(found, column, each, value)
        elif column == _TIME and isinstance(value, datetime):
            # A row's time is in whole milliseconds: a bound within one takes it in.
            moment_ms = (value - _EPOCH) // timedelta(milliseconds=1)
            _bound(found, column, each, moment_ms)
            if isinstance(each, EqualTo):
                found.low[_TIME] = found.high[_TIME] = moment_ms
    offsets = found.values.pop("queueoffset", None)
    if offsets is not None:
        # None fits: an empty range.
        found.low["queueoffset"] = max(
            min(offsets, default=_FOREVER), found.low.get("queueoffset", 0)
        )
        found.high["queueoffset"] = min(
            max(offsets, default=0), found.high.get("queueoffset", _FOREVER)
        )
    return found


def _only(found: Narrowing, column: str, values: Iterable[Any]) -> None:
    wanted = frozenset(values)
    found.values[column] = found.values.get(column, wanted) & wanted


def _bound(found: Narrowing, column: str, each: Filter, value: int) -> None:
    # At a time, `>` and `<` keep the millisecond itself: Spark tests the rows of it.
    step = 0 if column == _TIME else 1
    if isinstance(each, GreaterThan):
        found.low[column] = max(found.low.get(column, 0), value + step)
    elif isinstance(each, GreaterThanOrEqual):
        found.low[column] = max(found.low.get(column, 0), value)
    elif isinstance(each, LessThan):
        found.high[column] = min(found.high.get(column, _FOREVER), value - step)
    elif isinstance(each, LessThanOrEqual):
        found.high[column] = min(found.high.get(column, _FOREVER), value)


class PushdownBatchReader(TopicBatchReader):
    """Reads topics once, and of them what filters of the query leave."""

    narrowed = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Takes what helps, and leaves all filters to Spark as well."""
        self.narrowed = narrowing(filters)
        if self.options.sql is None and self.options.tags == ALL:
            self.wanted = replace(self.wanted, tags=self.narrowed.tags)
        low, high = self.narrowed.low.get(_TIME), self.narrowed.high.get(_TIME)
        self.wanted = replace(self.wanted, start_ms=low, end_ms=None if high is None else high + 1)
        yield from filters

    def bounds(self, cluster: Cluster) -> tuple[QueueOffsets, QueueOffsets]:
        """Returns where each queue that is left begins and ends."""
        start, end = super().bounds(cluster)
        left = self.narrowed
        if left.values.get("tags") == frozenset():
            return {}, {}
        low, high = left.low, left.high
        found_start: QueueOffsets = {}
        found_end: QueueOffsets = {}
        for queue in filter(left.has, end):
            begin = max(start[queue], low.get("queueoffset", 0))
            stop = min(end[queue], high.get("queueoffset", _FOREVER) + 1)
            # As the broker's own time search: times rise along a queue.
            if _TIME in low and begin < stop:
                begin = max(begin, cluster.offset_at(queue, low[_TIME]))
            if _TIME in high and begin < stop:
                stop = min(stop, self._behind(cluster, queue, high[_TIME], stop))
            if begin < stop:
                found_start[queue], found_end[queue] = begin, stop
        return found_start, found_end

    def _behind(self, cluster: Cluster, queue: MessageQueue, high_ms: int, stop: int) -> int:
        """Returns the first offset behind a time."""
        at = cluster.offset_at(queue, high_ms + 1)
        # A broker of 4.9 answers the last message where all are older; it may pass.
        return stop if at >= stop - 1 else at
