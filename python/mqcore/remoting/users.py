"""What the connections of each user hold, and how many there are: bounds for one user among many.

Counted are unfinished frames and requests that wait or run. A user who holds too much is read no
further on the connections that hold it, but for the one that began first, as in `frames`; nobody
else notices. A user is known from the first signed request of a connection that comes here on. Pure
state; knows no socket.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from mqcore.remoting.frames import FramePart

__all__ = ["UserHold", "Users"]

_Key = TypeVar("_Key", bound=Hashable)
_NO_BOUND: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class UserHold:
    """What a user has now.

    Attributes:
        user: The name.
        connections: Connections.
        held_bytes: What they hold of unfinished frames and waiting requests.
        paused: Connections of them that are read no further for that.
    """

    user: str
    connections: int
    held_bytes: int
    paused: int


@dataclass(slots=True)
class _Held:
    """What one connection holds."""

    user: str = ""
    frame_bytes: int = 0
    request_bytes: int = 0


class Users(Generic[_Key]):
    """The connections of users.

    Attributes:
        bytes_max: Returns what the connections of one user may hold; 0 for any amount.
        connections_max: Returns how many connections one user may have; 0 for any number.
        paused_count: How often a connection was read no further.
    """

    def __init__(self, pause: Callable[[_Key], None], resume: Callable[[_Key], None]) -> None:
        """Takes what stops and starts the reading of a connection."""
        self.bytes_max: Callable[[], int] = lambda: 0
        self.connections_max: Callable[[], int] = lambda: 0
        self.paused_count = 0
        self._pause, self._resume = pause, resume
        self._held: dict[_Key, _Held] = {}
        self._parts: dict[str, FramePart[_Key]] = {}
        self._connections: dict[str, int] = {}

    def seen(self, key: _Key, user: str) -> bool:
        """Notes whose a connection is; returns False where the user may not have it."""
        held = self._held.setdefault(key, _Held())
        if held.user == user:
            return True
        self._leave(key, held)
        most = self.connections_max()
        count = self._connections.get(user, 0)
        if 0 < most <= count:
            return False
        held.user = user
        self._connections[user] = count + 1
        self._note(key, held)
        return True

    def note_frames(self, key: _Key, kept_bytes: int) -> None:
        """Notes what a connection holds of an unfinished frame now."""
        held = self._of(key, kept_bytes)
        if held is not None and held.frame_bytes != kept_bytes:
            held.frame_bytes = kept_bytes
            self._note(key, held)

    def note_requests(self, key: _Key, held_bytes: int) -> None:
        """Notes what a connection holds of requests that wait or run now."""
        held = self._of(key, held_bytes)
        if held is not None and held.request_bytes != held_bytes:
            held.request_bytes = held_bytes
            self._note(key, held)

    def forget(self, key: _Key) -> None:
        """Forgets a connection that is gone."""
        held = self._held.pop(key, None)
        if held is not None:
            self._leave(key, held)

    def most(self, count: int) -> list[UserHold]:
        """Returns so many users who hold most, then of those with most connections."""
        rows = [
            UserHold(user, connections, part.held_bytes, len(part.paused))
            for user, connections in self._connections.items()
            for part in (self._parts[user],)
        ]
        rows.sort(key=lambda row: (-row.held_bytes, -row.connections, row.user))
        return rows[:count]

    def _of(self, key: _Key, size: int) -> _Held | None:
        """Returns the row of a connection; one that holds nothing needs none."""
        held = self._held.get(key)
        if held is None and size:
            held = self._held[key] = _Held()
        return held

    def _note(self, key: _Key, held: _Held) -> None:
        if not held.user:
            return
        part = self._parts.get(held.user)
        if part is None:
            part = self._parts[held.user] = FramePart(_NO_BOUND, self._paused, self._resume)
        part.limit_bytes = self.bytes_max() or _NO_BOUND
        part.note(key, held.frame_bytes + held.request_bytes, 0)

    def _paused(self, key: _Key) -> None:
        self.paused_count += 1
        self._pause(key)

    def _leave(self, key: _Key, held: _Held) -> None:
        """Takes a connection from its user, if it has one."""
        user, held.user = held.user, ""
        if not user:
            return
        part = self._parts[user]
        if key in part.paused:
            self._resume(key)
        part.forget(key)
        left = self._connections[user] - 1
        if left:
            self._connections[user] = left
        else:
            del self._connections[user], self._parts[user]
