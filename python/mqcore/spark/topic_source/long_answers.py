"""Answers of megabytes without copies: each is received into a buffer that is used again.

A command's own reader copies a body twice, which is nothing for a message and most of the work for
thousands. Here the header alone becomes a command, and the body stays where the socket put it.
"""

import struct
from collections import deque
from typing import Final, NamedTuple

from mqcore.client.blocking.sockets import BlockingLink
from mqcore.errors import ConnectionLostError, FrameError
from mqcore.native import Command, FrameReader
from mqcore.native.wire import FRAME_BYTES_MAX

__all__ = ["BufferPool", "LongAnswer", "LongAnswers"]

# Length of what follows; kind of the header (one byte) and its length.
_PREFIX: Final = struct.Struct(">II")
_LENGTH: Final = struct.Struct(">I")
_HEADER_MASK: Final = (1 << 24) - 1
# Of the length that a frame gives: the second word is within it.
_WORD: Final = 4
# Answers are mostly as long as the one before.
_BUFFER_BYTES: Final = 1 << 20


class LongAnswer(NamedTuple):
    """An answer whose body is lent: it is there until the buffer is given back.

    Attributes:
        command: The answer without its body.
        body: The body.
        buffer: What to give back.
    """

    command: Command
    body: memoryview
    buffer: bytearray


class BufferPool:
    """Buffers that are not in use; given back by another thread than took them."""

    def __init__(self) -> None:
        """Begins without any."""
        self._free: deque[bytearray] = deque()

    def take(self, size_bytes: int) -> bytearray:
        """Returns a buffer of so many bytes or more."""
        try:
            found = self._free.pop()
        except IndexError:
            found = bytearray()
        if len(found) < size_bytes:
            found = bytearray(max(size_bytes + size_bytes // 8, _BUFFER_BYTES))
        return found

    def give(self, buffer: bytearray) -> None:
        """Keeps a buffer for the next one who asks; nothing may look at it any more."""
        self._free.append(buffer)


class LongAnswers:
    """The answers that come by one connection."""

    def __init__(self, link: BlockingLink, pool: BufferPool) -> None:
        """Takes a connection that nobody else reads."""
        self._link = link
        self._pool = pool
        self._prefix = bytearray(_PREFIX.size)

    def next(self, timeout_s: float) -> LongAnswer:
        """Returns the next answer.

        Args:
            timeout_s: The deadline.

        Raises:
            CallTimeoutError: None came in time.
            ConnectionLostError: The connection ended, or what came is no frame.
        """
        self._link.receive_exactly(memoryview(self._prefix), timeout_s)
        length, kind = _PREFIX.unpack(self._prefix)
        header_len = kind & _HEADER_MASK
        if not _WORD + header_len <= length <= FRAME_BYTES_MAX:
            raise ConnectionLostError(
                f"{self._link.address} sent a frame of {length} bytes with a header of "
                f"{header_len}: that is none",
                address=self._link.address,
            )
        buffer = self._pool.take(length - _WORD)
        whole = memoryview(buffer)[: length - _WORD]
        self._link.receive_exactly(whole, timeout_s)
        head = _LENGTH.pack(_WORD + header_len) + self._prefix[_WORD:] + whole[:header_len]
        try:
            (command,) = FrameReader().feed(head)
        except FrameError as error:
            raise ConnectionLostError(
                f"{self._link.address} sent bytes that are no frame: {error.message}",
                address=self._link.address,
            ) from error
        return LongAnswer(command, whole[header_len:], buffer)
