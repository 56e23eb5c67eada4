"""Finds connections that moved no byte for too long; a pure state machine over passed-in time."""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

__all__ = ["IdleTable"]

_Key = TypeVar("_Key", bound=Hashable)


class IdleTable(Generic[_Key]):
    """What each connection had moved at the last look, and since when."""

    def __init__(self, idle_s: float) -> None:
        """Takes the time without traffic after which a connection is idle."""
        self._idle_s = idle_s
        self._seen: dict[_Key, tuple[int, float]] = {}

    def silent_s(self, key: _Key, moved: int, now_s: float) -> float:
        """Returns for how long a connection has moved nothing at the least, as the looks saw it."""
        before = self._seen.get(key)
        return now_s - before[1] if before is not None and before[0] == moved else 0.0

    def look(self, now_s: float, traffic: Iterable[tuple[_Key, int]]) -> list[_Key]:
        """Returns the connections that are idle, and forgets those that are gone.

        Args:
            now_s: The time, from any origin.
            traffic: Each connection that is there, with a number that differs whenever it moved
                a byte.
        """
        seen: dict[_Key, tuple[int, float]] = {}
        idle: list[_Key] = []
        for key, moved in traffic:
            before = self._seen.get(key)
            entry = before if before is not None and before[0] == moved else (moved, now_s)
            seen[key] = entry
            if now_s - entry[1] >= self._idle_s:
                idle.append(key)
        self._seen = seen
        return idle
