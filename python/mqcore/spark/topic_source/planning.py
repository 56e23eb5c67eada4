"""From ranges of queues to tasks: long ranges are cut, tiny ones of a broker travel together.

Pure functions. After Kafka's `KafkaOffsetRangeCalculator`, with bytes beside rows.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from mqcore.model.queues import MessageQueue

__all__ = ["PACKED_BYTES", "QueueRange", "plan", "rows_of"]

# Ranges that are together smaller go into one task: starting it costs more than reading them.
PACKED_BYTES: Final = 2 << 20


@dataclass(frozen=True, slots=True)
class QueueRange:
    """A part of a queue.

    Attributes:
        queue: Which.
        start: First offset.
        end: Offset behind the last one.
        row_bytes: What a message takes in the log, as far as is known.
    """

    queue: MessageQueue
    start: int
    end: int
    row_bytes: float = 1024.0

    @property
    def rows(self) -> int:
        """Offsets in it."""
        return self.end - self.start

    @property
    def bytes(self) -> float:
        """About how long it is."""
        return self.rows * self.row_bytes


def rows_of(ranges: Iterable[QueueRange]) -> int:
    """Returns the offsets of all ranges."""
    return sum(each.rows for each in ranges)


def plan(
    ranges: Sequence[QueueRange],
    *,
    min_tasks: int | None = None,
    rows_max: int | None = None,
    bytes_max: int,
) -> list[list[QueueRange]]:
    """Returns the ranges of each task, by queue and offset; every offset once, none without one.

    Args:
        ranges: Ranges of different queues.
        min_tasks: So many tasks at the least, about, as long as there are rows for them.
        rows_max: Rows of one task at the most.
        bytes_max: Bytes of one task at the most, as far as sizes are known.
    """
    wanted = sorted((each for each in ranges if each.rows > 0), key=_start)
    if not wanted:
        return []
    total = rows_of(wanted)
    cut = [
        part
        for each in wanted
        for part in _cut(each, _parts(each, total, min_tasks, rows_max, bytes_max))
    ]
    if min_tasks is not None:
        return [[part] for part in cut]
    return _packed(cut, rows_max, min(bytes_max, PACKED_BYTES))


def _start(each: QueueRange) -> tuple[MessageQueue, int]:
    return each.queue, each.start


def _parts(
    each: QueueRange, total: int, min_tasks: int | None, rows_max: int | None, bytes_max: int
) -> int:
    parts = math.ceil(each.bytes / bytes_max)
    if rows_max is not None:
        parts = max(parts, math.ceil(each.rows / rows_max))
    if min_tasks is not None:
        parts = max(parts, math.ceil(each.rows / total * min_tasks))
    return max(1, min(parts, each.rows))


def _cut(each: QueueRange, parts: int) -> list[QueueRange]:
    edges = [each.start + each.rows * index // parts for index in range(parts + 1)]
    return [replace(each, start=low, end=high) for low, high in pairwise(edges)]


def _packed(
    parts: Iterable[QueueRange], rows_max: int | None, bytes_max: int
) -> list[list[QueueRange]]:
    """Puts small neighbours together; a task asks one broker."""
    tasks: list[list[QueueRange]] = []
    by_broker: dict[str, list[QueueRange]] = {}
    for part in parts:
        open_task = by_broker.get(part.queue.broker_name)
        if open_task is not None and _fits(open_task, part, rows_max, bytes_max):
            open_task.append(part)
            continue
        task = [part]
        tasks.append(task)
        by_broker[part.queue.broker_name] = task
    return tasks


def _fits(
    task: Sequence[QueueRange], part: QueueRange, rows_max: int | None, bytes_max: int
) -> bool:
    rows = rows_of(task) + part.rows
    return sum(each.bytes for each in task) + part.bytes <= bytes_max and (
        rows_max is None or rows <= rows_max
    )


def limited(
    start: Mapping[MessageQueue, int],
    end: Mapping[MessageQueue, int],
    limit: float,
    weights: Mapping[MessageQueue, float] | None = None,
) -> dict[MessageQueue, int]:
    """Returns ends that together are about `limit` away from the starts, each in proportion.

    A queue with anything to read always gets at least one message, so that small ones never
    starve (after Kafka's `rateLimit`).

    Args:
        start: Where each queue is.
        end: Where it could come to.
        limit: Rows, or bytes with `weights`.
        weights: Bytes of a row by queue.
    """
    sizes = {
        queue: max(0, end[queue] - start.get(queue, end[queue]))
        * (1.0 if weights is None else weights[queue])
        for queue in end
    }
    total = sum(sizes.values())
    if total <= limit:
        return dict(end)
    found = {queue: end[queue] for queue, size in sizes.items() if size <= 0}
    left = limit
    for queue in sorted(sizes.keys() - found.keys(), key=lambda queue: (sizes[queue], queue)):
        # What a small queue does not need, or took beyond its share, is the others'.
        size = sizes[queue]
        rows = end[queue] - start[queue]
        taken = max(1, min(rows, round(rows * left / total)))
        found[queue] = start[queue] + taken
        left -= taken * size / rows
        total -= size
    return dict(sorted(found.items()))
