"""Divides the test files among processes so that all end at about the same time.

The seconds of each file are those of `tests/seconds.json`, as measured on two cores with all
processes running; `scripts/run_tests.py --measure` writes them anew. Files that share something
costly to start, a Spark session or a pair of brokers, stay together. Those with programs of others
are the last of a process: what they share runs until its end. Of the files of `tests/rotated.txt`
a seed chooses those that a run has.
"""

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "seconds.json"
ROTATED = ROOT / "tests" / "rotated.txt"
# Of the files there a run has so many by their seconds: one part.
ROTATED_PARTS = 3
# Of a file that was not measured yet.
UNKNOWN_S = 5.0
# The rules of the sources, which `make lint` runs.
LINT = "tests/tidy/"
# Files whose paths begin alike share what they start.
TOGETHER = ("tests/spark/",)
# The files with programs of others.
INTEROP = "tests/interop/"
# Fixtures there that start brokers for all who ask for them in one process.
SHARED = ("reference", "side_by_side")


def test_files() -> list[str]:
    """Returns the test files but those of `make lint`, relative to the project."""
    paths = (str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    return sorted(path for path in paths if not path.startswith(LINT))


def seconds() -> dict[str, float]:
    """Returns the measured seconds by file."""
    table: dict[str, float] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def rotated() -> list[str]:
    """Returns the files of which a run has only some."""
    lines = ROTATED.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def left_out(files: Iterable[str], table: Mapping[str, float], seed: int) -> set[str]:
    """Returns the files that a run with a seed does not have: the last of a drawn order."""
    order = sorted(files)
    random.Random(f"{seed} files").shuffle(order)
    allowed_s = sum(table.get(file, UNKNOWN_S) for file in order) / ROTATED_PARTS
    chosen: set[str] = set()
    for file in order:
        if allowed_s <= 0:
            break
        chosen.add(file)
        allowed_s -= table.get(file, UNKNOWN_S)
    return set(order) - chosen


def divided(files: Iterable[str], table: Mapping[str, float], processes: int) -> list[list[str]]:
    """Returns the files of each process.

    The longest first, each to the process that has least to do.
    """
    bundles: dict[str, list[str]] = defaultdict(list)
    for file in files:
        bundles[bundle_of(file)].append(file)
    sizes = {name: sum(table.get(file, UNKNOWN_S) for file in bundles[name]) for name in bundles}
    loads = [0.0] * processes
    shares: list[list[str]] = [[] for _ in range(processes)]
    for name in sorted(bundles, key=lambda name: (-sizes[name], name)):
        least = loads.index(min(loads))
        loads[least] += sizes[name]
        shares[least] += bundles[name]
    return [sorted(share, key=lambda file: (file.startswith(INTEROP), file)) for share in shares]


def bundle_of(file: str, root: Path = ROOT) -> str:
    """Returns the name that a file has in common with those that it stays together with."""
    if folder := next((name for name in TOGETHER if file.startswith(name)), None):
        return folder
    if not file.startswith(INTEROP):
        return file
    text = (root / file).read_text(encoding="utf-8")
    return next((name for name in SHARED if re.search(rf"\b{name}: ", text)), file)


def measured(times: Path) -> dict[str, float]:
    """Returns the seconds of each file, of the lines that `pytest --times` wrote."""
    found: dict[str, float] = defaultdict(float)
    for line in times.read_text(encoding="utf-8").splitlines():
        phase = json.loads(line)
        found[phase["test"].split("::")[0]] += phase["took_s"]
    return {file: round(taken, 1) for file, taken in sorted(found.items())}
