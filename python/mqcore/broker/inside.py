"""A client's second connection, inside the broker: what Python has rewritten is executed on it.

The fast path answers there, and not at the client's own connection: Python gets the response, as
whoever has asked. It has the client's address, by which messages know where they were born.
"""

import asyncio
from collections.abc import Callable

from mqcore.native import Command, FastPath, FastPathProtocol, FrameReader, Handed

__all__ = ["InsideConnection"]


class _Returned(asyncio.Transport):
    """Gives what is written back to who has asked."""

    def __init__(self, peer: object, take: Callable[[bytes], None]) -> None:
        """Takes the other side's name, and who takes the bytes."""
        super().__init__(extra={"peername": peer})
        self._take = take

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Gives bytes back."""
        self._take(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Does nothing: nothing waits here."""

    def pause_reading(self) -> None:
        """Does nothing: nothing is read here."""

    def resume_reading(self) -> None:
        """Does nothing: nothing is read here."""

    def is_closing(self) -> bool:
        """Returns False: it is closed by who has it."""
        return False

    def abort(self) -> None:
        """Does nothing: it is closed by who has it."""


class InsideConnection(FastPathProtocol):
    """Executes requests in the fast path, and returns what it answers."""

    def __init__(self, fast_path: FastPath, peer: object) -> None:
        """Opens it.

        Args:
            fast_path: What executes.
            peer: The client's own name, as its transport has it.
        """
        super().__init__(fast_path)
        self._reader = FrameReader()
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._last = 0
        self._is_closed = False
        self.connection_made(_Returned(peer, self._take))

    def ask(self, command: Command) -> "asyncio.Future[Command] | None":
        """Executes a request; returns what becomes its response, None where it is not executed.

        The future of one that wants no answer stays without a result, and so does that of a
        connection that is closed meanwhile: it is cancelled then.
        """
        if self._is_closed:
            return None
        self._last += 1
        asked = Command(
            command.code,
            ext=command.ext,
            body=command.body,
            opaque=self._last,
            flag=command.flag,
            language=command.language,
            version=command.version,
            serialization=command.serialization,
        )
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        if not command.is_oneway:
            self._waiting[self._last] = future
        if not self.execute(asked):
            self._waiting.pop(asked.opaque, None)
            return None
        return future

    def close(self) -> None:
        """Ends it; who waits is cancelled, and what is held for it is forgotten."""
        if self._is_closed:
            return
        self._is_closed = True
        self.connection_lost(None)
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.cancel()

    def handed(self, requests: list[Handed]) -> None:
        """Cancels who has asked what is not executed after all."""
        for each in requests:
            future = self._waiting.pop(each.command.opaque, None)
            if future is not None:
                future.cancel()

    def give_up(self, reason: str) -> None:
        """Ends it: its client does not read what it gets."""
        super().give_up(reason)
        self.close()

    def _take(self, data: bytes) -> None:
        for response in self._reader.feed(data):
            future = self._waiting.pop(response.opaque, None)
            if future is not None and not future.done():
                future.set_result(response)
