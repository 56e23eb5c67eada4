"""Requests of ours on one connection that wait for their answer, by their number."""

import asyncio

from mqcore.errors import RemotingError, TooBusyError
from mqcore.native import Command

__all__ = ["Calls"]


class Calls:
    """The table of one connection."""

    def __init__(self, limit: int) -> None:
        """Takes how many may wait at once."""
        self._limit = limit
        self._waiting: dict[int, asyncio.Future[Command]] = {}

    def __len__(self) -> int:
        """Returns how many wait."""
        return len(self._waiting)

    def begin(
        self, opaque: int, peer: str, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[Command]:
        """Returns what the answer to a request will resolve.

        Raises:
            TooBusyError: As many as may already wait.
        """
        if len(self._waiting) >= self._limit:
            raise TooBusyError(
                f"{peer}: {self._limit} requests already wait for an answer",
                address=peer,
                limit=self._limit,
            )
        future: asyncio.Future[Command] = loop.create_future()
        self._waiting[opaque] = future
        return future

    def end(self, opaque: int) -> None:
        """Forgets a request: answered, timed out or cancelled."""
        self._waiting.pop(opaque, None)

    def resolve(self, response: Command) -> bool:
        """Gives an answer to who waits for it; returns whether somebody did."""
        future = self._waiting.pop(response.opaque, None)
        if future is None or future.done():
            return False
        future.set_result(response)
        return True

    def fail(self, error: RemotingError) -> None:
        """Ends every waiting call with an error: no answer will come."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                # A copy each: an exception that is raised twice collects both traces.
                future.set_exception(
                    type(error)(error.message, address=error.address).with_traceback(None)
                )
