"""Calls of a user's handler, run beside the event loop's own work: jobs, and pools that run them.

A coroutine function runs in tasks of the loop, any other callable in threads, so that heartbeats
never wait for user code. A pool knows neither queues nor brokers: a job holds its argument and
who receives the outcome, in the loop's thread.
"""

import asyncio
import contextlib
import inspect
import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Protocol

from mqcore.client.outcomes import LEFT_OUT, Outcome, outcome_of, raised
from mqcore.clock import monotonic_ms

__all__ = ["HandlerPool", "Job", "TaskPool", "ThreadPool", "is_coroutine_handler", "pool_for"]

_log = logging.getLogger(__name__)

# Jobs that a task runs before the loop serves others: handlers that never wait would starve it.
_TURN_JOBS: Final = 64
# Jobs that a thread finishes before it notifies the loop: a wake-up costs as much as tens of them.
_JOBS_PER_REPORT: Final = 64
# How soon another thread is woken for jobs that still wait, doubling in number. Handlers that take
# microseconds are all done by one thread until then, without a fight for the interpreter.
_REINFORCE_S: Final = 0.002
# How long a cancelled handler may take to end.
_CANCEL_S: Final = 1.0
# The reinforcement's pace while every thread is busy: it then only collects what was finished.
_COLLECT_S: Final = 0.05


@dataclass(slots=True, eq=False)
class Job:
    """One call of the handler.

    Attributes:
        argument: What the handler gets.
        finished: Hears what came of it, in the loop's thread: job, outcome, ms it took.
        owner: Whatever `finished` needs to know.
        begins: Called right before the handler, in the handler's thread, with the time in ms; with
            False the job is left out, and nobody hears of it.
        began_ms: When the handler was called.
        is_abandoned: Whether nobody waits for it any more.
    """

    argument: Any
    finished: Callable[["Job", Outcome, int], None]
    owner: Any
    begins: Callable[["Job", int], bool]
    began_ms: int = 0
    is_abandoned: bool = False


class HandlerPool(Protocol):
    """Runs jobs."""

    @property
    def size(self) -> int:
        """How many run at once."""
        ...

    @property
    def running(self) -> int:
        """How many run now."""
        ...

    def submit(self, jobs: Iterable[Job]) -> None:
        """Takes jobs; they begin in this order."""
        ...

    def abandon(self, job: Job) -> None:
        """Waits no longer for a job that runs; another one may run instead."""
        ...

    async def drain(self, timeout_s: float) -> int:
        """Begins no more jobs and waits for those that run; returns how many still do.

        Jobs that waited to begin hear `LEFT_OUT`, as those do that are submitted later.
        """
        ...

    async def close(self) -> None:
        """Ends the pool; jobs that still run are cut off where that is possible."""
        ...


def is_coroutine_handler(handler: Callable[..., Any]) -> bool:
    """Returns whether a handler is made with `async def`, also as a method, partial or object."""
    inner = handler
    # By its type: a mock has whatever attribute it is asked for, each with one of its own.
    while isinstance(inner, partial):
        inner = inner.func
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(inner, "__call__", None)  # noqa: B004 - the method itself is looked at
    )


def pool_for(
    handler: Callable[..., Any], size: int, name: str, now_ms: Callable[[], int] = monotonic_ms
) -> HandlerPool:
    """Returns the pool that a handler needs."""
    pool = TaskPool if is_coroutine_handler(handler) else ThreadPool
    return pool(handler, size, name, now_ms)


class _Pool(ABC):
    """What both pools share: jobs that wait, and an end."""

    def __init__(self, size: int, name: str, now_ms: Callable[[], int]) -> None:
        self.size = size
        self._name = name
        self._now_ms = now_ms
        self._ready: deque[Job] = deque()
        self._is_draining = False
        self._drained: asyncio.Future[None] | None = None

    @property
    @abstractmethod
    def running(self) -> int:
        """How many run now."""

    def _takes(self, jobs: Iterable[Job]) -> bool:
        """Lets jobs wait, unless none are begun any more; returns whether they do."""
        if self._is_draining:
            _leave_out(jobs)
            return False
        self._ready.extend(jobs)
        return True

    def _notify_drained(self) -> None:
        if self._drained is not None and not self._drained.done() and not self.running:
            self._drained.set_result(None)


