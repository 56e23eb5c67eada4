"""Counters of the broker over the last minute, hour and day, as `statsAll` asks for them.

Pure state over passed-in times: totals come in, differences over a window come out.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_MS_PER_SECOND = 1_000
# Distance of two samples and how many are kept, as the official broker has them: a window of a
# minute by 10 s, of an hour by 10 minutes, of a day by an hour.
MINUTE_STEP_MS = 10_000
HOUR_STEP_MS = 600_000
DAY_STEP_MS = 3_600_000
_MINUTE_SAMPLES = 7
_HOUR_SAMPLES = 7
_DAY_SAMPLES = 25
# Series kept at the most: each has at most 39 samples of three numbers, some 10 KB.
SERIES_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Sample:
    """A running total at one moment.

    Attributes:
        at_ms: When it was taken.
        value: The total.
        times: How many additions made it.
    """

    at_ms: int
    value: int
    times: int


@dataclass(frozen=True, slots=True)
class Window:
    """What happened between the first and the last sample of a window.

    Attributes:
        sum: The difference of the totals.
        per_second: That per second.
        per_time: That per addition.
    """

    sum: int = 0
    per_second: float = 0.0
    per_time: float = 0.0

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> "Window":
        """Returns the window that samples span."""
        kept = list(samples)
        if len(kept) < 2:
            return cls()
        first, last = kept[0], kept[-1]
        grown, passed_ms = last.value - first.value, last.at_ms - first.at_ms
        times = last.times - first.times
        return cls(
            sum=grown,
            per_second=grown * _MS_PER_SECOND / passed_ms if passed_ms > 0 else 0.0,
            per_time=grown / times if times > 0 else 0.0,
        )

    def to_json(self) -> dict[str, Any]:
        """Returns it as `BrokerStatsItem` has it."""
        return {"avgpt": self.per_time, "sum": self.sum, "tps": self.per_second}


class Series:
    """Samples of one counter."""

    __slots__ = ("_day", "_hour", "_minute")

    def __init__(self) -> None:
        """Begins without a sample."""
        self._minute: deque[Sample] = deque(maxlen=_MINUTE_SAMPLES)
        self._hour: deque[Sample] = deque(maxlen=_HOUR_SAMPLES)
        self._day: deque[Sample] = deque(maxlen=_DAY_SAMPLES)

    def note(self, sample: Sample) -> None:
        """Takes a sample into every window whose last one is old enough."""
        for kept, step_ms in (
            (self._minute, MINUTE_STEP_MS),
            (self._hour, HOUR_STEP_MS),
            (self._day, DAY_STEP_MS),
        ):
            if not kept or sample.at_ms - kept[-1].at_ms >= step_ms:
                kept.append(sample)

    @property
    def latest(self) -> Window:
        """The last ten seconds."""
        return Window.of(list(self._minute)[-2:])

    @property
    def ten_minutes(self) -> Window:
        """The last ten minutes; less while the broker is younger."""
        kept = list(self._hour)[-1:] + list(self._minute)[-1:]
        return Window.of(kept)

    @property
    def minute(self) -> Window:
        """The last minute."""
        return Window.of(self._minute)

    @property
    def hour(self) -> Window:
        """The last hour."""
        return Window.of(self._hour)

    @property
    def day(self) -> Window:
        """The last day."""
        return Window.of(self._day)

    def to_json(self) -> dict[str, Any]:
        """Returns it as `BrokerStatsData` has it."""
        return {
            "statsDay": self.day.to_json(),
            "statsHour": self.hour.to_json(),
            "statsMinute": self.minute.to_json(),
        }


class Statistics:
    """All counters, by the official name and key (a topic, `topic@group`, the cluster)."""

    def __init__(self) -> None:
        """Begins without a counter."""
        self._series: dict[tuple[str, str], Series] = {}

    def note(self, name: str, key: str, value: int, now_ms: int, times: int | None = None) -> None:
        """Takes the running total of a counter; a new counter beyond the bound is left out."""
        series = self._series.get((name, key))
        if series is None:
            if len(self._series) >= SERIES_MAX:
                return
            series = self._series[name, key] = Series()
        series.note(Sample(now_ms, value, value if times is None else times))

    def find(self, name: str, key: str) -> Series | None:
        """Returns a counter, None where it was never noted."""
        return self._series.get((name, key))

    def forget(self, keep: Iterable[tuple[str, str]]) -> None:
        """Drops every counter but those."""
        kept = set(keep)
        self._series = {place: series for place, series in self._series.items() if place in kept}
