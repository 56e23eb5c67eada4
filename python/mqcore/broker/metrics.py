"""A broker's figures as Prometheus's text, in bounded size.

Pure: rows by family go in, text comes out. The families are those of `metric_families`; who gathers
the rows is `observation`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from mqcore.broker.metric_families import COMMON, FAMILIES, Family, Kind

__all__ = [
    "CONTENT_TYPE",
    "OTHER",
    "Buckets",
    "Pieces",
    "Rows",
    "SeriesBound",
    "Snapshot",
    "Value",
    "common_text",
    "exposition",
    "head_of",
    "is_age",
    "parsed_labels",
]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# The value of the labels of what has no series of its own.
OTHER: Final = "_other"
# Lines between two pauses: a fraction of a millisecond of work.
_LINES_PER_PART: Final = 500
# From this part of the limit on it is kept which series there are, so that they stay.
_KEPT_FROM: Final = 0.5


class Buckets(NamedTuple):
    """The value of a histogram.

    Attributes:
        counts: How many values each bucket has, without those of the ones before; the last one has
            what is above all bounds.
        total: All values together.
    """

    counts: Sequence[int]
    total: float


Value: TypeAlias = int | float | Buckets
# A long text.
Pieces: TypeAlias = Iterable[bytes]
# Values by the family's own labels, in their order.
Rows: TypeAlias = Mapping[tuple[str, ...], Value]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A broker at one moment.

    Attributes:
        cluster: Its cluster.
        node_id: Its name.
        labels: More labels, of the setting `metricsLabel`.
        rows: Values by family; a family that is not there is not shown.
        bulk: Text of the families by topic and by group, in pieces.
        left_out: How many series of those are summed up, by family.
    """

    cluster: str
    node_id: str
    labels: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, Rows] = field(default_factory=dict)
    bulk: Pieces = ()
    left_out: Mapping[str, int] = field(default_factory=dict)

    def common(self) -> dict[str, str]:
        """Returns the labels of every sample."""
        own = dict(zip(COMMON, (self.cluster, "broker", self.node_id), strict=True))
        return own | {name: text for name, text in self.labels.items() if name not in own}


class SeriesBound:
    """Lets a family have so many series; what comes later is summed up as `_other`.

    A series that was shown stays shown: a counter that changed between its own series and the sum
    would look like one that began anew.
    """

    def __init__(self, series_max: int) -> None:
        """Takes how many series a family may have, that of the others among them."""
        self._series_max = max(1, series_max)
        self._kept: dict[str, set[tuple[str, ...]]] = {}

    def bounded(self, family: Family, rows: Rows) -> tuple[Rows, int]:
        """Returns the rows of a family within the bound, and how many were summed up."""
        if len(rows) <= self._series_max * _KEPT_FROM:
            self._kept.pop(family.name, None)
            return rows, 0
        kept = self._kept.setdefault(family.name, set())
        kept.intersection_update(rows)
        # One series is left for the sum.
        free = self._series_max - (len(rows) > self._series_max)
        for labels in rows:
            if len(kept) >= free:
                break
            kept.add(labels)
        if len(kept) == len(rows):
            return rows, 0
        shown: dict[tuple[str, ...], Value] = {}
        others: Value | None = None
        for labels, value in rows.items():
            if labels in kept:
                shown[labels] = value
            else:
                others = value if others is None else _together(family, others, value)
        if others is not None:
            shown[(OTHER,) * len(family.labels)] = others
        return shown, len(rows) - len(kept)


def _together(family: Family, one: Value, other: Value) -> Value:
    if isinstance(one, Buckets) and isinstance(other, Buckets):
        counts = [sum(pair) for pair in zip(one.counts, other.counts, strict=True)]
        return Buckets(counts, one.total + other.total)
    if isinstance(one, Buckets) or isinstance(other, Buckets):
        raise TypeError(f"{family.name} has values of two kinds")
    if is_age(family):
        return max(one, other)
    return one + other


