"""Samples of long tables: of cases that differ in some parameters a few run, chosen by a seed.

    @pytest.mark.sampled("driver")                     # of each case one release
    @pytest.mark.sampled("whose", "how", count=2)      # two of the pairs

Cases of one function that agree in all other parameters form a table; without names all cases of
the function do. With `--matrix` every case runs. The seed is `--seed`, else MQCORE_SEED, else the
commit, so that a run can be repeated and commits differ; the head of the output names it.
"""

import os
import random
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

MARK = "sampled"
VARIABLE = "MQCORE_SEED"
# Digits of the commit that make a seed.
_DIGITS = 8


def seed_of(option: int | None) -> int:
    """Returns the seed: as given, from the environment, or of the commit that is checked out."""
    if option is not None:
        return option
    given = os.environ.get(VARIABLE)
    if given:
        return int(given)
    command = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(done.stdout[:_DIGITS], 16)


def left_out(items: list[pytest.Item], seed: int) -> set[pytest.Item]:
    """Returns the cases of sampled tables that the seed does not choose."""
    sampled = [item for item in items if item.get_closest_marker(MARK) is not None]
    seen: dict[tuple[str, str], list[object]] = defaultdict(list)
    tables: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in sorted(sampled, key=lambda item: item.nodeid):
        tables[_table_of(item, seen)].append(item)
    unchosen: set[pytest.Item] = set()
    for name, cases in tables.items():
        mark = cases[0].get_closest_marker(MARK)
        count = 1 if mark is None else int(mark.kwargs.get("count", 1))
        chosen = random.Random(f"{seed} {name}").sample(cases, min(count, len(cases)))
        unchosen |= set(cases) - set(chosen)
    return unchosen


def _table_of(item: pytest.Item, seen: dict[tuple[str, str], list[object]]) -> str:
    """Returns what the cases of a table have in common, as text.

    Values of parameters are numbered in `seen`: they may print differently in every process.
    """
    function = item.nodeid.split("[")[0]
    mark = item.get_closest_marker(MARK)
    callspec = getattr(item, "callspec", None)
    if mark is None or callspec is None or not mark.args:
        return function
    numbers = []
    for name, value in sorted(callspec.params.items()):
        if name in mark.args:
            continue
        values = seen[function, name]
        if not any(value is each for each in values):
            values.append(value)
        numbers.append(next(at for at, each in enumerate(values) if value is each))
    return f"{function} {numbers}"
