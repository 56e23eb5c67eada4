"""Whether a connection is read, and whether it may be written to: the two directions of flow.

Knows no frame and no request. All methods belong to the event loop's thread.
"""

import asyncio

__all__ = ["ReadGate", "WriteGate"]


class ReadGate:
    """The reasons for which a connection is not read.

    Attributes:
        is_paused: Whether its transport does not read.
        resumed_s: When reading was resumed the last time, by the loop's clock.
    """

    def __init__(self) -> None:
        """Begins without a transport, and without a reason."""
        self.is_paused = False
        self.resumed_s = float("-inf")
        self._transport: asyncio.Transport | None = None
        self._reasons: set[str] = set()

    def open(self, transport: asyncio.Transport) -> None:
        """Takes the transport; what holds it counts from the next turn of the loop on.

        uvloop begins to read behind `connection_made`, whatever was asked for in it.
        """
        asyncio.get_running_loop().call_soon(self._opened, transport)

    def _opened(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._apply()

    def end(self) -> None:
        """Forgets the transport: the connection ended."""
        self._transport = None

    def is_held(self, reason: str) -> bool:
        """Returns whether the connection is held for a reason."""
        return reason in self._reasons

    def hold(self, reason: str) -> None:
        """Stops reading until every reason is gone; holding twice for one is holding once."""
        self._reasons.add(reason)
        self._apply()

    def release(self, reason: str) -> None:
        """Reads again, unless another reason holds it."""
        self._reasons.discard(reason)
        self._apply()

    def _apply(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._reasons and not self.is_paused:
            self.is_paused = True
            transport.pause_reading()
        elif not self._reasons and self.is_paused:
            self.is_paused = False
            self.resumed_s = asyncio.get_running_loop().time()
            transport.resume_reading()


class WriteGate:
    """Whether the peer reads what it is sent, and who waits for that.

    Attributes:
        is_paused: Whether as many bytes as may are unsent.
    """

    def __init__(self) -> None:
        """Begins open."""
        self.is_paused = False
        self._is_ended = False
        self._writable: asyncio.Future[None] | None = None

    def pause(self) -> None:
        """Lets callers wait."""
        self.is_paused = True

    def resume(self) -> None:
        """Lets them go on."""
        self.is_paused = False
        self._wake()

    def end(self) -> None:
        """Lets them go on: the connection ended."""
        self._is_ended = True
        self._wake()

    async def until_writable(self) -> None:
        """Returns when there is space for more, or has ended."""
        while self.is_paused and not self._is_ended:
            if self._writable is None:
                self._writable = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._writable)

    def _wake(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None
