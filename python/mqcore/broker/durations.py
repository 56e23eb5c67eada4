"""Durations as the fast path counts them, by powers of two of a microsecond. Pure functions."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

__all__ = ["percentile_us", "spans_text"]

_US_PER_MS: Final = 1_000
# Spans of the time of a put, as the official table spells them, with their ends, ms.
_SPANS: Final = (
    ("<=0ms", 1),
    ("0~10ms", 10),
    ("10~50ms", 50),
    ("50~100ms", 100),
    ("100~200ms", 200),
    ("200~500ms", 500),
    ("500ms~1s", 1_000),
    ("1~2s", 2_000),
    ("2~3s", 3_000),
    ("3~4s", 4_000),
    ("4~5s", 5_000),
    ("5~10s", 10_000),
    ("10s~", None),
)


def percentile_us(counts: Sequence[int], share: float, max_us: int) -> int:
    """Returns the bound that a share of durations did not pass, us; 0 without any.

    Args:
        counts: How many took at most 1, 2, 4 us and so on, each without those before; the last
            bucket has the rest.
        share: Between 0 and 1.
        max_us: The longest; no percentile is above it.
    """
    wanted = share * sum(counts)
    if not wanted:
        return 0
    for bucket, reached in enumerate(accumulate(counts[:-1])):
        if reached >= wanted:
            return min(1 << bucket, max_us)
    return max_us


def spans_text(counts: Sequence[int]) -> str:
    """Returns durations by the spans of the official table (`putMessageDistributeTime`).

    A bucket counts in the span where it begins: spans end at other times than buckets.
    """
    sums = dict.fromkeys((name for name, _end in _SPANS), 0)
    for bucket, count in enumerate(counts):
        from_us = (1 << bucket) >> 1
        ends = (name for name, end in _SPANS if end is None or from_us < end * _US_PER_MS)
        sums[next(ends)] += count
    return " ".join(f"[{name}]:{count}" for name, count in sums.items())
