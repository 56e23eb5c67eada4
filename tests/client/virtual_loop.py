"""An event loop whose time is made: it jumps to the next timer when nothing else is to be done.

Knows nothing of mqcore. Minutes of timetables pass in milliseconds, the same in every run.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class _Selector(selectors.DefaultSelector):
    """Never waits: reports to the loop how long it would have."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events:
            return events
        if timeout is None:
            raise RuntimeError("every task waits, and no timer is set: nothing will ever happen")
        self.loop.now_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop.

    Attributes:
        now_s: Its time.
    """

    def __init__(self) -> None:
        self.now_s = 1_000.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)


def run_virtually(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Returns what `work` returns; an error that nobody took fails the test."""
    untaken: list[dict[str, Any]] = []

    async def watched() -> _Result:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: untaken.append(context))
        return await work

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        result = runner.run(watched())
    assert untaken == []
    return result


def virtual_loop() -> VirtualLoop:
    """Returns the running loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop
