"""Lines of a figure over time, and strips of a file, as shapes of an SVG in the page's colours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Piece", "Spark", "spark", "strip"]

WIDTH: Final = 240
HEIGHT: Final = 44
_EDGE: Final = 2
# Shades of a strip: none, seven between, full.
STRIP_SHADES: Final = 8
STRIP_WIDTH: Final = 1_000
_PER_CENT: Final = 100


@dataclass(frozen=True, slots=True)
class Spark:
    """A small line.

    Attributes:
        line: The points of the line, as SVG has them; empty without values.
        area: The same, closed at the bottom.
        top: The largest value.
        span_ms: For how long the values were taken.
        width: Width of the picture.
        height: Height of the picture.
    """

    line: str
    area: str
    top: float
    span_ms: int
    width: int = WIDTH
    height: int = HEIGHT


def spark(points: Sequence[tuple[int, float]]) -> Spark:
    """Returns the line of some values, from 0 to the largest, from the first time to the last.

    Args:
        points: Unix ms and value, the oldest first.
    """
    top = max((value for _, value in points), default=0.0)
    span_ms = points[-1][0] - points[0][0] if points else 0
    if span_ms <= 0:
        return Spark("", "", top, 0)
    scale = (HEIGHT - 2 * _EDGE) / top if top > 0 else 0.0
    line = " ".join(
        f"{(at_ms - points[0][0]) * WIDTH / span_ms:.1f},{HEIGHT - _EDGE - value * scale:.1f}"
        for at_ms, value in points
    )
    return Spark(line, f"0,{HEIGHT} {line} {WIDTH},{HEIGHT}", top, span_ms)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a strip with one shade.

    Attributes:
        x: Where it begins, of `STRIP_WIDTH`.
        width: How wide it is.
        shade: From 1 to `STRIP_SHADES`.
    """

    x: float
    width: float
    shade: int


def strip(per_cents: Sequence[int]) -> list[Piece]:
    """Returns the pieces of a strip; equal neighbours are one, what is empty is left out."""
    if not per_cents:
        return []
    step = STRIP_WIDTH / len(per_cents)
    shades = [-(-each * STRIP_SHADES // _PER_CENT) for each in per_cents]
    pieces, start = [], 0
    for at in range(1, len(shades) + 1):
        if at == len(shades) or shades[at] != shades[start]:
            if shades[start]:
                width = (at - start) * step
                pieces.append(Piece(round(start * step, 1), round(width, 1), shades[start]))
            start = at
    return pieces
