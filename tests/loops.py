"""Runs a test's coroutine to its end on a given event loop; knows nothing of mqcore."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

_Result = TypeVar("_Result")

# No test waits for it: it turns a hang into a failure that names its line.
DEADLINE_S = 60.0
# On a manual clock hours are over at once.
_MANUAL_DEADLINE_S = 1e6


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing: where there is no event, the time of the next timer is there at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(None if timeout is None else 0)
        if not events and timeout is not None:
            self.now_s += max(0.0, timeout)
        return events


class _ManualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock does not go on while there is work; for coroutines without threads."""

    def __init__(self) -> None:
        self._clock = _Jumping()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now_s


FACTORIES: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def run_on(
    kind: str, work: Coroutine[Any, Any, _Result], *, deadline_s: float = DEADLINE_S
) -> _Result:
    """Returns what `work` returns; an error that nobody took fails the test."""
    return _run(FACTORIES[kind], work, deadline_s)


def run_on_manual_clock(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Runs `work` on a loop on which a wait takes no time; see `run_on`."""
    return _run(_ManualLoop, work, _MANUAL_DEADLINE_S)


def _run(
    factory: Callable[[], asyncio.AbstractEventLoop],
    work: Coroutine[Any, Any, _Result],
    deadline_s: float,
) -> _Result:
    untaken: list[dict[str, Any]] = []

    async def bounded() -> _Result:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: untaken.append(context))
        async with asyncio.timeout(deadline_s):
            return await work

    with asyncio.Runner(loop_factory=factory) as runner:
        result = runner.run(bounded())
    assert untaken == []
    return result


async def until(condition: Callable[[], bool]) -> None:
    """Returns when a condition holds that the running loop itself will bring about."""
    while not condition():  # noqa: ASYNC110 - the condition is not ours to signal
        await asyncio.sleep(0)
