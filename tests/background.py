"""What works beside a test, on an event loop in a thread of its own: for the length of a `with`.

Knows no client and no server.
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Final, Self

__all__ = ["Background", "Resting"]

# Far beyond the time-out of a send.
_REST_S: Final = 90.0


class Background(ABC):
    """Works from the begin of a `with` to its end, which fails if the work has failed."""

    def __init__(self, name: str) -> None:
        """Takes the name of the thread."""
        self._is_over = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name=name)

    def __enter__(self) -> Self:
        """Begins."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends when the work has come to an end."""
        self._is_over.set()
        self._thread.join()
        assert self._failed == []

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:
            self._failed.append(error)

    @abstractmethod
    async def _work(self) -> None:
        """Works until `_is_over` is set."""


class Resting(Background):
    """Sends, and consumes on when nothing more is to be sent."""

    def __init__(self, name: str) -> None:
        """Takes the name of the thread."""
        super().__init__(name)
        self._is_resting = threading.Event()
        self._has_rested = threading.Event()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends everything."""
        self._is_resting.set()
        super().__exit__(kind, error, trace)

    def rest(self) -> None:
        """Sends nothing more, and returns when the last send has come to an end."""
        self._is_resting.set()
        assert self._has_rested.wait(_REST_S), self._failed

    def _run(self) -> None:
        super()._run()
        # Nobody waits for what has failed.
        self._has_rested.set()

    async def _until_over(self) -> None:
        """Notes that the last send has come to an end, and waits for the end."""
        self._has_rested.set()
        await asyncio.to_thread(self._is_over.wait)
