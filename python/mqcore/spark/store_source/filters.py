"""Filters of Spark that a scan can do itself, before bodies are touched.

Spark does not test again what is taken here, so a filter is taken whole or not at all. Needs the
filter classes of PySpark 4.1.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from mqcore.spark.store_source.pushed import Pushed

_US_PER_MS: Final = 1000
_EPOCH_US_PER_S: Final = 1_000_000


_SETS: Final = {"topic": "topics", "tags": "tags", "queueid": "queue_ids"}
_RANGES: Final = {
    "storetimestamp": ("start_ms", "end_ms"),
    "queueoffset": ("start_queue_offset", "end_queue_offset"),
    "physicaloffset": ("start_physical", "end_physical"),
}
# Of these columns every row of a whole record has a value.
_NEVER_NULL: Final = frozenset({"topic", "queueid", *_RANGES})


def push(filters: Iterable[Filter], before: Pushed) -> tuple[Pushed, list[Filter]]:
    """Returns what could be taken, and the filters that are left to Spark.

    Args:
        filters: All of them hold.
        before: What was taken already.
    """
    taken, left = before, []
    for each in filters:
        narrowed = _taken(each, taken)
        if narrowed is None:
            left.append(each)
        else:
            taken = narrowed
    return taken, left


def _taken(each: Filter, pushed: Pushed) -> Pushed | None:
    attribute: tuple[str, ...] = getattr(each, "attribute", ())
    name = attribute[0].lower() if len(attribute) == 1 else ""
    if isinstance(each, IsNotNull):
        return pushed if name in _NEVER_NULL else None
    value = getattr(each, "value", None)
    if name in _SETS:
        return _narrowed_set(each, _SETS[name], value, pushed)
    if name in _RANGES:
        return _narrowed_range(each, _RANGES[name], value, pushed)
    return None


def _narrowed_set(each: Filter, attribute: str, value: Any, pushed: Pushed) -> Pushed | None:
    if isinstance(each, EqualTo):
        values: Collection[Any] = (value,)
    elif isinstance(each, In):
        values = value
    else:
        return None
    # Nothing equals null.
    wanted = frozenset(value for value in values if value is not None)
    had = getattr(pushed, attribute)
    change: dict[str, Any] = {attribute: wanted if had is None else wanted & had}
    return replace(pushed, **change)


def _narrowed_range(
    each: Filter, attributes: tuple[str, str], value: Any, pushed: Pushed
) -> Pushed | None:
    bounds = list(_bounds(each, value))
    if not bounds:
        return None
    for is_start, bound in bounds:
        attribute = attributes[0] if is_start else attributes[1]
        had = getattr(pushed, attribute)
        pick = max if is_start else min
        change: dict[str, Any] = {attribute: bound if had is None else pick(had, bound)}
        pushed = replace(pushed, **change)
    return pushed


def _bounds(each: Filter, value: Any) -> Iterator[tuple[bool, int]]:
    """Yields the bounds of a comparison: whether it is the first wanted value, and the value.

    The upper bound is the first value that is not wanted. Times have microseconds in Spark and
    milliseconds here.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return
        us = round(value.timestamp() * _EPOCH_US_PER_S)
        whole, is_between = us // _US_PER_MS, us % _US_PER_MS != 0
    elif isinstance(value, int):
        whole, is_between = value, False
    else:
        return
    # The first value that is not below, and the first that is above.
    at_or_above, above = whole + is_between, whole + 1
    if isinstance(each, EqualTo):
        # A time between two milliseconds equals none: the range is empty.
        yield True, at_or_above
        yield False, above
    elif isinstance(each, GreaterThanOrEqual):
        yield True, at_or_above
    elif isinstance(each, GreaterThan):
        yield True, above
    elif isinstance(each, LessThan):
        yield False, at_or_above
    elif isinstance(each, LessThanOrEqual):
        yield False, above
