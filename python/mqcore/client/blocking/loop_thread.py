"""The one event loop of the synchronous face, in a thread of its own; one per process.

A call from a thread that runs a loop itself, from a forked child, or after the interpreter began to
end is refused in words: it could only wait for ever.
"""

import asyncio
import atexit
import contextlib
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as WaitTimeoutError
from typing import Any, Final, TypeVar

from mqcore.client.here import current_loop
from mqcore.errors import ClosedError, UsageError, UsageReason

__all__ = ["EXIT_S", "LoopThread", "check_blocking_allowed", "loop_thread"]

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

# For how long the end of the interpreter may wait for what is in flight.
EXIT_S: Final = 5.0
# A loop thread that died can answer nobody: who waits looks whether it lives.
_LOOK_S: Final = 1.0


def check_blocking_allowed() -> None:
    """Checks that this thread runs no event loop.

    Raises:
        UsageError: It does.
    """
    if current_loop() is not None:
        raise UsageError(
            "a blocking call would stop the event loop that runs in this thread: use mqcore.aio, "
            "or call it in a thread (asyncio.to_thread)",
            reason=UsageReason.RUNNING_LOOP,
        )


class LoopThread:
    """An event loop in a daemon thread.

    Attributes:
        loop: The loop.
        process_id: The process that it belongs to.
    """

    def __init__(self) -> None:
        """Starts the thread."""
        self.loop = asyncio.new_event_loop()
        self.process_id = os.getpid()
        self._closers: dict[object, tuple[bool, Callable[[], Awaitable[None]]]] = {}
        self._thread = threading.Thread(target=self._run, name="mq-client-loop", daemon=True)
        self._thread.start()
        atexit.register(self.end)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def check_usable(self) -> None:
        """Checks that a call from here and now can be answered.

        Raises:
            UsageError: This thread runs a loop.
            UsageError: The process was forked since.
            ClosedError: The interpreter is ending.
        """
        check_blocking_allowed()
        if self.process_id != os.getpid():
            raise UsageError(
                f"this client was made by process {self.process_id}, and process {os.getpid()} is "
                "its fork: make clients after forking",
                opener=self.process_id,
                reason=UsageReason.FORKED,
            )
        if not self._thread.is_alive():
            raise ClosedError("the interpreter is ending: the client's loop has stopped")

    def run(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Runs a coroutine on the loop and returns what it returns.

        Args:
            work: Makes the coroutine; it is not made where the call is refused.

        Raises:
            UsageError: The call cannot be answered.
            Exception: Whatever the coroutine raises.
        """
        self.check_usable()
        future = asyncio.run_coroutine_threadsafe(work(), self.loop)
        try:
            while True:
                try:
                    return future.result(_LOOK_S)
                except WaitTimeoutError:
                    if future.done():
                        # It is the coroutine that raised it.
                        raise
                    self.check_usable()
        except CancelledError as error:
            raise ClosedError("the client was closed while a call waited") from error
        except KeyboardInterrupt:
            future.cancel()
            raise

    def soon(self, call: Callable[..., object], *arguments: object) -> None:
        """Calls on the loop, soon; after its end, never."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(call, *arguments)

    def close_at_exit(
        self, owner: object, close: Callable[[], Awaitable[None]], *, is_last: bool = False
    ) -> None:
        """Closes an owner when the interpreter ends, unless `forget` came first.

        Args:
            owner: Who.
            close: How.
            is_last: Whether others need it while they close.
        """
        self._closers[owner] = (is_last, close)

    def forget(self, owner: object) -> None:
        """Leaves an owner alone at the end: it was closed."""
        self._closers.pop(owner, None)

    def end(self) -> None:
        """Closes what is still open, within `EXIT_S`, and stops the loop."""
        if self.process_id != os.getpid() or not self._thread.is_alive():
            return
        closing = asyncio.run_coroutine_threadsafe(self._close_all(), self.loop)
        try:
            closing.result(EXIT_S)
        except WaitTimeoutError:
            _log.error(
                "the interpreter ends, and after %g s messages in flight are not acknowledged",
                EXIT_S,
            )
        self.soon(self.loop.stop)
        self._thread.join(_LOOK_S)

    async def _close_all(self) -> None:
        closers = list(self._closers.values())
        self._closers.clear()
        for phase in (False, True):
            closing = [close() for is_last, close in closers if is_last is phase]
            for outcome in await asyncio.gather(*closing, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    _log.error("a client was not closed cleanly", exc_info=outcome)


_lock = threading.Lock()
_current: LoopThread | None = None


def loop_thread() -> LoopThread:
    """Returns the loop of this process; starts it the first time.

    Raises:
        UsageError: This thread runs a loop itself.
    """
    global _current
    check_blocking_allowed()
    with _lock:
        if _current is None or _current.process_id != os.getpid():
            _current = LoopThread()
        return _current


def _after_fork_in_child() -> None:
    global _lock
    # Somebody may have held it.
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)
