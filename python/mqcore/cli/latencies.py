"""Latencies in a histogram of constant size: percentiles within 3 %. Pure numbers."""

__all__ = ["Latencies"]

# Steps per doubling: a value is exact to 1/32 of itself.
_STEP_BITS = 5
_STEPS = 1 << _STEP_BITS


class Latencies:
    """How often something took how long.

    Attributes:
        count: How many were noted.
    """

    def __init__(self) -> None:
        """Begins with none."""
        self.count = 0
        self._buckets: dict[int, int] = {}
        self._max_us = 0

    def note(self, took_us: float) -> None:
        """Notes one, in microseconds."""
        value = max(0, int(took_us))
        self.count += 1
        self._max_us = max(self._max_us, value)
        bucket = _bucket(value)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    def percentile_us(self, part: float) -> int:
        """Returns what a part of all did not exceed, in microseconds; 0 without any.

        Args:
            part: Such as 0.99.
        """
        wanted, seen = part * self.count, 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return min(_upper(bucket), self._max_us)
        return self._max_us

    def summary_us(self) -> dict[str, int]:
        """Returns median, high percentiles and maximum, in microseconds."""
        parts = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
        return {name: self.percentile_us(part) for name, part in parts.items()} | {
            "max": self._max_us
        }


def _bucket(value: int) -> int:
    """Returns the bucket of a value: exact below 32, then 32 per doubling."""
    if value < _STEPS:
        return value
    shift = value.bit_length() - _STEP_BITS - 1
    return (shift + 1) * _STEPS + (value >> shift) - _STEPS


def _upper(bucket: int) -> int:
    """Returns the largest value of a bucket."""
    if bucket < _STEPS:
        return bucket
    shift, step = bucket // _STEPS - 1, bucket % _STEPS
    return ((step + _STEPS + 1) << shift) - 1
