"""What more reactors give on this machine: `make bench-scale`.

Our broker with 1 to N reactors (N: the cores, at most 8) and the newest official one under the same
loads in turn. Prints the table, writes `target/mqcore-benches/scale.json` and draws
`target/mqcore-benches/scale.svg`. More than one generator runs where there are cores for it: one
thread does not load a broker that has many.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.figure import Figure
from peer_brokers import (
    FIRST_SECONDS,
    IS_QUICK,
    MACHINE,
    SECONDS,
    TARGET,
    VERSIONS,
    WARM_SECONDS,
    Peer,
    free_port,
    official,
    ours,
)
from peer_rows import rate
from rich.console import Console
from rich.table import Table

from interop.install import need_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from peer_rows import Report

OUT = TARGET / "mqcore-benches" / "scale.json"
PLOT = TARGET / "mqcore-benches" / "scale.svg"
CORES = os.cpu_count() or 1
REACTORS_MAX = 8
# Connections, and requests under way on each.
LOADS = ((64, 1), (512, 1), (8, 32))
# Half of the cores are the generators'; each load can be divided by so many.
GENERATORS = max(count for count in (1, 2, 4, 8) if count <= max(1, CORES // 2))
VERSION = VERSIONS[-1]
OFFICIAL = f"official {VERSION}"

DPI = 72
PANEL_PX, HEIGHT_PX = 300, 300
COLOURS = {"ours": "#2e7d4f", "official": "#7f8c8d"}


@dataclass(frozen=True)
class Figures:
    """What one broker reached under one load.

    Attributes:
        broker: Who.
        reactors: With how many; 0 for the official one.
        load: Under which load.
        messages_per_second: Of all generators together.
        us_per_message: Processor time of the broker.
        p99_us: The longest of the generators.
    """

    broker: str
    reactors: int
    load: str
    messages_per_second: float
    us_per_message: float
    p99_us: float


def measured(peer: Peer, reactors: int, connections: int, outstanding: int) -> Figures:
    """Loads a broker by all generators at once."""
    peer.load("produce", "scale", "-c", connections, "-w", outstanding, "--count", connections)
    os.sync()
    load = ("-c", connections // GENERATORS, "-w", outstanding)
    timing = ("--seconds", SECONDS, "--warm-seconds", WARM_SECONDS)

    def run(_number: int) -> Report:
        return peer.load("produce", "scale", *load, *timing)

    with ThreadPoolExecutor(GENERATORS) as threads:
        reports = list(threads.map(run, range(GENERATORS)))
    messages = sum(report["messages"] for report in reports)
    # Each has seen the whole broker for nearly the same time.
    used = [sum(report["processor"][key] for key in ("user_s", "system_s")) for report in reports]
    return Figures(
        peer.name,
        reactors,
        f"{connections} x {outstanding}",
        sum(map(rate, reports)),
        max(used) / messages * 1e6,
        max(report["latency_us"]["p99"] for report in reports),
    )


def all_figures(scratch: Path) -> Iterator[Figures]:
    """Every figure, as it is measured."""
    for reactors in range(1, min(CORES, REACTORS_MAX) + 1):
        with ours(scratch / f"ours-{reactors}", "ASYNC_FLUSH", reactors=reactors) as peer:
            for load in LOADS:
                yield measured(peer, reactors, *load)
    with official(scratch / "official", "ASYNC_FLUSH", free_port(), VERSION) as peer:
        peer.load("produce", "warm", "-c", 8, "-w", 8, "--size", 64, "--seconds", FIRST_SECONDS)
        for load in LOADS:
            yield measured(peer, 0, *load)


def table_of(found: Sequence[Figures]) -> Table:
    """The table: a line per broker and load, beside one reactor and beside the official broker."""
    generators = f"{GENERATORS} generator{'s' if GENERATORS > 1 else ''}"
    seconds = f"runs of {SECONDS} s{', quick' if IS_QUICK else ''}"
    table = Table(title=f"sends of 1 KB on {MACHINE} with {generators}, {seconds}")
    for column in ("load", "broker", "reactors"):
        table.add_column(column)
    for column in ("messages/s", "beside 1", f"beside {OFFICIAL}", "broker us/message", "p99 us"):
        table.add_column(column, justify="right")
    for load in dict.fromkeys(each.load for each in found):
        lines = [each for each in found if each.load == load]
        one = next(each.messages_per_second for each in lines if each.reactors == 1)
        other = next(each.messages_per_second for each in lines if each.reactors == 0)
        for each in lines:
            reached = each.messages_per_second
            table.add_row(
                load,
                each.broker,
                str(each.reactors) if each.reactors else "",
                f"{reached:,.0f}",
                f"{reached / one:.2f}" if each.reactors else "",
                f"{reached / other:.2f}",
                f"{each.us_per_message:.2f}",
                f"{each.p99_us:,.0f}",
            )
    return table


def draw(found: Sequence[Figures]) -> None:
    """Draws a panel per load: messages per second over the number of reactors."""
    loads = list(dict.fromkeys(each.load for each in found))
    size = (PANEL_PX * len(loads) / DPI, HEIGHT_PX / DPI)
    settings = {"svg.fonttype": "none", "svg.hashsalt": "mqcore", "font.size": 12}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=size, dpi=DPI, facecolor="white", layout="constrained")
        for panel, load in zip(
            figure.subplots(1, len(loads), squeeze=False)[0], loads, strict=True
        ):
            lines = [each for each in found if each.load == load]
            ours_ = [each for each in lines if each.reactors]
            counts = [each.reactors for each in ours_]
            rates = [each.messages_per_second / 1e3 for each in ours_]
            panel.plot(counts, rates, marker="o", color=COLOURS["ours"], label="mqcore")
            other = next(each.messages_per_second for each in lines if not each.reactors) / 1e3
            label = OFFICIAL
            panel.axhline(other, color=COLOURS["official"], linestyle=(0, (3, 3)), label=label)
            panel.set_title(f"{load}, 1 KB", loc="left", size=12)
            panel.set_xticks(counts)
            panel.set_xlim(min(counts) - 0.3, max(counts) + 0.3)
            panel.set_ylim(0, 1.15 * max([*rates, other]))
            panel.set_xlabel(f"reactors (machine: {MACHINE})")
            for side in ("top", "right"):
                panel.spines[side].set_visible(False)
        first = figure.axes[0]
        first.set_ylabel("thousand messages/s")
        named = first.get_legend_handles_labels()
        figure.legend(*named, loc="outside upper right", ncols=2, frameon=False)
        facts = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(PLOT, format="svg", metadata=facts)


def main() -> None:
    """Measures, prints, writes, draws."""
    need_java()
    console = Console(width=None if sys.stdout.isatty() else 150)
    found: list[Figures] = []
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUT.parent) as scratch:
        for each in all_figures(Path(scratch)):
            found.append(each)
            line = f"{each.load}, {each.broker} {each.reactors or ''}"
            console.print(f"{line}: {each.messages_per_second:,.0f}/s", highlight=False)
    console.print(table_of(found))
    written = {"cores": CORES, "figures": [vars(each) for each in found]}
    OUT.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    draw(found)
    print(f"{OUT.name} and {PLOT.name} are in {OUT.parent}")


if __name__ == "__main__":
    main()
