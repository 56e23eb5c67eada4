"""Counters of the broker over windows, as `statsAll` and `clusterList` ask for them.

Pure state over passed-in times: totals come in, differences over a window come out.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

_MS_PER_SECOND = 1_000
# Distance of two samples and how many are kept, as the official broker has them: a window of a
# minute by 10 s, of an hour by 10 minutes, of a day by an hour.
MINUTE_STEP_MS = 10_000
HOUR_STEP_MS = 600_000
DAY_STEP_MS = 3_600_000
_MINUTE_SAMPLES = 7
_HOUR_SAMPLES = 7
_DAY_SAMPLES = 25
# Distance of two samples of the rates of the whole broker, and the windows that are reported
# (`StoreStatsService`).
RATE_STEP_MS: Final = 1_000
_RATE_WINDOWS_S: Final = (10, 60, 600)
# Names of counters that Python fills (`BrokerStatsManager`).
QUEUE_GET: Final = "QUEUE_GET_NUMS"
QUEUE_GET_SIZE: Final = "QUEUE_GET_SIZE"
CONSUMER_REGISTER: Final = "CONSUMER_REGISTER_TIME"
PRODUCER_REGISTER: Final = "PRODUCER_REGISTER_TIME"
CHANNELS: Final = "CHANNEL_ACTIVITY"
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

    def note(self, sample: Sample, *, begins_at_zero: bool) -> None:
        """Takes a sample into every window whose last one is old enough.

        Args:
            sample: The sample.
            begins_at_zero: Whether the first one counts what it has: before it, by the distance of
                two, was nothing (`StatsItem.samplingInSeconds`). Otherwise it is where counting
                begins.
        """
        for kept, step_ms in (
            (self._minute, MINUTE_STEP_MS),
            (self._hour, HOUR_STEP_MS),
            (self._day, DAY_STEP_MS),
        ):
            if not kept and begins_at_zero:
                kept.append(Sample(sample.at_ms - step_ms, 0, 0))
            if not kept or sample.at_ms - kept[-1].at_ms >= step_ms:
                kept.append(sample)

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


class Rates:
    """How fast a total of the whole broker grows, by a sample each second."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        """Begins without a sample."""
        self._samples: deque[Sample] = deque(maxlen=_RATE_WINDOWS_S[-1] + 1)

    def note(self, total: int, now_ms: int) -> None:
        """Takes the total; one that comes too soon behind the last is left out."""
        if not self._samples or now_ms - self._samples[-1].at_ms >= RATE_STEP_MS:
            self._samples.append(Sample(now_ms, total, total))

    def text(self) -> str:
        """Returns three rates: of the last ten seconds, the last minute, the last ten minutes.

        While the broker is younger than a window, that of the time since its start: the official
        broker reports nothing then.
        """
        samples = self._samples
        rates = []
        for window_s in _RATE_WINDOWS_S:
            first = max(0, len(samples) - 1 - window_s)
            ends = (samples[first], samples[-1]) if samples else ()
            rates.append(str(Window.of(ends).per_second))
        return " ".join(rates)


class DailyTotals:
    """A total as it was at the last two midnights (`BrokerStats.record`)."""

    def __init__(self) -> None:
        """Begins at zero: a total counts from the start of the broker."""
        self.today_morning = 0
        self.yesterday_morning = 0
        self._day: date | None = None

    def note(self, total: int, now_ms: int) -> None:
        """Takes the total; the first of a day by the local clock is that of its morning."""
        day = datetime.fromtimestamp(now_ms / _MS_PER_SECOND).astimezone().date()
        if self._day is not None and day > self._day:
            self.yesterday_morning, self.today_morning = self.today_morning, total
        if self._day is None or day > self._day:
            # A clock that is set back makes no second midnight.
            self._day = day


class Tallies:
    """Running totals of what Python does, by the official name and key."""

    def __init__(self) -> None:
        """Begins without any."""
        self._totals: dict[tuple[str, str], tuple[int, int]] = {}

    def add(self, name: str, key: str, value: int = 1, times: int = 1) -> None:
        """Counts additions. Names and keys are few: those of the program, and delay levels."""
        total, before = self._totals.get((name, key), (0, 0))
        self._totals[name, key] = total + value, before + times

    def rows(self) -> list[tuple[str, str, int, int]]:
        """Returns name, key, total and how many additions made it."""
        return [(*key, *total) for key, total in self._totals.items()]


class Statistics:
    """All counters, by the official name and key (a topic, `topic@group`, the cluster).

    Attributes:
        rates: Of the whole broker, by a name of its own.
        days: The same totals at midnight.
    """

    def __init__(self) -> None:
        """Begins without a counter."""
        self._series: dict[tuple[str, str], Series] = {}
        self._is_young = True
        self._round_ms = 0
        self.rates: dict[str, Rates] = {}
        self.days: dict[str, DailyTotals] = {}

    def note_total(self, name: str, total: int, now_ms: int) -> None:
        """Takes a running total of the whole broker, each second."""
        self.rates.setdefault(name, Rates()).note(total, now_ms)
        self.days.setdefault(name, DailyTotals()).note(total, now_ms)

    def rate_text(self, name: str) -> str:
        """Returns the three rates of a total of the whole broker."""
        return self.rates.get(name, Rates()).text()

    def is_old(self, now_ms: int) -> bool:
        """Whether the last round is so old that a question may cause another one.

        A round goes through all queues: asking for counters that do not exist must not repeat it.
        """
        return now_ms - self._round_ms >= RATE_STEP_MS

    def end_of_round(self, now_ms: int) -> None:
        """Ends a round of samples: a counter that comes later begins at zero.

        Those of the first round count from there: a queue's end has its messages of all times.
        """
        self._is_young = False
        self._round_ms = now_ms

    def note(self, name: str, key: str, value: int, now_ms: int, times: int | None = None) -> None:
        """Takes the running total of a counter; a new counter beyond the bound is left out."""
        series = self._series.get((name, key))
        if series is None:
            if len(self._series) >= SERIES_MAX:
                return
            series = self._series[name, key] = Series()
        sample = Sample(now_ms, value, value if times is None else times)
        series.note(sample, begins_at_zero=not self._is_young)

    def find(self, name: str, key: str) -> Series | None:
        """Returns a counter, None where it was never noted."""
        return self._series.get((name, key))

    def forget(self, keep: Iterable[tuple[str, str]]) -> None:
        """Drops every counter but those."""
        kept = set(keep)
        self._series = {key: series for key, series in self._series.items() if key in kept}
