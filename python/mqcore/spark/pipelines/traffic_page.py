"""Draws a report of traffic: what was stored when, how large, how fast, how even. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from mqcore.spark.pipelines.charts import COLOURS, WIDE, Series, bars, lines, stacked_bars
from mqcore.spark.pipelines.page import Section, Tile, page
from mqcore.spark.pipelines.scales import bytes_text, duration_text, time_text
from mqcore.spark.pipelines.traffic import TimeSlice, Traffic, grouped

__all__ = ["traffic_page"]

_MS_PER_S = 1_000
_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
# Lines of a table that a person reads; the Parquet beside the page has all.
_ROWS_MAX = 40


def traffic_page(traffic: Traffic, *, title: str, source: str, made_ms: int) -> str:
    """Returns the page.

    Args:
        traffic: The figures.
        title: The head.
        source: What was counted.
        made_ms: When, Unix ms.
    """
    times = traffic.times_ms
    span = (
        f"{time_text(times[0])} to {time_text(times[-1] + traffic.bucket_ms)}"
        if times
        else "no messages"
    )
    sections = _sections(traffic) if times else []
    return page(
        title,
        f"{source} · {span}",
        _tiles(traffic),
        sections,
        footer=f"Made by mqcore at {time_text(made_ms)}. Times are UTC; sizes are those of bodies "
        "as they are stored.",
    )


def _tiles(traffic: Traffic) -> list[Tile]:
    mean = traffic.body_bytes / traffic.messages if traffic.messages else 0
    tiles = [
        Tile("messages", _exact(traffic.messages)),
        Tile("bodies", bytes_text(traffic.body_bytes)),
        Tile("mean body", bytes_text(round(mean))),
        Tile("topics", _exact(len(traffic.topics))),
        Tile("queues", _exact(len(traffic.queues))),
        Tile("peak messages/s", _rate(traffic.peak_per_s)),
        Tile("worst p99", duration_text(traffic.worst_p99_ms)),
    ]
    if traffic.lags:
        tiles.append(Tile("messages behind", _exact(sum(one.lag for one in traffic.lags))))
    return tiles


def _sections(traffic: Traffic) -> list[Section]:
    labels = _time_labels(traffic.times_ms, traffic.bucket_ms)
    every = _span_text(traffic.bucket_ms)
    made = [
        Section(
            title="Messages",
            note=f"Stored per {every}, by topic.",
            chart=stacked_bars(labels, _stacked(traffic, lambda one: one.messages), width=WIDE),
            is_wide=True,
        ),
        Section(
            title="Bytes",
            note=f"Bodies stored per {every}, by topic.",
            chart=stacked_bars(labels, _stacked(traffic, lambda one: one.body_bytes), bytes_text),
        ),
        Section(
            title="Time to the store",
            note="From the producer's clock to the broker's: median and 99th percentile.",
            chart=lines(labels, _latencies(traffic), duration_text),
        ),
        Section(
            title="Sizes of bodies",
            note="Messages by size, each class twice the one before.",
            chart=_sizes(traffic),
        ),
        Section(
            title="Skew",
            note="The fullest queue of each topic as a multiple of the mean; 1 is even.",
            chart=_skews(traffic),
        ),
        _topic_table(traffic),
    ]
    if traffic.lags:
        made.append(_lag_table(traffic))
    made.append(_queue_table(traffic))
    return made


def _stacked(traffic: Traffic, value: Callable[[TimeSlice], int]) -> list[Series]:
    """Returns a series per topic; topics beyond the colours share the last one."""
    shown, rest = grouped(traffic.topics, COLOURS + 1)
    names = {topic: topic for topic in shown} | dict.fromkeys(rest, f"{len(rest)} more")
    indexes = {begin: at for at, begin in enumerate(traffic.times_ms)}
    sums: dict[str, list[float | None]] = {
        name: [0] * len(indexes) for name in dict.fromkeys(names.values())
    }
    for one in traffic.slices:
        line, at = sums[names[one.topic]], indexes[one.begin_ms]
        line[at] = (line[at] or 0) + value(one)
    return [Series(name, values) for name, values in sums.items()]


def _latencies(traffic: Traffic) -> list[Series]:
    """Returns median and p99 of each span; of several topics the one that is slower."""
    by_time: defaultdict[int, list[TimeSlice]] = defaultdict(list)
    for one in traffic.slices:
        by_time[one.begin_ms].append(one)

    def worst(of: Callable[[TimeSlice], float]) -> list[float | None]:
        return [max(map(of, by_time[at])) if at in by_time else None for at in traffic.times_ms]

    return [
        Series("median", worst(lambda one: max(0.0, one.median_ms))),
        Series("p99", worst(lambda one: max(0.0, one.p99_ms))),
    ]


def _sizes(traffic: Traffic) -> str:
    counted: defaultdict[int, int] = defaultdict(int)
    for one in traffic.sizes:
        counted[one.bound_bytes] += one.messages
    bounds = sorted(counted)
    # Classes without messages in between are shown, so that the axis is even.
    first, last = max(1, bounds[0]), bounds[-1]
    shown = [0] if bounds[0] == 0 else []
    while first <= last:
        shown.append(first)
        first *= 2
    labels = [f"≤ {bytes_text(bound)}" if bound else "empty" for bound in shown]
    return bars(labels, [counted.get(bound, 0) for bound in shown])


def _skews(traffic: Traffic) -> str:
    topics = sorted(traffic.topics, key=lambda topic: -traffic.skew(topic))[:12]
    return bars(topics, [traffic.skew(topic) for topic in topics], lambda value: f"{value:.2f}")


def _topic_table(traffic: Traffic) -> Section:
    rows = []
    for topic in traffic.topics[:_ROWS_MAX]:
        queues = [queue for queue in traffic.queues if queue.topic == topic]
        slices = [one for one in traffic.slices if one.topic == topic]
        messages = sum(queue.messages for queue in queues)
        size = sum(queue.body_bytes for queue in queues)
        peak = max(one.messages for one in slices) * _MS_PER_S / traffic.bucket_ms
        rows.append(
            (
                topic,
                _exact(messages),
                bytes_text(size),
                bytes_text(round(size / messages)) if messages else "-",
                _exact(len(queues)),
                f"{traffic.skew(topic):.2f}",
                _rate(peak),
                duration_text(max(one.p99_ms for one in slices)),
                duration_text(max(one.max_ms for one in slices)),
            )
        )
    return Section(
        title="Topics",
        note=_shown_note("topics", len(traffic.topics)),
        heads=(
            "topic",
            "messages",
            "bodies",
            "mean",
            "queues",
            "skew",
            "peak/s",
            "worst p99",
            "longest",
        ),
        rows=rows,
        numbers=frozenset(range(1, 9)),
        is_wide=True,
    )


def _lag_table(traffic: Traffic) -> Section:
    ordered = sorted(traffic.lags, key=lambda one: (-one.lag, one.group, one.topic))
    return Section(
        title="Groups",
        note=_shown_note("groups", len(ordered)),
        heads=("group", "topic", "queues", "behind", "worst queue"),
        rows=[
            (
                one.group,
                one.topic,
                _exact(one.queues),
                _exact(one.lag),
                _exact(one.worst_queue),
            )
            for one in ordered[:_ROWS_MAX]
        ],
        numbers=frozenset({2, 3, 4}),
        is_wide=True,
    )


def _queue_table(traffic: Traffic) -> Section:
    ordered = sorted(traffic.queues, key=lambda one: (-one.messages, one.topic, one.queue_id))
    return Section(
        title="Queues",
        note=_shown_note("queues", len(ordered)),
        heads=("topic", "broker", "queue", "messages", "bodies", "offsets"),
        rows=[
            (
                one.topic,
                one.host,
                _exact(one.queue_id),
                _exact(one.messages),
                bytes_text(one.body_bytes),
                f"{_exact(one.first_offset)} - {_exact(one.last_offset)}",
            )
            for one in ordered[:_ROWS_MAX]
        ],
        numbers=frozenset({2, 3, 4, 5}),
        is_wide=True,
    )


def _exact(count: int) -> str:
    """Returns a count as every tile and table shows one; the axes of charts shorten theirs."""
    return f"{count:,}"


def _rate(per_s: float) -> str:
    """Returns how many per second, as every tile and table shows it."""
    return f"{per_s:,.1f}"


def _shown_note(what: str, count: int) -> str:
    if count <= _ROWS_MAX:
        return f"All {what}, the largest first."
    return f"The largest {_ROWS_MAX} of {count:,} {what}; the Parquet beside this page has all."


def _span_text(bucket_ms: int) -> str:
    names = {1_000: "second", 60_000: "minute", _HOUR_MS: "hour", _DAY_MS: "day"}
    return names.get(bucket_ms) or duration_text(bucket_ms)


def _time_labels(times_ms: Sequence[int], bucket_ms: int) -> list[str]:
    """Returns a label per span: as much of the time as distinguishes it from its neighbours."""
    form = "%d %b" if bucket_ms >= _DAY_MS else "%d %b %H:%M" if _days(times_ms) > 1 else "%H:%M"
    if bucket_ms < _MS_PER_S * 60:
        form = "%H:%M:%S"
    return [f"{datetime.fromtimestamp(at / _MS_PER_S, UTC):{form}}" for at in times_ms]


def _days(times_ms: Iterable[int]) -> int:
    return len({at // _DAY_MS for at in times_ms})
