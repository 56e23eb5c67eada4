"""Lines of a figure over time as points of an SVG: drawn by the server, in the page's colours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Spark", "spark"]

WIDTH: Final = 240
HEIGHT: Final = 44
_EDGE: Final = 2


@dataclass(frozen=True, slots=True)
class Spark:
    """A small line.

    Attributes:
        line: The points of the line, as SVG has them; empty without values.
        area: The same, closed at the bottom.
        top: The largest value.
        width: Width of the picture.
        height: Height of the picture.
    """

    line: str
    area: str
    top: float
    width: int = WIDTH
    height: int = HEIGHT


def spark(values: Sequence[float]) -> Spark:
    """Returns the line of some values, from 0 to the largest."""
    if len(values) < 2:
        return Spark("", "", max(values, default=0.0))
    top = max(values)
    step = WIDTH / (len(values) - 1)
    scale = (HEIGHT - 2 * _EDGE) / top if top > 0 else 0.0
    points = [
        f"{number * step:.1f},{HEIGHT - _EDGE - value * scale:.1f}"
        for number, value in enumerate(values)
    ]
    line = " ".join(points)
    return Spark(line, f"0,{HEIGHT} {line} {WIDTH},{HEIGHT}", top)
