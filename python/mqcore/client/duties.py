"""Work that goes on beside the calls of users: again and again, or once. Ends with its owner.

A duty that fails is logged and comes again; nothing fails unheard.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from mqcore.errors import MQError
from mqcore.periodic import PeriodicTask

__all__ = ["Duties"]

_log = logging.getLogger(__name__)

Work: TypeAlias = Callable[[], Awaitable[None]]


class Duties:
    """The background work of one owner, on one event loop."""

    def __init__(self) -> None:
        """Begins with none."""
        self._periodic: list[PeriodicTask] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._once: dict[str, asyncio.Task[None]] = {}

    def every(self, interval_s: float, name: str, work: Work) -> None:
        """Does `work` after each interval, as long as the owner lives."""

        def report(error: Exception, _failures: int) -> None:
            _log_failure(name, error)

        task = PeriodicTask(name, work, period_s=lambda: interval_s, report=report)
        self._periodic.append(task)
        task.start()

    def once(self, name: str, work: Work) -> None:
        """Does `work` soon; asked again before it began, it is done once."""
        if name not in self._once:
            task = self._start(self._run_once(name, work))
            self._once[name] = task

    def spawn(self, name: str, work: Awaitable[None]) -> None:
        """Awaits `work` beside everything else."""
        self._start(_guarded(name, work))

    async def until_idle(self, timeout_s: float) -> bool:
        """Waits until all work has ended that is done once; returns whether it has.

        Args:
            timeout_s: How long at the most.
        """
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=timeout_s)
        return not self._tasks

    async def close(self) -> None:
        """Cancels everything and returns when it has ended."""
        mine = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not mine]
        for task in tasks:
            task.cancel()
        periodic, self._periodic = self._periodic, []
        for each in periodic:
            await each.stop()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run_once(self, name: str, work: Work) -> None:
        # From here on it is a new request that would be lost.
        self._once.pop(name, None)
        await _guarded(name, work())


async def _guarded(name: str, work: Awaitable[None]) -> None:
    try:
        await work
    except Exception as error:
        _log_failure(name, error)


def _log_failure(name: str, error: Exception) -> None:
    if isinstance(error, MQError):
        # It has the cause in words; a trace would only show where it waited.
        _log.warning("%s failed: %s", name, error.message)
    else:
        _log.error("%s failed", name, exc_info=error)
