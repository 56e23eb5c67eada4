"""A program's figures as Prometheus's text, in bounded size, and read back from it.

Pure: rows by family go in, text comes out.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from mqcore.metrics.families import SERIES_LEFT_OUT, Buckets, Family, Kind, Rows, Value, is_age

__all__ = [
    "CONTENT_TYPE",
    "OTHER",
    "Pieces",
    "SeriesBound",
    "Snapshot",
    "bounded_rows",
    "common_labels",
    "common_text",
    "exposition",
    "head_of",
    "parsed_labels",
    "read_back",
]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# The value of the labels of what has no series of its own.
OTHER: Final = "_other"
# Lines between two pauses: a fraction of a millisecond of work.
_LINES_PER_PART: Final = 500
# From this part of the limit on it is kept which series there are, so that they stay.
_KEPT_FROM: Final = 0.5
_LABEL_VALUE: Final = re.compile(r',[a-z_]+="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")
_MEANT: Final = {"\\": "\\", '"': '"', "n": "\n"}


# A long text.
Pieces: TypeAlias = Iterable[bytes]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A program at one moment.

    Attributes:
        families: The table of its families.
        common: The labels of every sample, in their order.
        rows: Values by family; a family that is not there is not shown.
        bulk: Text of more families, in pieces, as `exposition` would write it.
        left_out: How many series of those are summed up, by family.
    """

    families: Mapping[str, Family]
    common: Mapping[str, str]
    rows: Mapping[str, Rows] = field(default_factory=dict)
    bulk: Pieces = ()
    left_out: Mapping[str, int] = field(default_factory=dict)


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
    last = snapshot.families.get(SERIES_LEFT_OUT)
    for family in snapshot.families.values():
        rows = snapshot.rows.get(family.name)
        if rows is None or family is last:
            continue
        shown, others = bound.bounded(family, rows)
        if others:
            left_out[(family.name,)] = others
        yield family, shown
    if last is not None:
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
    return ",".join(f'{name}="{_escaped(text)}"' for name, text in snapshot.common.items())


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


def read_back(snapshot: Snapshot) -> Iterator[tuple[Family, tuple[str, ...], Value]]:
    """Yields the samples of a snapshot's bulk: family, own labels, value.

    Of the text that is written here alone: every sample has all labels, in their order, and the
    lines of a histogram are together.
    """
    buckets: list[int] = []
    total = 0.0
    labels_begin = len(common_text(snapshot))
    for line in _lines_of(snapshot.bulk):
        if line.startswith("#"):
            continue
        name, _, rest = line.partition("{")
        shown, _, number = rest.rpartition("} ")
        family = snapshot.families.get(name)
        if family is not None:
            yield family, _values(shown[labels_begin:]), int(float(number))
        elif name.endswith("_bucket"):
            buckets.append(int(float(number)))
        elif name.endswith("_sum"):
            total = float(number)
        else:
            family = snapshot.families[name.removesuffix("_count")]
            counts = [now - before for before, now in zip([0, *buckets], buckets, strict=False)]
            yield family, _values(shown[labels_begin:]), Buckets(counts, total)
            buckets = []


def _lines_of(pieces: Pieces) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.decode()
    if rest:
        yield rest.decode()


def _values(labels: str) -> tuple[str, ...]:
    found = _LABEL_VALUE.findall(labels)
    if "\\" in labels:
        found = [_ESCAPED.sub(lambda each: _MEANT[each[1]], value) for value in found]
    return tuple(found)


def common_labels(own: Mapping[str, str], labels: str, *, in_delta: bool = False) -> dict[str, str]:
    """Returns the labels of every sample.

    Args:
        own: Those of the program, which nobody gives another value.
        labels: The setting `metricsLabel`.
        in_delta: Whether counters are pushed by what came since the last time (`metricsInDelta`).
    """
    more = {"aggregation": "delta"} if in_delta else {}
    return dict(own) | {
        name: text for name, text in (parsed_labels(labels) | more).items() if name not in own
    }


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
