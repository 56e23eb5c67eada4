"""How much of unfinished frames all connections may hold, and which are read no further.

Connections that have sent no whole frame yet share one part, the others another. A full part closes
nobody: its connections are read no further, but for the one whose frame is the oldest, which may go
on to its end, so that there is always progress. Pure state; knows no socket.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["FramePart", "Frames"]

_Key = TypeVar("_Key", bound=Hashable)

# A connection that holds no more than this of a frame is read until the part is wholly full: almost
# all requests are smaller.
SMALL_BYTES = 64 << 10
# The part of the bytes that is kept for them.
_SMALL_SHARE = 8
# What one connection may bring in one read: so many more go on at once when there is space.
_READ_BYTES = 256 << 10


class FramePart(Generic[_Key]):
    """The unfinished frames of some connections.

    Attributes:
        limit_bytes: The bound; each connection may pass it by one read, the oldest by one frame.
        held_bytes: Bytes held now.
    """

    def __init__(
        self, limit_bytes: int, pause: Callable[[_Key], None], resume: Callable[[_Key], None]
    ) -> None:
        """Takes the bound, and what stops and starts the reading of a connection."""
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._pause = pause
        self._resume = resume
        # In the order in which the frames began: the number of the frame, and its bytes.
        self._frames: dict[_Key, tuple[int, int]] = {}
        self._paused: dict[_Key, None] = {}

    @property
    def paused(self) -> tuple[_Key, ...]:
        """The connections that are read no further, the oldest first."""
        return tuple(self._paused)

    def note(self, key: _Key, kept_bytes: int, frame: int) -> None:
        """Notes what a connection holds of an unfinished frame now.

        Args:
            key: The connection.
            kept_bytes: How much; 0 for nothing.
            frame: Another number for another frame.
        """
        known = self._frames.get(key)
        if known is not None:
            self.held_bytes -= known[1]
            if kept_bytes == 0 or known[0] != frame:
                del self._frames[key]
        if kept_bytes:
            self._frames[key] = (frame, kept_bytes)
            self.held_bytes += kept_bytes
            if self._is_full(kept_bytes) and key != self._oldest():
                self._hold(key)
        else:
            self._release(key)
        if self._paused:
            self._let_go_on()

    def forget(self, key: _Key) -> None:
        """Forgets a connection that is gone."""
        self._paused.pop(key, None)
        known = self._frames.pop(key, None)
        if known is not None:
            self.held_bytes -= known[1]
            self._let_go_on()

    def _oldest(self) -> _Key:
        return next(iter(self._frames))

    def _is_full(self, kept_bytes: int) -> bool:
        if kept_bytes > SMALL_BYTES:
            return self.held_bytes >= self.limit_bytes - self.limit_bytes // _SMALL_SHARE
        # The oldest goes on beyond the bound: that is not to the charge of small frames.
        return self.held_bytes - self._frames[self._oldest()][1] >= self.limit_bytes

    def _hold(self, key: _Key) -> None:
        if key not in self._paused:
            self._paused[key] = None
            self._pause(key)

    def _release(self, key: _Key) -> None:
        if key in self._paused:
            del self._paused[key]
            self._resume(key)

    def _let_go_on(self) -> None:
        """Reads on where there is space, the oldest in any case."""
        if not self._paused:
            return
        self._release(self._oldest())
        free_bytes = self.limit_bytes - self.held_bytes
        while self._paused and free_bytes > 0:
            key = next(iter(self._paused))
            if self._is_full(self._frames[key][1]):
                break
            self._release(key)
            free_bytes -= _READ_BYTES


class Frames(Generic[_Key]):
    """Both parts: of connections that have sent no whole frame yet, and of the others."""

    def __init__(
        self,
        first_bytes: int,
        later_bytes: int,
        pause: Callable[[_Key], None],
        resume: Callable[[_Key], None],
    ) -> None:
        """Takes the bounds of both, and what stops and starts the reading of a connection."""
        self.first: FramePart[_Key] = FramePart(first_bytes, pause, resume)
        self.later: FramePart[_Key] = FramePart(later_bytes, pause, resume)

    @property
    def held_bytes(self) -> int:
        """Bytes of unfinished frames of all connections."""
        return self.first.held_bytes + self.later.held_bytes

    def note(self, key: _Key, kept_bytes: int, frame: int, *, has_asked: bool) -> None:
        """Notes what a connection holds; see `FramePart.note`.

        Args:
            key: The connection.
            kept_bytes: How much.
            frame: Another number for another frame.
            has_asked: Whether a whole frame of it has come.
        """
        if has_asked:
            self.first.note(key, 0, frame)
            self.later.note(key, kept_bytes, frame)
        else:
            self.first.note(key, kept_bytes, frame)

    def forget(self, key: _Key) -> None:
        """Forgets a connection that is gone."""
        self.first.forget(key)
        self.later.forget(key)
