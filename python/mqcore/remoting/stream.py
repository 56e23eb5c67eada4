"""The bytes of a plain connection: what is written, how much moved, how old an unfinished frame is.

The fast path of the broker has the same three methods for its own connections. Knows no request.
"""

import asyncio
from typing import Protocol

from mqcore.remoting.gates import ReadGate
from mqcore.remoting.limits import Limits

__all__ = ["ByteStream", "PlainStream", "Refusals"]


class ByteStream(Protocol):
    """What a connection asks of its bytes."""

    def write(self, data: bytes) -> None:
        """Sends bytes that are whole frames, behind everything sent before."""

    def traffic(self) -> int:
        """Returns a number that differs whenever a byte came in or went out."""

    def frame_age_s(self, now_s: float) -> float:
        """Returns for how long a frame has been incomplete; 0 without one."""


class Refusals(Protocol):
    """Where a connection that is closed for a bound is counted; `mqcore.remoting.hub.Hub` does."""

    @property
    def limits(self) -> Limits:
        """The bounds."""

    def refuse(self, reason: str, message: str, *facts: object) -> None:
        """Counts a refusal and logs it."""


class PlainStream:
    """The bytes of one connection whose frames Python splits.

    Attributes:
        frames_begun: How many unfinished frames there have been: another number, another frame.
    """

    def __init__(self, refusals: Refusals, reading: ReadGate) -> None:
        """Takes where refusals are counted, and whether the connection is read."""
        self.frames_begun = 0
        self._refusals = refusals
        self._reading = reading
        self._transport: asyncio.Transport | None = None
        self._peer = "?"
        self._moved = 0
        self._frame_began_s: float | None = None

    def open(self, transport: asyncio.Transport, peer: str) -> None:
        """Takes the transport, and the peer's address for the log."""
        self._transport = transport
        self._peer = peer

    def end(self) -> None:
        """Forgets the transport: the connection ended."""
        self._transport = None

    def write(self, data: bytes) -> None:
        """Sends bytes that are whole frames, behind everything sent before."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._moved += len(data)
        transport.write(data)
        unsent_bytes = transport.get_write_buffer_size()
        if unsent_bytes > self._refusals.limits.out_bytes_max:
            self._refusals.refuse(
                "slow_reader",
                "%s does not read: %d unsent bytes, closing",
                self._peer,
                unsent_bytes,
            )
            transport.abort()

    def received(self, byte_count: int, partial_bytes: int, *, is_frame_whole: bool) -> bool:
        """Notes bytes that came in; returns whether a frame is unfinished now, or was before.

        Args:
            byte_count: How many.
            partial_bytes: How many of an unfinished frame are held now.
            is_frame_whole: Whether they made a frame whole.
        """
        self._moved += byte_count
        had_partial = self._frame_began_s is not None
        if partial_bytes == 0:
            self._frame_began_s = None
        elif is_frame_whole or not had_partial:
            self._frame_began_s = asyncio.get_running_loop().time()
            self.frames_begun += 1
        return had_partial or partial_bytes > 0

    def traffic(self) -> int:
        """Returns a number that differs whenever a byte came in or went out."""
        unsent = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._moved - unsent

    def frame_age_s(self, now_s: float) -> float:
        """Returns for how long a frame has been incomplete; 0 without one."""
        # While we do not read, it is not the peer who is slow; after a pause its age is a new one.
        if self._frame_began_s is None or self._reading.is_paused:
            return 0.0
        return now_s - max(self._frame_began_s, self._reading.resumed_s)