def bounded_rows(snapshot: Snapshot, bound: SeriesBound) -> Iterator[tuple[Family, Rows]]:
    """Yields the families that are shown, with their rows within the bound."""
    left_out: dict[tuple[str, ...], int] = {
        (name,): count for name, count in snapshot.left_out.items()
    }
    last = FAMILIES["mqcore_series_left_out"]
    for family in FAMILIES.values():
        rows = snapshot.rows.get(family.name)
        if rows is None or family is last:
            continue
        shown, others = bound.bounded(family, rows)
        if others:
            left_out[(family.name,)] = others
        yield family, shown
    yield last, left_out


def exposition(
    snapshot: Snapshot,
    bound: SeriesBound | None = None,
    pause: Callable[[], None] | None = None,
) -> bytes:
    """Returns the rows of a snapshot in Prometheus's text format; its bulk comes behind it.

    Args:
        snapshot: The figures.
        bound: How many series there may be; without it there is no bound.
        pause: Called again and again between lines, so that other threads may run.
    """
    bound = bound or SeriesBound(1 << 62)
    common = common_text(snapshot)
    parts: list[str] = []
    lines: list[str] = []
    for family, rows in bounded_rows(snapshot, bound):
        lines.append(head_of(family).rstrip("\n"))
        for line in _lines(family, rows, common):
            lines.append(line)
            if len(lines) >= _LINES_PER_PART:
                parts.append("\n".join(lines))
                lines.clear()
                if pause is not None:
                    pause()
    parts.append("\n".join(lines))
    return ("\n".join(parts) + "\n").encode()


def head_of(family: Family) -> str:
    """Returns the lines before the samples of a family."""
    words = _escaped_words(family.words)
    return f"# HELP {family.name} {words}\n# TYPE {family.name} {family.kind}\n"


def common_text(snapshot: Snapshot) -> str:
    """Returns the labels of every sample as they are written."""
    return ",".join(f'{name}="{_escaped(text)}"' for name, text in snapshot.common().items())


def is_age(family: Family) -> bool:
    """Whether of many values the greatest is of use, and their sum does not."""
    return family.kind is Kind.GAUGE and family.unit in ("milliseconds", "seconds")


def _lines(family: Family, rows: Rows, common: str) -> Iterator[str]:
    if family.kind is Kind.HISTOGRAM:
        bounds = [f',le="{float(bound)}"}} ' for bound in family.bounds] + [',le="+Inf"} ']
        for labels, value in rows.items():
            if not isinstance(value, Buckets):
                raise TypeError(f"{family.name} is a histogram")
            own = common + _own(family, labels)
            count = 0
            for bound, more in zip(bounds, value.counts, strict=True):
                count += more
                yield f"{family.name}_bucket{{{own}{bound}{float(count)}"
            yield f"{family.name}_sum{{{own}}} {float(value.total)}"
            yield f"{family.name}_count{{{own}}} {float(count)}"
        return
    for labels, value in rows.items():
        if isinstance(value, Buckets):
            raise TypeError(f"{family.name} is no histogram")
        yield f"{family.name}{{{common}{_own(family, labels)}}} {float(value)}"


def _own(family: Family, labels: tuple[str, ...]) -> str:
    pairs = zip(family.labels, labels, strict=True)
    return "".join(f',{name}="{_escaped(text)}"' for name, text in pairs)


def _escaped(text: str) -> str:
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return text


def _escaped_words(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def parsed_labels(text: str) -> dict[str, str]:
    """Returns the labels of the setting `metricsLabel`: `name:value` joined by commas.

    A name that Prometheus does not allow is left out.
    """
    found = {}
    for part in text.split(","):
        name, separator, value = (piece.strip() for piece in part.partition(":"))
        if separator and name.isidentifier() and name.isascii() and not name.startswith("__"):
            found[name] = value
    return found
