"""What a metric is: one row of a table that a program declares, and the shapes of its values.

Knows no figure and no program.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

__all__ = ["SERIES_LEFT_OUT", "Buckets", "Family", "Kind", "Rows", "Value", "is_age"]

# The family of the samples that are summed up, where a table has it: `SeriesBound`.
SERIES_LEFT_OUT: Final = "mqcore_series_left_out"


class Kind(StrEnum):
    """What a family is to Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


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
# Values by the family's own labels, in their order.
Rows: TypeAlias = Mapping[tuple[str, ...], Value]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: As Prometheus sees it; counters end with `_total`.
        kind: Its type.
        labels: Its own labels, in order, behind those of all.
        words: What it means.
        unit: Of its values: the last part of the name, where there is one.
        bounds: Of a histogram: where its buckets end, without infinity.
        only: When it is shown at all; empty: always.
        pushed: Name and unit as OpenTelemetry has them, where they are not `name` and `unit`.
        is_up_down: Whether it is pushed as a sum that may fall, and not as a gauge.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    words: str
    unit: str = ""
    bounds: tuple[float, ...] = ()
    only: str = ""
    pushed: tuple[str, str] | None = None
    is_up_down: bool = False

    @property
    def is_official(self) -> bool:
        """Whether RocketMQ has it."""
        return not self.name.startswith("mqcore_")

    @property
    def instrument(self) -> tuple[str, str]:
        """Name and unit as OpenTelemetry has them.

        Prometheus's exporter appends the unit to the name that RocketMQ declares; names of ours are
        the same everywhere.
        """
        if self.pushed is not None:
            return self.pushed
        name = self.name
        if self.is_official and self.unit:
            name = name.removesuffix(f"_{self.unit}")
        return name, self.unit


def is_age(family: Family) -> bool:
    """Whether of many values the greatest is of use, and their sum does not."""
    return family.kind is Kind.GAUGE and family.unit in ("milliseconds", "seconds")
