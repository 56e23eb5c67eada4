"""Charts as SVG text: stacked bars, lines, bars, heat maps. Geometry here, drawing in a template.

Pure functions of labels and numbers. Colours are classes and variables of the page's style sheet,
so that a chart follows light and dark; every mark carries its value as a title.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from mqcore.spark.pipelines.scales import bytes_text, count_text, ticks_to

__all__ = [
    "COLOURS",
    "NARROW",
    "WIDE",
    "Series",
    "bars",
    "environment",
    "heat_map",
    "lines",
    "stacked_bars",
]

# As wide as a section of the page, so that letters have one size everywhere.
WIDE = 1030.0
NARROW = 490.0
_HEIGHT = 230.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 12.0, 12.0, 30.0
# Colours of the style sheet; what is beyond them shares the last, grey one.
COLOURS = 8
_ROW = 26.0
_LABEL_LETTER = 6.6
# Of the width, for the names at the left.
_LABEL_SHARE = 0.35
_BAR_GAP_SHARE = 0.18

Text = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Series:
    """Values with a name.

    Attributes:
        name: For the legend.
        values: One per label; None where there is none.
    """

    name: str
    values: Sequence[float | None]


@cache
def environment() -> Environment:
    """Returns the templates; everything that is put into one is escaped."""
    return Environment(
        loader=PackageLoader("mqcore.spark.pipelines"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def stacked_bars(
    labels: Sequence[str],
    series: Sequence[Series],
    text: Text = count_text,
    *,
    width: float = NARROW,
) -> str:
    """Returns bars over labels, the series of each label on one another.

    Args:
        labels: The lower axis.
        series: From the bottom up, each with a value per label.
        text: How a value reads.
        width: Of the picture, in the page's pixels.
    """
    totals = [sum(one.values[at] or 0 for one in series) for at in range(len(labels))]
    plot = _Plot(labels, max(totals, default=0), text, width)
    marks = []
    for at, label in enumerate(labels):
        base = 0.0
        for number, one in enumerate(series):
            value = one.values[at] or 0
            if value <= 0:
                continue
            top = plot.y(base + value)
            marks.append(
                {
                    "x": plot.x(at) + plot.gap,
                    "y": top,
                    "width": max(0.5, plot.step - 2 * plot.gap),
                    "height": max(0.0, plot.y(base) - top),
                    "colour": _colour(number),
                    "title": f"{one.name}, {label}: {text(value)}",
                }
            )
            base += value
    return plot.drawn("rects", marks, series)


def lines(
    labels: Sequence[str],
    series: Sequence[Series],
    text: Text = count_text,
    *,
    width: float = NARROW,
) -> str:
    """Returns lines over labels; a line is broken where a value is missing.

    Args:
        labels: The lower axis.
        series: The lines.
        text: How a value reads.
        width: Of the picture, in the page's pixels.
    """
    largest = max((value for one in series for value in one.values if value is not None), default=0)
    plot = _Plot(labels, largest, text, width)
    marks = []
    for number, one in enumerate(series):
        path, is_down = "", False
        dots = []
        for at, value in enumerate(one.values):
            if value is None:
                is_down = False
                continue
            x, y = plot.x(at) + plot.step / 2, plot.y(value)
            path += f"{'L' if is_down else 'M'}{x:.1f} {y:.1f}"
            is_down = True
            dots.append({"x": x, "y": y, "title": f"{one.name}, {labels[at]}: {text(value)}"})
        marks.append({"path": path, "dots": dots, "colour": _colour(number)})
    return plot.drawn("paths", marks, series)


def bars(
    labels: Sequence[str],
    values: Sequence[float],
    text: Text = count_text,
    *,
    width: float = NARROW,
) -> str:
    """Returns bars to the right, one line per label.

    Args:
        labels: At the left.
        values: One per label.
        text: How a value reads.
        width: Of the picture, in the page's pixels.
    """
    left = min(width * _LABEL_SHARE, 16 + _LABEL_LETTER * max(map(len, labels), default=0))
    room = width - left - 70
    largest = max(values, default=0) or 1
    rows = [
        {
            "label": _shortened(label, left),
            "title": f"{label}: {text(value)}",
            "y": at * _ROW,
            "width": max(1.0, value / largest * room),
            "value": text(value),
        }
        for at, (label, value) in enumerate(zip(labels, values, strict=True))
    ]
    return _render("bars", width=width, height=len(rows) * _ROW + 4, left=left, rows=rows)


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    text: Text = count_text,
    *,
    width: float = WIDE,
) -> str:
    """Returns a table of coloured cells; negative values have a colour of their own.

    Args:
        rows: At the left.
        columns: Below.
        values: A list per row; None leaves a cell empty.
        text: How a value reads.
        width: Of the picture, in the page's pixels.
    """
    left = min(width * _LABEL_SHARE, 16 + _LABEL_LETTER * max(map(len, rows), default=0))
    step = (width - left - _RIGHT) / max(1, len(columns))
    known = [value for line in values for value in line if value is not None]
    largest = max((abs(value) for value in known), default=0) or 1
    cells = []
    for down, line in enumerate(values):
        for across, value in enumerate(line):
            if value is None:
                continue
            strength = abs(value) / largest
            cells.append(
                {
                    "x": left + across * step,
                    "y": down * _ROW,
                    "width": step - 2,
                    "colour": "under" if value < 0 else "over",
                    # The root shows small differences near zero, where most cells are.
                    "strength": round(0.06 + 0.94 * strength**0.7, 3),
                    "is_strong": strength > 0.6,
                    "text": text(value),
                    "title": f"{rows[down]}, {columns[across]}: {text(value)}",
                }
            )
    return _render(
        "heat",
        width=width,
        height=len(rows) * _ROW + 22,
        left=left,
        row=_ROW,
        has_text=step >= 26,
        labels=[{"text": _shortened(name, left), "y": at * _ROW} for at, name in enumerate(rows)],
        columns=[
            {"text": name, "x": left + (at + 0.5) * step - 1}
            for at, name in enumerate(columns)
            if _is_labelled(at, step, columns)
        ],
        cells=cells,
    )


class _Plot:
    """The frame of a chart with a lower axis of labels and a left one of numbers."""

    def __init__(self, labels: Sequence[str], largest: float, text: Text, width: float) -> None:
        """Fits the axes."""
        self._labels = labels
        self._text = text
        self._width = width
        self._ticks = ticks_to(largest, is_binary=text is bytes_text)
        self._room = _HEIGHT - _TOP - _BOTTOM
        self.step = (width - _LEFT - _RIGHT) / max(1, len(labels))
        self.gap = min(6.0, self.step * _BAR_GAP_SHARE / 2)

    def x(self, at: int) -> float:
        """Returns the left side of a label's column."""
        return _LEFT + at * self.step

    def y(self, value: float) -> float:
        """Returns the height of a value."""
        return _TOP + self._room * (1 - value / self._ticks[-1])

    def drawn(self, kind: str, marks: list[dict[str, Any]], series: Sequence[Series]) -> str:
        """Returns the chart."""
        return _render(
            "plot",
            kind=kind,
            width=self._width,
            height=_HEIGHT,
            left=_LEFT,
            right=self._width - _RIGHT,
            ticks=[{"y": self.y(tick), "text": self._text(tick)} for tick in self._ticks],
            labels=[
                {"x": self.x(at) + self.step / 2, "text": label}
                for at, label in enumerate(self._labels)
                if _is_labelled(at, self.step, self._labels)
            ],
            marks=marks,
            legend=[
                {"name": one.name, "colour": _colour(number)} for number, one in enumerate(series)
            ]
            if len(series) > 1
            else [],
        )


def _is_labelled(at: int, step: float, labels: Sequence[str]) -> bool:
    """Tells whether a label has room beside its neighbours."""
    needed = 14 + _LABEL_LETTER * max(map(len, labels))
    return at % math.ceil(needed / step) == 0


def _colour(number: int) -> str:
    return f"c{min(number, COLOURS)}"


def _shortened(label: str, room: float) -> str:
    most = int(room / _LABEL_LETTER) - 2
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _render(shape: str, **values: Any) -> str:
    return environment().get_template("chart.svg.j2").render(shape=shape, **values)
