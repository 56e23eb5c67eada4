"""The round that closes connections: those idle, those that never finish a frame, strangers."""

import asyncio

from mqcore.periodic import PeriodicTask
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
        self._task = PeriodicTask("close idle connections", self._round, period_s=self._pause_s)

    def start(self) -> None:
        """Begins, on the running loop; does nothing when it has begun."""
        self._task.start()

    async def stop(self) -> None:
        """Ends."""
        await self._task.stop()

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
        first_s = self._hub.first_request_s()
        for link in links if first_s > 0 else ():
            if not link.has_asked and now_s - self._hub.links.get(link, now_s) >= first_s:
                self._hub.refuse(
                    "no_good_request",
                    "%s: no good request came within %g s, closing",
                    link.peer,
                    first_s,
                )
                link.abort()
        for link in self._idle.look(now_s, ((link, link.traffic()) for link in links)):
            self._hub.notify("idle", link)
            # Not gently: a peer that does not read would keep the last bytes, and us, for ever.
            link.abort()

    def _pause_s(self) -> float:
        limits = self._hub.limits
        first_s = self._hub.first_request_s() or limits.idle_s
        return min(limits.idle_s, limits.frame_s, first_s) / _ROUNDS

    def _round(self) -> None:
        self.look(asyncio.get_running_loop().time())
