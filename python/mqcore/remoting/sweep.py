"""The round that closes connections which are idle, or which never finish a frame."""

import asyncio

from mqcore.remoting.hub import Hub
from mqcore.remoting.idle import IdleTable
from mqcore.remoting.link import Link

__all__ = ["Sweep"]

# Rounds per idle time: an idle connection is closed at most an eighth of the time late.
_ROUNDS = 8


class Sweep:
    """Looks at the connections of a hub again and again, until it is stopped."""

    def __init__(self, hub: Hub) -> None:
        """Prepares; `start` begins."""
        self._hub = hub
        self._idle: IdleTable[Link] = IdleTable(hub.limits.idle_s)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begins, on the running loop."""
        if self._timer is None:
            self._arm()

    def stop(self) -> None:
        """Ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def silent_s(self, link: Link, now_s: float) -> float:
        """Returns for how long a connection has moved no byte at the least."""
        return self._idle.silent_s(link, link.traffic(), now_s)

    def look(self, now_s: float) -> None:
        """Makes one round.

        Args:
            now_s: The loop's time.
        """
        links = list(self._hub.links)
        for link in links:
            if link.frame_age_s(now_s) >= self._hub.limits.frame_s:
                self._hub.refuse(
                    "slow_frame",
                    "%s: a frame was not complete after %g s, closing",
                    link.peer,
                    self._hub.limits.frame_s,
                )
                link.abort()
        for link in self._idle.look(now_s, ((link, link.traffic()) for link in links)):
            self._hub.notify("idle", link)
            # Not gently: a peer that does not read would keep the last bytes, and us, for ever.
            link.abort()

    def _arm(self) -> None:
        limits = self._hub.limits
        pause_s = min(limits.idle_s, limits.frame_s) / _ROUNDS
        self._timer = asyncio.get_running_loop().call_later(pause_s, self._round)

    def _round(self) -> None:
        self.look(asyncio.get_running_loop().time())
        self._arm()
