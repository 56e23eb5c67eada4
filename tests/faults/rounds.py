"""How many rounds of faults there are, and what they are drawn from.

`MQCORE_FAULTS=250` sets how many in all, `MQCORE_FAULTS_SEED` what they do (`make failovers`).
Rounds come in chapters, each with processes and directories of its own, so that one chapter can be
run again: `MQCORE_FAULTS_CHAPTER=3`.
"""

import os
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass

# Without it every case has a few rounds of its own: a part of `make test`.
_ALL = os.environ.get("MQCORE_FAULTS")
SEED = int(os.environ.get("MQCORE_FAULTS_SEED", "1"))
_CHAPTER = os.environ.get("MQCORE_FAULTS_CHAPTER")
# Behind so many rounds the checker has too much to look at after each.
_CHAPTER_ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Chapter:
    """Rounds with the same processes.

    Attributes:
        name: What it is drawn from.
        count: How many rounds.
        dice: What draws.
        again: What runs it again, for messages.
    """

    name: str
    count: int
    dice: random.Random
    again: str


def chapters(case: str, few: int, percent: int) -> Iterator[Chapter]:
    """Gives the chapters of a case.

    Args:
        case: Its name.
        few: How many rounds it has in `make test`.
        percent: Its part of those of `make failovers`.
    """
    left = few if _ALL is None else max(1, round(int(_ALL) * percent / 100))
    number = 0
    while left > 0:
        count = min(left, _CHAPTER_ROUNDS)
        left -= count
        if _CHAPTER in (None, str(number)):
            again = f"MQCORE_FAULTS_SEED={SEED} MQCORE_FAULTS_CHAPTER={number}"
            again += "" if _ALL is None else f" MQCORE_FAULTS={_ALL}"
            name = f"{SEED} {case} {number}"
            yield Chapter(f"chapter-{number}", count, random.Random(name), again)
        number += 1


def pass_s(seconds: float) -> None:
    """Lets harm last so long: nothing is waited for."""
    threading.Event().wait(seconds)
