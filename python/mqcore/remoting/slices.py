"""Long work on the event loop in slices: after each of them whoever waits has a turn.

    slices = Slices()
    for each in many:
        do(each)
        await slices.turn()

What is done between two calls of `turn` stays atomic for everybody else.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import TypeVar

from mqcore.clock import monotonic_s

__all__ = ["SLICE_S", "Slices", "finished", "in_slices"]

_Result = TypeVar("_Result")

# A slice: two of them, and what else a turn of the loop has to do, stay below 20 ms.
SLICE_S = 0.005


class Slices:
    """Counts the time of a slice; one for each piece of work.

    Attributes:
        count: Slices so far.
    """

    def __init__(
        self, *, clock: Callable[[], float] = monotonic_s, slice_s: float = SLICE_S
    ) -> None:
        """Begins the first slice.

        Args:
            clock: Returns seconds that never step back.
            slice_s: How long a slice may take.
        """
        self.count = 1
        self._clock = clock
        self._slice_s = slice_s
        self._began_s = clock()

    @property
    def is_over(self) -> bool:
        """Whether the slice has taken its time."""
        return self._clock() - self._began_s >= self._slice_s

    def begin(self) -> None:
        """Begins the next slice: others have had their turn."""
        self.count += 1
        self._began_s = self._clock()

    async def turn(self) -> None:
        """Lets others have their turn where the slice is over."""
        if self.is_over:
            await asyncio.sleep(0)
            self.begin()


async def in_slices(steps: Generator[None, None, _Result], slices: Slices | None = None) -> _Result:
    """Runs work that yields between its steps; returns its result."""
    slices = slices if slices is not None else Slices()
    results: list[_Result] = []
    for _step in _keeping(steps, results):
        await slices.turn()
    return results[0]


def finished(steps: Generator[None, None, _Result]) -> _Result:
    """Runs work that yields between its steps, without a pause; returns its result."""
    results: list[_Result] = []
    for _step in _keeping(steps, results):
        pass
    return results[0]


def _keeping(
    steps: Generator[None, None, _Result], results: list[_Result]
) -> Generator[None, None, None]:
    """Yields where the work does; its result is appended to `results`."""
    results.append((yield from steps))
