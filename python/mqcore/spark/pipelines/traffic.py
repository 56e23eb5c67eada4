"""The figures of a report, and what follows from them: rates, skew, sums. Pure.

Knows neither how they were counted nor how they are drawn.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "BUCKETS_MS",
    "GroupLag",
    "QueueTraffic",
    "SizeClass",
    "TimeSlice",
    "Traffic",
    "bucket_for",
    "grouped",
]

_MS_PER_S = 1_000
# Spans of time that people divide by: from a second to a day.
BUCKETS_MS = (
    1_000,
    10_000,
    60_000,
    600_000,
    3_600_000,
    21_600_000,
    86_400_000,
)
# More bars than this are no longer seen one by one.
_BARS_MAX = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSlice:
    """A topic in one span of time, by store time.

    Attributes:
        topic: Its name.
        begin_ms: Where the span begins, Unix ms.
        messages: How many were stored.
        body_bytes: Bytes of their bodies as stored.
        median_ms: Half of them took at most so long from producer to store.
        p99_ms: 99 of 100 took at most so long.
        max_ms: The longest.
    """

    topic: str
    begin_ms: int
    messages: int
    body_bytes: int
    median_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTraffic:
    """One queue.

    Attributes:
        topic: Its topic.
        host: The broker that stored it.
        queue_id: Its number.
        messages: How many.
        body_bytes: Bytes of their bodies as stored.
        first_offset: Queue offset of the first.
        last_offset: Queue offset of the last.
    """

    topic: str
    host: str
    queue_id: int
    messages: int
    body_bytes: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeClass:
    """Bodies of one size class: more than half of its bound, and at most its bound.

    Attributes:
        topic: Their topic.
        bound_bytes: A power of two; 0 for empty bodies.
        messages: How many.
    """

    topic: str
    bound_bytes: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """How far a group is behind in one topic.

    Attributes:
        group: Its name.
        topic: The topic.
        queues: Queues of the topic.
        lag: Messages that it did not read yet.
        worst_queue: Messages of the queue that has most of them.
    """

    group: str
    topic: str
    queues: int
    lag: int
    worst_queue: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Everything that a report shows.

    Attributes:
        bucket_ms: The span of its slices.
        slices: By topic and time.
        queues: By topic, host and queue.
        sizes: By topic and bound.
        lags: By group and topic.
    """

    bucket_ms: int
    slices: Sequence[TimeSlice]
    queues: Sequence[QueueTraffic]
    sizes: Sequence[SizeClass]
    lags: Sequence[GroupLag] = ()

    @property
    def messages(self) -> int:
        """All messages."""
        return sum(queue.messages for queue in self.queues)

    @property
    def body_bytes(self) -> int:
        """Bytes of all bodies as stored."""
        return sum(queue.body_bytes for queue in self.queues)

    @property
    def topics(self) -> list[str]:
        """All topics, the one with most messages first."""
        counted: defaultdict[str, int] = defaultdict(int)
        for queue in self.queues:
            counted[queue.topic] += queue.messages
        return sorted(counted, key=lambda topic: (-counted[topic], topic))

    @property
    def times_ms(self) -> list[int]:
        """The begins of all spans from the first to the last message, empty ones too."""
        begins = [one.begin_ms for one in self.slices]
        return list(range(min(begins), max(begins) + 1, self.bucket_ms)) if begins else []

    @property
    def peak_per_s(self) -> float:
        """Messages per second in the fullest span."""
        counted: defaultdict[int, int] = defaultdict(int)
        for one in self.slices:
            counted[one.begin_ms] += one.messages
        return max(counted.values(), default=0) * _MS_PER_S / self.bucket_ms

    @property
    def worst_p99_ms(self) -> float:
        """The largest 99th percentile of the time to the store."""
        return max((one.p99_ms for one in self.slices), default=0.0)

    def skew(self, topic: str) -> float:
        """Returns the fullest queue of a topic as a multiple of the mean: 1 is even."""
        counts = [queue.messages for queue in self.queues if queue.topic == topic]
        return max(counts) * len(counts) / sum(counts) if sum(counts) else 0.0


def bucket_for(first_ms: int, last_ms: int) -> int:
    """Returns the shortest span of `BUCKETS_MS` that gives bars one can see.

    Args:
        first_ms: The earliest store time, Unix ms.
        last_ms: The latest.
    """
    needed = ((last_ms - first_ms) // _BARS_MAX) + 1
    return next((bucket for bucket in BUCKETS_MS if bucket >= needed), BUCKETS_MS[-1])


def grouped(topics: Iterable[str], most: int) -> tuple[list[str], list[str]]:
    """Splits topics into those that are shown by name and the rest.

    Args:
        topics: The most important first.
        most: How many may be shown.
    """
    names = list(topics)
    return (names, []) if len(names) <= most else (names[: most - 1], names[most - 1 :])
