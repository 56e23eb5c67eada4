"""How fast a consumer pulls and consumes, per topic, as `mqadmin consumerStatus` shows it.

Pure state over passed-in times (`ConsumerStatsManager`: rates over the last minute, failures over
the last hour).
"""

from dataclasses import dataclass, field
from typing import Final

__all__ = ["ConsumeStatistics", "TopicStatistics"]

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
# The official sampler looks every 10 s; an hour has so few slots because nobody asks for more.
_MINUTE_SLOTS: Final = 6
_HOUR_SLOTS: Final = 12
_MS_PER_S: Final = 1000


class _Window:
    """Sums of a sliding window, in a ring of slots."""

    __slots__ = ("_slot_ms", "_slots", "_sums", "_times")

    def __init__(self, window_ms: int, slots: int) -> None:
        self._slot_ms = window_ms // slots
        self._slots: list[int] = [-1] * slots
        self._sums: list[float] = [0.0] * slots
        self._times: list[int] = [0] * slots

    def add(self, value: float, times: int, now_ms: int) -> None:
        slot = now_ms // self._slot_ms
        at = slot % len(self._slots)
        if self._slots[at] != slot:
            self._slots[at], self._sums[at], self._times[at] = slot, 0.0, 0
        self._sums[at] += value
        self._times[at] += times

    def total(self, now_ms: int) -> tuple[float, int]:
        oldest = now_ms // self._slot_ms - len(self._slots)
        kept = [at for at, slot in enumerate(self._slots) if slot > oldest]
        return sum(self._sums[at] for at in kept), sum(self._times[at] for at in kept)


def _minute() -> _Window:
    return _Window(_MINUTE_MS, _MINUTE_SLOTS)


@dataclass(slots=True)
class TopicStatistics:
    """The counters of one topic."""

    _pulled: _Window = field(default_factory=_minute)
    _pull_ms: _Window = field(default_factory=_minute)
    _done: _Window = field(default_factory=_minute)
    _failed: _Window = field(default_factory=_minute)
    _consume_ms: _Window = field(default_factory=_minute)
    _failed_hour: _Window = field(default_factory=lambda: _Window(_HOUR_MS, _HOUR_SLOTS))

    def pulled(self, count: int, took_ms: int, now_ms: int) -> None:
        """Notes a pull that brought messages."""
        self._pulled.add(count, 1, now_ms)
        self._pull_ms.add(took_ms, 1, now_ms)

    def consumed(self, done: int, failed: int, took_ms: float, calls: int, now_ms: int) -> None:
        """Notes calls of the handler: messages done and failed, and the time of all calls."""
        self._done.add(done, 1, now_ms)
        self._consume_ms.add(took_ms, calls, now_ms)
        if failed:
            self._failed.add(failed, 1, now_ms)
            self._failed_hour.add(failed, 1, now_ms)

    def to_json(self, now_ms: int) -> dict[str, int | float]:
        """Returns the official `ConsumeStatus`: messages per second, ms per call, failures."""
        return {
            "consumeFailedMsgs": int(self._failed_hour.total(now_ms)[0]),
            "consumeFailedTPS": _per_second(self._failed, now_ms),
            "consumeOKTPS": _per_second(self._done, now_ms),
            "consumeRT": _mean(self._consume_ms, now_ms),
            "pullRT": _mean(self._pull_ms, now_ms),
            "pullTPS": _per_second(self._pulled, now_ms),
        }


class ConsumeStatistics:
    """The counters of all topics of a consumer."""

    def __init__(self) -> None:
        """Makes empty counters."""
        self._topics: dict[str, TopicStatistics] = {}

    def topic(self, topic: str) -> TopicStatistics:
        """Returns the counters of a topic."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicStatistics()
        return found


def _per_second(window: _Window, now_ms: int) -> float:
    return window.total(now_ms)[0] / (_MINUTE_MS / _MS_PER_S)


def _mean(window: _Window, now_ms: int) -> float:
    total, times = window.total(now_ms)
    return total / times if times else 0.0
