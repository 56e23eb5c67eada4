"""Who may come when there are as many connections as may be: the newest idle ones go first.

All listeners of a server share it. A connection that has sent nothing goes before one that has, and
one that has is idle only when it has been silent for longer than any client that lives.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import TypeAlias

from mqcore.remoting.hub import Hub
from mqcore.remoting.link import Link
from mqcore.remoting.sweep import Sweep
from mqcore.remoting.throttle import Throttle

__all__ = ["Crowd"]

# Since when, and what gives it up.
Awaited: TypeAlias = tuple[float, Callable[[socket.socket], None]]

_log = logging.getLogger(__name__)

# Lines about addresses that have too many.
_LINES_MAX = 1
_LINES_INTERVAL_S = 60.0

# All connections are looked through at most this often, whatever comes: 20,000 take some ms.
_LOOK_PAUSE_S = 0.1


class Crowd:
    """The connections of a server, and those that wait to become one.

    Attributes:
        hub: What the connections share.
        awaited: Sockets whose first byte is awaited: since when, and what gives one up.
        handshakes: Connections that are being made.
    """

    def __init__(self, hub: Hub, sweep: Sweep) -> None:
        """Takes the connections, and who knows how long they have been silent."""
        self.hub = hub
        self.awaited: dict[socket.socket, Awaited] = {}
        self.handshakes = 0
        self._sweep = sweep
        self._lines = Throttle(_LINES_MAX, _LINES_INTERVAL_S)
        self._looked_s = float("-inf")
        # Those that may go, the first of them last.
        self._idle: list[socket.socket | Link] = []

    def __len__(self) -> int:
        """Returns how many there are."""
        return len(self.hub.links) + len(self.awaited) + self.handshakes

    def admits(self, arrival: socket.socket) -> bool:
        """Returns whether a connection may come; closes an idle one for it where possible."""
        limits = self.hub.limits
        is_full = len(self) >= limits.connections_max
        # The system gives the smallest number that is free: all below are taken.
        is_short = arrival.fileno() >= limits.descriptors_max
        return not (is_full or is_short) or self._close_idle(asyncio.get_running_loop().time())

    def admits_from(self, key: str) -> bool:
        """Returns whether an address may have one more; logs once a minute that one may not."""
        most = self.hub.per_address()
        if not key or most <= 0 or self.hub.addresses.of(key) < most:
            return True
        reason = "per_address"
        self.hub.refusals[reason] = self.hub.refusals.get(reason, 0) + 1
        if self._lines.allows(asyncio.get_running_loop().time()):
            _log.warning(
                "%s has %d connections already (mqcoreConnectionsPerAddress), closing one more; "
                "%d such lines left out",
                key,
                most,
                self._lines.left_out(),
            )
        return False

    def _close_idle(self, now_s: float) -> bool:
        """Closes the first that may go; returns whether there was one."""
        if not self._idle and now_s - self._looked_s >= _LOOK_PAUSE_S:
            self._looked_s = now_s
            self._idle = self._look(now_s)
        while self._idle:
            gone = self._idle.pop()
            if isinstance(gone, socket.socket):
                waited = self.awaited.get(gone)
                if waited is not None:
                    self._refuse("a connection that has sent nothing")
                    waited[1](gone)
                    return True
            elif gone in self.hub.links and self._is_idle(gone, now_s):
                self._refuse(gone.peer)
                gone.abort()
                return True
        return False

    def _refuse(self, who: str) -> None:
        self.hub.refuse("made_room", "%s was idle and is closed: another one comes", who)

    def _look(self, now_s: float) -> list[socket.socket | Link]:
        """Returns all that may go, the first of them last."""
        unused_s = self.hub.limits.unused_s
        links = [link for link in self.hub.links if self._is_idle(link, now_s)]
        asked = [link for link in links if link.has_asked]
        unused = [link for link in links if not link.has_asked]
        waited = [key for key, (since_s, _) in self.awaited.items() if now_s - since_s >= unused_s]
        return [*asked, *unused, *waited]

    def _is_idle(self, link: Link, now_s: float) -> bool:
        limits = self.hub.limits
        if link.has_asked:
            return not link.in_flight and self._sweep.silent_s(link, now_s) >= limits.silent_s
        return now_s - self.hub.links[link] >= limits.unused_s