class TaskPool(_Pool):
    """Runs coroutine handlers in as many tasks as may run at once."""

    def __init__(
        self,
        handler: Callable[[Any], Awaitable[Any]],
        size: int,
        name: str,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        """Takes the handler, how many may run at once, and the time."""
        super().__init__(size, name, now_ms)
        self._handler = handler
        self._idle: deque[asyncio.Future[None]] = deque()
        self._workers: dict[asyncio.Task[None], Job | None] = {}
        self._is_rousing = False

    @property
    def running(self) -> int:
        """How many run now."""
        return sum(job is not None and not job.is_abandoned for job in self._workers.values())

    def submit(self, jobs: Iterable[Job]) -> None:
        """Takes jobs."""
        if self._takes(jobs):
            self._rouse()

    def _rouse(self) -> None:
        """Gets one more worker to look, unless one is about to.

        Who begins a job rouses the next one: handlers that wait are soon all at work, and those
        that do not are called in a row by one worker, without a turn of the loop for each.
        """
        if self._is_rousing or not self._ready:
            return
        if self._idle:
            self._is_rousing = True
            self._idle.popleft().set_result(None)
        elif len(self._workers) < self.size:
            self._is_rousing = True
            self._hire()

    def _hire(self) -> None:
        task = asyncio.get_running_loop().create_task(self._work(), name=self._name)
        self._workers[task] = None
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        self._workers.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a worker of %s ended", self._name, exc_info=task.exception())
        if not self._is_draining:
            self._rouse()
        self._notify_drained()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        me = asyncio.current_task()
        assert me is not None
        ready, now_ms = self._ready, self._now_ms
        turn = 0
        self._is_rousing = False
        while not self._is_draining:
            if not ready:
                waiter = loop.create_future()
                self._idle.append(waiter)
                await waiter
                self._is_rousing = False
                continue
            job = ready.popleft()
            self._rouse()
            job.began_ms = now_ms()
            if not job.begins(job, job.began_ms):
                continue
            self._workers[me] = job
            outcome = await self._outcome(job)
            if job.is_abandoned:
                return
            self._workers[me] = None
            job.finished(job, outcome, now_ms() - job.began_ms)
            turn += 1
            if turn >= _TURN_JOBS:
                turn = 0
                await asyncio.sleep(0)

    async def _outcome(self, job: Job) -> Outcome:
        try:
            return outcome_of(await self._handler(job.argument))
        except asyncio.CancelledError as error:
            if job.is_abandoned or self._is_draining:
                raise
            # The handler's own cancellation, of something inside it: a failure like any other.
            return raised(error)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            return raised(error)

    def abandon(self, job: Job) -> None:
        """Cancels the handler of a job."""
        for task, running in self._workers.items():
            if running is job:
                job.is_abandoned = True
                task.cancel()
                return

    async def drain(self, timeout_s: float) -> int:
        """Begins no more jobs and waits for those that run."""
        self._is_draining = True
        _leave_out(_taken(self._ready))
        while self._idle:
            self._idle.popleft().set_result(None)
        if self.running:
            self._drained = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._drained], timeout=timeout_s)
        return self.running

    async def close(self) -> None:
        """Cancels what runs."""
        self._is_draining = True
        tasks = [task for task in self._workers if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            # A handler that will not be cancelled must not hold up everybody else.
            _, hanging = await asyncio.wait(tasks, timeout=_CANCEL_S)
            if hanging:
                _log.error("%s: %d handlers refuse to be cancelled", self._name, len(hanging))


class ThreadPool(_Pool):
    """Runs plain handlers in threads of its own; they do not keep the interpreter from exiting."""

    def __init__(
        self,
        handler: Callable[[Any], Any],
        size: int,
        name: str,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        """Takes the handler, how many may run at once, and the time."""
        super().__init__(size, name, now_ms)
        self._handler = handler
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        self._finished: deque[tuple[Job, Outcome, int]] = deque()
        self._running: set[Job] = set()
        # Guards the three counts; what the threads hand over is atomic by itself.
        self._lock = threading.Lock()
        self._threads = self._abandoned = self._idle = 0
        self._made = 0
        self._is_notified = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wake_count = 1

    @property
    def running(self) -> int:
        """How many run now, or have ended without having been heard."""
        return sum(not job.is_abandoned for job in list(self._running)) + len(self._finished)

    def submit(self, jobs: Iterable[Job]) -> None:
        """Takes jobs."""
        if not self._takes(jobs):
            return
        self._loop = asyncio.get_running_loop()
        self._wake(1)
        if self._timer is None:
            self._wake_count = 1
            self._timer = self._loop.call_later(_REINFORCE_S, self._reinforce)

    @property
    def _has_hands(self) -> bool:
        # As many again as may run may hang; beyond that no more threads are made.
        with self._lock:
            hanging = min(self._abandoned, self.size)
            return self._idle > 0 or self._threads - hanging < self.size

    def _wake(self, count: int) -> None:
        for _ in range(min(count, len(self._ready))):
            if not self._has_hands:
                return
            with self._lock:
                is_hired = not self._idle
                self._threads += is_hired
                self._made += is_hired
            if is_hired:
                threading.Thread(
                    target=self._work, name=f"{self._name}-{self._made}", daemon=True
                ).start()
            else:
                self._tokens.put(True)

    def _reinforce(self) -> None:
        """Wakes more threads while jobs wait, and collects what was finished meanwhile."""
        self._timer = None
        self._collect()
        if self._loop is None or not (self._ready or self._running):
            return
        pause_s = _COLLECT_S
        if self._ready and self._has_hands:
            self._wake(self._wake_count)
            self._wake_count *= 2
            pause_s = _REINFORCE_S
        self._timer = self._loop.call_later(pause_s, self._reinforce)

    # In a thread.

    def _work(self) -> None:
        unreported = 0
        while True:
            try:
                job = self._ready.popleft()
            except IndexError:
                if unreported:
                    unreported = 0
                    self._notify_loop()
                if not self._wait():
                    return
                continue
            self._running.add(job)
            if self._is_draining:
                self._finished.append((job, LEFT_OUT, 0))
                self._running.discard(job)
                self._notify_loop()
                continue
            job.began_ms = self._now_ms()
            if not job.begins(job, job.began_ms):
                self._running.discard(job)
                continue
            outcome = self._outcome(job.argument)
            took_ms = self._now_ms() - job.began_ms
            if job.is_abandoned:
                # Another thread works instead of this one.
                self._running.discard(job)
                with self._lock:
                    self._threads -= 1
                    self._abandoned -= 1
                return
            self._finished.append((job, outcome, took_ms))
            self._running.discard(job)
            unreported += 1
            if unreported >= _JOBS_PER_REPORT or took_ms or self._is_draining:
                unreported = 0
                self._notify_loop()

    def _wait(self) -> bool:
        """Waits for a token; returns whether there may be work."""
        with self._lock:
            self._idle += 1
        goes_on = self._tokens.get()
        with self._lock:
            self._idle -= 1
            self._threads -= not goes_on
        return goes_on

    def _outcome(self, argument: Any) -> Outcome:
        try:
            value = self._handler(argument)
            if inspect.isawaitable(value) and self._loop is not None:
                value = asyncio.run_coroutine_threadsafe(_awaited(value), self._loop).result()
        except BaseException as error:
            return raised(error)
        return outcome_of(value)

    def _notify_loop(self) -> None:
        if self._is_notified or self._loop is None:
            return
        self._is_notified = True
        try:
            self._loop.call_soon_threadsafe(self._collect)
        except RuntimeError:
            # The loop is closed: nobody is left to hear of it.
            _log.debug("%s: a handler ended after its loop", self._name)

    # In the loop's thread again.

    def _collect(self) -> None:
        self._is_notified = False
        finished = self._finished
        while finished:
            job, outcome, took_ms = finished.popleft()
            if not job.is_abandoned:
                job.finished(job, outcome, took_ms)
        self._notify_drained()

    def abandon(self, job: Job) -> None:
        """Leaves the thread of a job alone until its handler ends."""
        if job not in self._running or job.is_abandoned:
            return
        job.is_abandoned = True
        with self._lock:
            self._abandoned += 1
            hanging = self._abandoned
        if hanging > self.size:
            _log.error("%s: %d handlers hang: no thread replaces theirs", self._name, hanging)
        self._wake(1)

    async def drain(self, timeout_s: float) -> int:
        """Begins no more jobs and waits for those that run."""
        self._is_draining = True
        _leave_out(_taken(self._ready))
        self._collect()
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + timeout_s
        # A thread may end its job between the look and the flag: look again, at a slow pace.
        while self.running and (left_s := ends_s - loop.time()) > 0:
            self._drained = loop.create_future()
            await asyncio.wait([self._drained], timeout=min(left_s, _COLLECT_S))
            self._collect()
        return self.running

    async def close(self) -> None:
        """Ends idle threads; one whose handler hangs ends with its handler."""
        self._is_draining = True
        self._ready.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for _ in range(self._made):
            self._tokens.put(False)


def _taken(ready: deque[Job]) -> Iterable[Job]:
    """Takes what waits, one by one: threads may take from it too."""
    with contextlib.suppress(IndexError):
        while True:
            yield ready.popleft()


def _leave_out(jobs: Iterable[Job]) -> None:
    for job in jobs:
        job.finished(job, LEFT_OUT, 0)


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value
