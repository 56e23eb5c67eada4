"""A report as one HTML page with nothing outside it: tiles, charts, tables. Pure.

Knows nothing of what the numbers mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

__all__ = ["Section", "Tile", "page"]


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure.

    Attributes:
        name: What it is.
        value: With its unit.
    """

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A chart, a table, or both.

    Attributes:
        title: What is shown.
        note: One sentence on how to read it.
        chart: SVG of `mqcore.spark.pipelines.charts`.
        heads: Heads of the table.
        rows: Its cells, as texts.
        numbers: Which columns hold numbers.
        is_wide: Whether it takes the whole width.
        is_tall: Whether two others stand beside it.
    """

    title: str
    note: str
    chart: str = ""
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    numbers: frozenset[int] = frozenset()
    is_wide: bool = False
    is_tall: bool = False


def page(
    title: str,
    subtitle: str,
    tiles: Sequence[Tile],
    sections: Sequence[Section],
    *,
    footer: str = "",
) -> str:
    """Returns the page's HTML.

    Args:
        title: The head.
        subtitle: Of what, and when.
        tiles: The figures on top.
        sections: In their order.
        footer: The last line.
    """
    template = _environment().get_template("page.html.j2")
    return template.render(
        title=title, subtitle=subtitle, tiles=tiles, sections=sections, footer=footer
    )


@cache
def _environment() -> Environment:
    """Returns the templates; everything that is put into one is escaped."""
    return Environment(
        loader=PackageLoader("mqcore.spark.pipelines"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
