"""An event loop in a thread of its own, for a broker that outlives the loops of single tests.

Knows nothing of brokers.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from mqcore.errors import ClosedError

_Result = TypeVar("_Result")

# Nothing that a broker in a test does takes longer, but for a disk that hangs.
_DEADLINE_S = 30.0
# As many waits for the disk at once as one broker has use for.
_WORKERS = 4


class LoopThread:
    """A running event loop.

    Attributes:
        name: What its threads are called; theirs begin with it.
    """

    def __init__(self, name: str) -> None:
        """Prepares; the thread starts with the first work, and ends with `close` or the process."""
        self.name = name
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(
            ThreadPoolExecutor(max_workers=_WORKERS, thread_name_prefix=name)
        )
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._starting = threading.Lock()

    def submit(self, work: Coroutine[Any, Any, _Result]) -> "Future[_Result]":
        """Begins `work` on the loop.

        Raises:
            ClosedError: The loop was closed.
        """
        if self._loop.is_closed():
            work.close()
            raise ClosedError("it was closed: make a new one")
        with self._starting:
            if self._thread.ident is None:
                self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Returns what `work` returns on the loop, or raises what it raises.

        Raises:
            TimeoutError: It took longer than anything should.
        """
        return self.submit(work).result(_DEADLINE_S)

    async def awaited(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Returns what `work` returns on the loop, to a coroutine of another loop."""
        return await asyncio.wrap_future(self.submit(work))

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._loop.is_closed()

    def close(self) -> None:
        """Ends loop and thread; closing again does nothing."""
        if self._loop.is_closed():
            return
        if self._thread.ident is not None:
            self.run(self._loop.shutdown_default_executor())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_DEADLINE_S)
        self._loop.close()
