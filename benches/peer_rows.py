"""A line of the comparison of brokers and clients, and how figures are read from reports.

Knows no broker.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Report = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One line of the table: what both reached, and whether their ratio is what it should be.

    Attributes:
        name: What was measured.
        ours: Our figure.
        other: The figure beside it: the better one of the official brokers, or our own under an
            easier load.
        goal: In words.
        bound: The ratio that is to be reached, or with `is_upper` not to be passed.
        is_upper: Whether less is better.
        officials: The figures of the official brokers by their version.
    """

    name: str
    ours: float
    other: float | None
    goal: str
    bound: float
    is_upper: bool = False
    officials: tuple[tuple[str, float], ...] = ()

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
        named = ", ".join(f"{version} {figure:,.2f}" for version, figure in self.officials)
        named = f" ({named})" if named else ""
        missed = " (missed)" if self.is_missed else ""
        return f"{self.name}: {self.ours:,.2f}{beside}{named} goal {self.goal}{missed}"

    def as_json(self) -> dict[str, Any]:
        """The row for programs."""
        return {
            "name": self.name,
            "reached": self.ours,
            "beside": self.other,
            "official": dict(self.officials),
            "ratio": self.ratio,
            "goal": self.goal,
            "missed": self.is_missed,
        }


def measured(rows: Callable[[Path], Iterable[Row]], out: Path) -> list[Row]:
    """Measures rows in a directory of their own, prints each when it is there, and writes all."""
    found: list[Row] = []
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        for row in rows(Path(scratch)):
            found.append(row)
            print(row.line(), flush=True)
    lines = [row.as_json() for row in found]
    out.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
    return found


def rate(report: Report) -> float:
    """Messages per second of a report."""
    return float(report["messages_per_second"])


def latency(report: Report, quantile: str) -> float:
    """A latency of a report, in microseconds."""
    return float(report["latency_us"][quantile])


def processor_us(report: Report) -> float:
    """Processor time of the broker per message, in microseconds."""
    return float(report["processor"]["us_per_message"])


@dataclass(frozen=True)
class Measured:
    """One load of all brokers, in turn, some times.

    Attributes:
        ours: Our reports, one per round.
        officials: Those of the official brokers, by version.
    """

    ours: Sequence[Report]
    officials: Mapping[str, Sequence[Report]]

    def row(
        self,
        name: str,
        figure: Callable[[Report], float],
        goal: str,
        bound: float,
        is_upper: bool = False,
    ) -> Row:
        """Compares a figure, the middle of its rounds, with that of the better official broker.

        Args:
            name: What was measured.
            figure: Reads it from a report.
            goal: In words.
            bound: The ratio to be reached, or with `is_upper` not to be passed.
            is_upper: Whether less is better.
        """
        ours = median(map(figure, self.ours))
        officials = {
            version: median(map(figure, reports)) for version, reports in self.officials.items()
        }
        best = min(officials.values()) if is_upper else max(officials.values())
        return Row(name, ours, best, goal, bound, is_upper, tuple(officials.items()))
