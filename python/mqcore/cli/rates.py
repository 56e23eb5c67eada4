"""Rates of counters between two looks: how much came per second. Pure numbers, times passed in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Rates"]

_Key = TypeVar("_Key")

_MS_PER_S = 1_000


@dataclass(slots=True)
class Rates(Generic[_Key]):
    """Counters as they were at the last look."""

    _counts: Mapping[_Key, int] | None = None
    _at_ms: int = 0

    def look(self, counts: Mapping[_Key, int], now_ms: int) -> dict[_Key, float]:
        """Notes counters; returns what each grew by per second since the last look.

        A counter that is new, or was set back, has no rate yet: 0.

        Args:
            counts: The counters.
            now_ms: A time that never steps back.
        """
        before, passed_ms = self._counts, now_ms - self._at_ms
        self._counts, self._at_ms = dict(counts), now_ms
        if before is None or passed_ms <= 0:
            return dict.fromkeys(counts, 0.0)
        return {
            key: max(0, count - before.get(key, count)) * _MS_PER_S / passed_ms
            for key, count in counts.items()
        }
