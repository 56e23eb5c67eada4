"""Rows at a steady rate: batches are cut small and held back until they are due. Runs in a task."""

import threading
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from mqcore.clock import monotonic_ms

__all__ = ["batch_rows_of", "paced"]

_MS_PER_S = 1_000
# So often per second something is let through: smooth for a broker, cheap for us.
_TURNS_PER_S = 10
_ROWS_MAX = 8_192


def batch_rows_of(per_s: float) -> int:
    """Returns how many rows go through at once at a rate."""
    return max(1, min(_ROWS_MAX, int(per_s / _TURNS_PER_S)))


def paced(
    batches: Iterable[pa.RecordBatch],
    per_s: float,
    *,
    now_ms: Callable[[], int] = monotonic_ms,
    wait_s: Callable[[float], object] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of batches, at most so many per second; what is late is not made up for.

    Args:
        batches: The rows.
        per_s: How many per second, above 0.
        now_ms: The time; it never steps back.
        wait_s: Waits so many seconds.
    """
    wait = wait_s or threading.Event().wait
    rows = batch_rows_of(per_s)
    due_ms = float(now_ms())
    for batch in batches:
        for begin in range(0, batch.num_rows, rows):
            part = batch.slice(begin, rows)
            late_ms = due_ms - now_ms()
            if late_ms > 0:
                wait(late_ms / _MS_PER_S)
            yield part
            due_ms = max(due_ms, float(now_ms()) - _MS_PER_S / _TURNS_PER_S)
            due_ms += part.num_rows / per_s * _MS_PER_S
