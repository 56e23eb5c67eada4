"""Work that is done again and again on one event loop, until it is stopped.

Knows no job. Time is the loop's alone, so that a test drives it by a loop with a manual clock.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TypeAlias

from mqcore.errors import MQError

__all__ = ["PeriodicTask", "PeriodicTasks", "Report", "Work"]

_log = logging.getLogger(__name__)

# Does the work once; returns the pause until the next time in seconds, None for the period.
Work: TypeAlias = Callable[[], Awaitable[float | None] | float | None]
# Is given the error of one run, and how many failed in a row before it.
Report: TypeAlias = Callable[[Exception, int], None]


class PeriodicTask:
    """One work and its timetable.

    A run that fails is reported, and the next one comes after its pause: no error ends the task.
    """

    def __init__(
        self,
        name: str,
        work: Work,
        *,
        period_s: Callable[[], float],
        first_s: float | None = None,
        retry_s: float | None = None,
        report: Report | None = None,
    ) -> None:
        """Prepares; `start` begins.

        Args:
            name: Name of the task, for logs.
            work: The work.
            period_s: Returns the pause between the end of a run and the next run, in seconds. It is
                asked each time: settings change.
            first_s: Pause before the first run; a period without it.
            retry_s: Pause after a run that failed; a period without it.
            report: What is done about an error; by default it is logged.
        """
        self._name = name
        self._work = work
        self._period_s = period_s
        self._first_s = first_s
        self._retry_s = retry_s
        self._report = self._log_error if report is None else report
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins, on the running loop; does nothing when it has begun."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=self._name)

    def wake(self) -> None:
        """Ends the pause that is under way, or the next one.

        The pause after a failure and the first one last as long as they are: what fails at once
        must not be tried in a circle.
        """
        self._wake.set()

    def cancel(self) -> None:
        """Ends it, and a run that is under way at its next wait; does not wait."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """Ends it, and a run that is under way at its next wait; returns when it has ended.

        Where its own work stops it, that run goes on to its end, and is the last.
        """
        task, self._task = self._task, None
        if task is None or task is asyncio.current_task():
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        await asyncio.sleep(self._period_s() if self._first_s is None else self._first_s)
        failures = 0
        pause: Callable[[float], Awaitable[None]]
        me = asyncio.current_task()
        while self._task is me:
            self._wake.clear()
            try:
                done = self._work()
                pause_s = await done if isawaitable(done) else done
            except Exception as error:
                self._report(error, failures)
                failures += 1
                pause, pause_s = asyncio.sleep, self._retry_s
            else:
                failures = 0
                pause = self._pause
            if self._task is me:
                await pause(self._period_s() if pause_s is None else pause_s)

    async def _pause(self, pause_s: float) -> None:
        try:
            async with asyncio.timeout(pause_s):
                await self._wake.wait()
        except TimeoutError:
            return

    def _log_error(self, error: Exception, _failures: int) -> None:
        log_error(self._name, error)


class PeriodicTasks:
    """The periodic tasks of one owner, around steps that a stop must not cut.

    Attributes:
        step: Held by a task, or by a caller of its work, during a step that a stop waits for.
    """

    def __init__(self) -> None:
        """Begins with no task."""
        self.step = asyncio.Lock()
        self._tasks: list[PeriodicTask] = []

    def every(
        self,
        name: str,
        work: Work,
        *,
        period_s: Callable[[], float],
        first_s: float | None = None,
        retry_s: float | None = None,
        report: Report | None = None,
    ) -> PeriodicTask:
        """Begins a task, on the running loop; see `PeriodicTask`."""
        task = PeriodicTask(
            name, work, period_s=period_s, first_s=first_s, retry_s=retry_s, report=report
        )
        self._tasks.append(task)
        task.start()
        return task

    async def stop(self) -> None:
        """Ends all tasks; a step that has begun is waited for. Stopping again does nothing."""
        async with self.step:
            for task in self._tasks:
                task.cancel()
        tasks, self._tasks = self._tasks, []
        await asyncio.gather(*(task.stop() for task in tasks))


def log_error(what: str, error: Exception) -> None:
    """Logs an error of periodic work: one of ours with its message, another with its traceback."""
    if isinstance(error, MQError):
        _log.error("%s: %s", what, error.message)
    else:
        _log.error("%s failed", what, exc_info=error)
