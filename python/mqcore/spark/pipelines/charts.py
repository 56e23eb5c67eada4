"""Charts of a page: stacked bars, lines, bars, heat maps, drawn by matplotlib.

Pure functions of labels and numbers. Every mark carries its value as a title.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from mqcore.spark.pipelines.pictures import PALETTE, figure_of, svg_of
from mqcore.spark.pipelines.scales import bytes_text, count_text

__all__ = [
    "COLOURS",
    "NARROW",
    "WIDE",
    "Series",
    "bars",
    "heat_map",
    "lines",
    "stacked_bars",
    "ticks_to",
]

# As wide as a section of the page, so that letters have one size everywhere.
WIDE = 1030.0
NARROW = 490.0
_HEIGHT = 230.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 12.0, 12.0, 30.0
# Colours of the style sheet; what is beyond them shares the last, grey one.
COLOURS = 8
_ROW = 26.0
# Height of the labels below a heat map.
_FOOT = 22.0
_BAR = 18.0
# For the value behind the longest bar.
_VALUE_PX = 70.0
_LABEL_LETTER = 6.6
# Of the width, for the names at the left.
_LABEL_SHARE = 0.35
_BAR_GAP_SHARE = 0.18
_DOT_AREA = 4.8**2
# At most so many lines above the axis.
_STEPS = 5
# Cells narrower than this have no text.
_TEXT_WIDTH = 26

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

    Raises:
        PipelineError: matplotlib is not installed.
    """
    totals = [sum(one.values[at] or 0 for one in series) for at in range(len(labels))]
    axes, step = _plot(labels, max(totals, default=0), text, width)
    wide = 1 - 2 * min(6.0, step * _BAR_GAP_SHARE / 2) / step
    bases, titles = [0.0] * len(labels), {}
    for number, one in enumerate(series):
        values = {at: value for at, value in enumerate(one.values) if value is not None}
        shown = {at: value for at, value in values.items() if value > 0}
        below = [bases[at] for at in shown]
        drawn = axes.bar(list(shown), list(shown.values()), wide, below, color=_colour(number))
        for bar, (at, value) in zip(drawn, shown.items(), strict=True):
            bar.set_gid(f"bar-{number}-{at}")
            titles[f"bar-{number}-{at}"] = [f"{one.name}, {labels[at]}: {text(value)}"]
            bases[at] += value
    return svg_of(axes.get_figure(), titles) + _legend(series)


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

    Raises:
        PipelineError: matplotlib is not installed.
    """
    largest = max((value for one in series for value in one.values if value is not None), default=0)
    axes, _step = _plot(labels, largest, text, width)
    titles = {}
    for number, one in enumerate(series):
        heights = [math.nan if value is None else value for value in one.values]
        colour, gid = _colour(number), f"dots-{number}"
        axes.plot(range(len(labels)), heights, color=colour, linewidth=2, gid=f"line-{number}")
        known = {at: value for at, value in enumerate(one.values) if value is not None}
        axes.scatter(
            list(known), list(known.values()), _DOT_AREA, colour, linewidths=0, gid=gid, zorder=3
        )
        titles[gid] = [f"{one.name}, {labels[at]}: {text(value)}" for at, value in known.items()]
    return svg_of(axes.get_figure(), titles) + _legend(series)


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

    Raises:
        PipelineError: matplotlib is not installed.
    """
    left = _left_of(labels, width)
    axes = _axes(width, len(labels) * _ROW + 4, (left, _VALUE_PX, 0, 4))
    axes.set_xlim(0, max(values, default=0) or 1)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    lines_down = range(len(labels))
    axes.set_xticks([])
    axes.set_yticks(lines_down, [_shortened(label, left) for label in labels], color=PALETTE["ink"])
    drawn = axes.barh(lines_down, values, _BAR / _ROW, color=_colour(0), clip_on=False)
    axes.bar_label(
        drawn, [text(value) for value in values], padding=8, color=PALETTE["ink"], fontsize=12
    )
    titles = {}
    for at, bar in enumerate(drawn):
        bar.set_gid(f"bar-{at}")
        titles[f"bar-{at}"] = [f"{labels[at]}: {text(values[at])}"]
    return svg_of(axes.get_figure(), titles)


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

    Raises:
        PipelineError: matplotlib is not installed.
    """
    left = _left_of(rows, width)
    step = (width - left - _RIGHT) / max(1, len(columns))
    axes = _axes(width, len(rows) * _ROW + _FOOT, (left, _RIGHT, 0, _FOOT))
    axes.set_xlim(0, max(1, len(columns)))
    axes.set_ylim(len(rows), 0)
    shown = [at for at in range(len(columns)) if _is_labelled(at, step, columns)]
    axes.set_xticks([at + 0.5 for at in shown], [columns[at] for at in shown])
    names = [_shortened(name, left) for name in rows]
    axes.set_yticks([at + 0.5 for at in range(len(rows))], names, color=PALETTE["ink"])
    known = [value for line in values for value in line if value is not None]
    largest = max((abs(value) for value in known), default=0) or 1
    titles = {}
    for down, line in enumerate(values):
        for across, value in enumerate(line):
            if value is None:
                continue
            strength, shown_text = abs(value) / largest, text(value)
            gid = f"cell-{down}-{across}"
            _cell(axes, (across, down), step, gid, value < 0, strength)
            titles[gid] = [f"{rows[down]}, {columns[across]}: {shown_text}"]
            if step >= _TEXT_WIDTH:
                colour = PALETTE["on-strong" if strength > 0.6 else "ink"]
                corner = (across + 0.5, down + 0.5)
                axes.text(*corner, shown_text, ha="center", va="center", fontsize=10, color=colour)
    return svg_of(axes.get_figure(), titles)


def _cell(
    axes: Any,
    corner: tuple[float, float],
    step: float,
    gid: str,
    is_under: bool,
    strength: float,
) -> None:
    from matplotlib.patches import Rectangle

    # The root shows small differences near zero, where most cells are.
    opacity = round(0.06 + 0.94 * strength**0.7, 3)
    colour = (PALETTE["under" if is_under else "over"], opacity)
    size = 1 - 2 / step, 1 - 2 / _ROW
    axes.add_patch(Rectangle(corner, *size, facecolor=colour, linewidth=0, gid=gid))


def _axes(width: float, height: float, margins: tuple[float, float, float, float]) -> Any:
    """Returns axes without lines in a figure of their own.

    Args:
        width: Of the figure, in pixels.
        height: Of the figure, in pixels.
        margins: Pixels that the axes leave at the left, right, top and bottom.
    """
    left, right, top, bottom = margins
    size = (width - left - right) / width, (height - top - bottom) / height
    axes = figure_of(width, height).add_axes((left / width, bottom / height, *size))
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0, labelsize=11, labelcolor=PALETTE["dim"])
    axes.tick_params(axis="y", pad=8, labelsize=12)
    axes.tick_params(axis="x", pad=8)
    return axes


def _plot(labels: Sequence[str], largest: float, text: Text, width: float) -> tuple[Any, float]:
    """Returns axes with labels below and numbers at the left, and the pixels per label."""
    axes = _axes(width, _HEIGHT, (_LEFT, _RIGHT, _TOP, _BOTTOM))
    step = (width - _LEFT - _RIGHT) / max(1, len(labels))
    ticks = ticks_to(largest, is_binary=text is bytes_text)
    axes.set_xlim(-0.5, max(1, len(labels)) - 0.5)
    axes.set_ylim(0, ticks[-1])
    axes.set_yticks(ticks, [text(tick) for tick in ticks], fontsize=11)
    shown = [at for at in range(len(labels)) if _is_labelled(at, step, labels)]
    axes.set_xticks(shown, [labels[at] for at in shown])
    axes.grid(axis="y", color=PALETTE["rule"], linewidth=1)
    axes.set_axisbelow(True)
    return axes, step


def ticks_to(maximum: float, *, is_binary: bool = False) -> list[float]:
    """Returns round numbers from 0 up to at least a maximum, in equal steps.

    Args:
        maximum: The largest value; 0 gives an axis of 1.
        is_binary: Round to people who count bytes: 256 KiB and not 250,000.
    """
    if maximum <= 0 or not math.isfinite(maximum):
        return [0.0, 1.0]
    from matplotlib.ticker import Locator, MaxNLocator, MultipleLocator

    locator: Locator = MaxNLocator(_STEPS, steps=[1, 2, 2.5, 5, 10])
    if is_binary:
        locator = MultipleLocator(2.0 ** max(0, math.ceil(math.log2(maximum / _STEPS))))
    ticks = [float(tick) for tick in locator.tick_values(0, maximum) if tick >= 0]
    beyond = next((at for at, tick in enumerate(ticks) if tick >= maximum), len(ticks))
    return ticks[: beyond + 1]


def _legend(series: Sequence[Series]) -> str:
    """Returns the names of the series with their colours, where there are several."""
    if len(series) < 2:
        return ""
    entries = (
        f'<span><i class="c{min(number, COLOURS)}"></i>{escape(one.name)}</span>'
        for number, one in enumerate(series)
    )
    return f'\n<p class="legend">{"".join(entries)}</p>'


def _left_of(labels: Sequence[str], width: float) -> float:
    """Returns the pixels that names at the left take."""
    return min(width * _LABEL_SHARE, 16 + _LABEL_LETTER * max(map(len, labels), default=0))


def _is_labelled(at: int, step: float, labels: Sequence[str]) -> bool:
    """Returns whether a label fits beside its neighbours."""
    needed = 14 + _LABEL_LETTER * max(map(len, labels))
    return at % math.ceil(needed / step) == 0


def _colour(number: int) -> str:
    return PALETTE[f"c{min(number, COLOURS)}"]


def _shortened(label: str, width: float) -> str:
    most = int(width / _LABEL_LETTER) - 2
    return label if len(label) <= most else f"{label[: most - 1]}…"
