"""Tasks that do something again and again, around a job that a stop must not cut.

Knows no job: whoever is at work on it says so.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

__all__ = ["Timetable"]


class Timetable:
    """The tasks of one timetable.

    Attributes:
        busy: Held while the job is at work: what has begun is waited for at a stop.
    """

    def __init__(self) -> None:
        """Begins with no task."""
        self.busy = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Begins a task, on the running loop."""
        self._tasks.append(asyncio.get_running_loop().create_task(work, name=name))

    async def stop(self) -> None:
        """Ends all tasks; a job that has begun is waited for. Stopping again does nothing."""
        async with self.busy:
            for task in self._tasks:
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
