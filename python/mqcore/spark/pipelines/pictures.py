"""Figures of matplotlib as SVG inside of a page: its marks have titles, its colours are the page's.

Colours are drawn with the values of the style sheet's light theme and become its variables, so that
a picture follows light and dark. Knows no chart.
"""

import re
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree

from mqcore.spark.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PALETTE", "figure_of", "need_matplotlib", "svg_of"]

# The variables of page.css.j2 with their values in the light theme; no value comes twice.
PALETTE: Final[Mapping[str, str]] = {
    "ink": "#1d2430",
    "dim": "#667085",
    "rule": "#e4e7ec",
    "over": "#e8590c",
    "under": "#0c8599",
    "on-strong": "#ffffff",
    "c0": "#4263eb",
    "c1": "#12b886",
    "c2": "#f59f00",
    "c3": "#e64980",
    "c4": "#7048e8",
    "c5": "#1098ad",
    "c6": "#f76707",
    "c7": "#74b816",
    "c8": "#adb5bd",
}
_VARIABLES: Final = {colour: f"var(--{name})" for name, colour in PALETTE.items()}
# Points of matplotlib per inch: one is a pixel of the page.
_DPI: Final = 72
_SVG: Final = "{http://www.w3.org/2000/svg}"
_XLINK: Final = "http://www.w3.org/1999/xlink"
_COLOUR: Final = re.compile(r"#[0-9a-f]{6}\b")
_REFERENCE: Final = re.compile(r"#([\w-]+)")
# Names of fonts are the page's; `font:` has the size before them.
_FONT: Final = re.compile(r"font:\s*(?:[\w.]+ )*?([\d.]+px)[^;]*|font-family:[^;]*;?")


def need_matplotlib() -> None:
    """Checks that charts can be drawn.

    Raises:
        PipelineError: matplotlib is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401 - whether it can be imported
    except ImportError as error:
        raise PipelineError(
            "charts are drawn by matplotlib, which is not installed: pip install 'mqcore[report]'"
        ) from error


def figure_of(width: float, height: float) -> "Figure":
    """Returns an empty figure, without a window and without state of pyplot.

    Args:
        width: In pixels of the page.
        height: In pixels of the page.

    Raises:
        PipelineError: matplotlib is not installed.
    """
    need_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI)


def svg_of(figure: "Figure", titles: Mapping[str, Sequence[str]]) -> str:
    """Returns a figure as one SVG element.

    Args:
        figure: The figure.
        titles: The texts of the marks of an artist, in the order of its marks, by its gid.
    """
    import matplotlib as mpl

    drawn = StringIO()
    settings: dict[Any, Any] = {
        # Text stays text, and every point of a line is kept.
        "svg.fonttype": "none",
        "svg.hashsalt": "mqcore",
        "path.simplify": False,
    }
    with mpl.rc_context(settings):
        facts = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(drawn, format="svg", transparent=True, metadata=facts)
    root = ElementTree.fromstring(drawn.getvalue())
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    # A style of all strokes would hold for the whole page: the picture alone gets it.
    for foreign in (*root.findall(f"{_SVG}metadata"), *root.findall(f"{_SVG}defs[{_SVG}style]")):
        root.remove(foreign)
    root.set("style", "stroke-linejoin: round; stroke-linecap: butt")
    for group in root.iter(f"{_SVG}g"):
        for mark, title in zip(_marks(group), titles.get(group.get("id", ""), ()), strict=False):
            mark.set("class", "mark")
            ElementTree.SubElement(mark, f"{_SVG}title").text = title
    _use_the_page(root)
    ElementTree.register_namespace("", _SVG.strip("{}"))
    ElementTree.register_namespace("xlink", _XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def _marks(group: ElementTree.Element) -> list[ElementTree.Element]:
    """Returns what is visible of an artist, in its order."""
    defined = {each for defs in group.iter(f"{_SVG}defs") for each in defs.iter()}
    kinds = (f"{_SVG}path", f"{_SVG}use")
    return [each for each in group.iter() if each.tag in kinds and each not in defined]


def _use_the_page(root: ElementTree.Element) -> None:
    """Puts the page's colours and fonts in; takes names away that nothing refers to.

    A page has several pictures, each with the same names.
    """
    used = {
        name
        for each in root.iter()
        for value in each.attrib.values()
        for name in _REFERENCE.findall(value)
    }
    for each in root.iter():
        if each.get("id") not in used:
            each.attrib.pop("id", None)
        style = each.get("style")
        if style is not None:
            style = _FONT.sub(lambda found: f"font-size: {found[1]}" if found[1] else "", style)
            each.set("style", _COLOUR.sub(lambda found: _variable(found[0]), style))


def _variable(colour: str) -> str:
    return _VARIABLES.get(colour, colour)
