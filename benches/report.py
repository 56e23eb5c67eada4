"""Joins the rows of the benches: prints the table, writes results.json, draws docs/benches.svg.

Reads what the bench binaries left in the target directory; knows nothing of how it was measured.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results.json"
PLOT = ROOT / "docs" / "benches.svg"
# The order of the table: appends first, as a reader meets them.
BENCHES = (
    "append",
    "sync",
    "paced",
    "dispatch",
    "read",
    "recover",
    "open",
    "python",
    "idle",
)

# A point of matplotlib is a pixel of the picture then.
DPI = 72
BAR_PX = 320
ROW_PX = 22
LABEL_PX = 400
# A bar ends here at the latest: a figure twice its limit needs no longer one.
RATIO_SHOWN_MAX = 2.0
COLOURS = {True: "#c0392b", False: "#2e7d4f", None: "#7f8c8d"}

Row = dict[str, Any]


def target_dir() -> Path:
    """Gives the directory that the benches write to."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "mqcore-benches"


def load_rows() -> list[Row]:
    """Gives all rows in the order of the table."""
    rows: list[Row] = []
    for bench in BENCHES:
        path = target_dir() / "rows" / f"{bench}.jsonl"
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            rows.extend(json.loads(line) for line in lines if line)
    return rows


def short(value: float | None, unit: str) -> str:
    """Gives a number as people read it."""
    if value is None:
        return "-"
    for limit, factor, prefix in ((1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e4, 1e3, " k")):
        if abs(value) >= limit:
            return f"{value / factor:.2f}{prefix} {unit}"
    digits = 0 if abs(value) >= 100 else 2 if abs(value) >= 1 else 4
    return f"{value:.{digits}f} {unit}"


def outcome(row: Row) -> str:
    """Returns in a word what became of the goal."""
    if row["reached"] is None:
        return "not measured"
    return {True: "MISSED", False: "", None: "shown"}[row["missed"]]


def cells(row: Row) -> tuple[str, str, str, str, str, str]:
    """Gives the row's cells: name, goal, reached, limit, ratio, missed."""
    ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
    unit = row["unit"]
    reached, limit = short(row["reached"], unit), short(row["limit"], unit)
    return row["name"], row["goal"], reached, limit, ratio, outcome(row)


def print_table(rows: list[Row]) -> None:
    """Prints goal, reached, limit, ratio and missed of every row."""
    table = [("figure", "goal", "reached", "limit", "ratio", "missed"), *map(cells, rows)]
    widths = [max(len(line[column]) for line in table) for column in range(6)]
    for at, line in enumerate(table):
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)))
        if at == 0:
            print("  ".join("-" * width for width in widths))
    for row in rows:
        if row["note"]:
            print(f"  {row['name']}: {row['note']}")


def plot(rows: list[Row]) -> str:
    """Gives the picture: a bar per figure that has a limit, which is the line at 1."""
    shown = [row for row in rows if row["ratio"] is not None]
    width, height = LABEL_PX + BAR_PX + 80, (len(shown) + 2) * ROW_PX
    settings = {"svg.fonttype": "none", "svg.hashsalt": "mqcore", "font.size": 12}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
        bounds = LABEL_PX / width, ROW_PX / height, BAR_PX / width, 1 - 2 * ROW_PX / height
        axes = figure.add_axes(bounds)
        drawn = axes.barh(
            range(len(shown)),
            [min(row["ratio"], RATIO_SHOWN_MAX) for row in shown],
            1 - 8 / ROW_PX,
            color=[COLOURS[row["missed"]] for row in shown],
        )
        axes.bar_label(drawn, [f"{row['ratio']:.2f}" for row in shown], padding=4)
        axes.axvline(1, color="black", linestyle=(0, (3, 3)), linewidth=1)
        axes.set_xlim(0, RATIO_SHOWN_MAX)
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.set_xticks([])
        axes.set_yticks(range(len(shown)), [row["name"] for row in shown])
        axes.tick_params(length=0, pad=8)
        axes.set_title("reached, as a part of the limit in the same process", loc="left", size=12)
        for spine in axes.spines.values():
            spine.set_visible(False)
        picture = StringIO()
        facts = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(picture, format="svg", metadata=facts)
    # Browsers take a point for a third more than a pixel.
    return (
        picture.getvalue().replace(f'{width}pt"', f'{width}"').replace(f'{height}pt"', f'{height}"')
    )


def main() -> int:
    """Does all of it; 1 when there is nothing to report."""
    rows = load_rows()
    if not rows:
        print(f"no rows below {target_dir()}: run cargo bench -p mqcore-benches", file=sys.stderr)
        return 1
    print_table(rows)
    missed = [row["name"] for row in rows if row["missed"]]
    results = {
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    PLOT.parent.mkdir(exist_ok=True)
    PLOT.write_text(plot(rows), encoding="utf-8")
    print(f"{len(rows)} figures, {len(missed)} missed; {RESULTS.name} and {PLOT.name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
