"""Deadlines of many waits at once: one timer looks at all of them, not one timer each.

A deadline is kept to within a tenth of a second: a send that has lost its broker waits seconds,
and a timer per message costs more than the message.
"""

import asyncio
from collections.abc import Callable

from mqcore.native import Command

__all__ = ["Deadlines"]

_TICK_S = 0.1


class Deadlines:
    """Answers that are waited for, each with its last moment by the loop's clock."""

    def __init__(self) -> None:
        """Begins with none; belongs to the loop that it is first used on."""
        self._waits: dict[asyncio.Future[Command], tuple[float, Callable[[], BaseException]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(
        self, future: asyncio.Future[Command], at_s: float, error: Callable[[], BaseException]
    ) -> None:
        """Lets `future` fail with `error` when it has not been answered by then."""
        self._waits[future] = (at_s, error)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._look)

    def discard(self, future: asyncio.Future[Command]) -> None:
        """Minds a future no longer."""
        self._waits.pop(future, None)

    def close(self) -> None:
        """Minds none any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waits.clear()

    def _look(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        late = [item for item in self._waits.items() if item[1][0] <= now_s]
        for future, (_, error) in late:
            del self._waits[future]
            if not future.done():
                future.set_exception(error())
        if self._waits:
            self._timer = loop.call_later(_TICK_S, self._look)
