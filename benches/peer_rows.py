"""A line of the comparison of brokers and clients, and how figures are read from reports.

Knows no broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Report = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One line of the table: what both reached, and whether their ratio is what it should be.

    Attributes:
        name: What was measured.
        ours: Our figure.
        other: The figure beside it: the official broker's, or our own under an easier load.
        goal: In words.
        bound: The ratio that is to be reached, or with `is_upper` not to be passed.
        is_upper: Whether less is better.
    """

    name: str
    ours: float
    other: float | None
    goal: str
    bound: float
    is_upper: bool = False

    @property
    def ratio(self) -> float:
        """Ours beside the other; a figure without another is its own ratio."""
        if self.other is None:
            return self.ours
        return self.ours / self.other if self.other else float("inf")

    @property
    def is_missed(self) -> bool:
        """Whether the goal is missed."""
        return self.ratio > self.bound if self.is_upper else self.ratio < self.bound

    def line(self) -> str:
        """The row in one line: a run that breaks off has shown what it had measured."""
        beside = "" if self.other is None else f" beside {self.other:,.2f}, {self.ratio:.2f}"
        return f"{self.name}: {self.ours:,.2f}{beside}{' (missed)' if self.is_missed else ''}"


def rate(report: Report) -> float:
    """Messages per second of a report."""
    return float(report["messages_per_second"])


def latency(report: Report, quantile: str) -> float:
    """A latency of a report, in microseconds."""
    return float(report["latency_us"][quantile])
