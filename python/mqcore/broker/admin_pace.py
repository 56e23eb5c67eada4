"""How many changes one user may make a second: more wait, and are refused when that takes too long.

A change costs a write of a file and a registration with name servers: a tool that loops must not
take what clients need. Users are those of signatures; without access control nobody is bounded.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from mqcore.clock import monotonic_s
from mqcore.errors import RefusedError
from mqcore.remoting import Answer, Handler, Request, ResponseCode

__all__ = ["AdminPace", "paced"]

# A second's worth goes at once after a pause.
_BURST_S: Final = 1.0
# Below what any tool waits for an answer; as quotas hold back sends.
_HELD_S_MAX: Final = 0.5
# Users that have changed something lately; beyond it those are forgotten that may go at once.
_USERS_MAX: Final = 10_000


class AdminPace:
    """Gives when a user may make its next change. Pure but for the clock.

    Attributes:
        held: Changes that had to wait.
        refused: Changes that were refused.
    """

    def __init__(self, clock: Callable[[], float] = monotonic_s) -> None:
        """Takes seconds that never step back."""
        self.held = 0
        self.refused = 0
        self._clock = clock
        # When each user has its whole second again.
        self._full_at_s: dict[str, float] = {}

    def wait_s(self, user: str, per_second: int) -> float:
        """Returns how long a change has to wait, and takes its place.

        Raises:
            RefusedError: It would have to wait too long.
        """
        if not user or per_second <= 0:
            return 0.0
        now_s, cost_s = self._clock(), 1 / per_second
        full_at_s = max(self._full_at_s.get(user, now_s), now_s)
        wait_s = max(0.0, full_at_s + cost_s - _BURST_S - now_s)
        if wait_s > _HELD_S_MAX:
            self.refused += 1
            raise RefusedError(
                f"[QUOTA]User:{user} makes more changes than mqcoreAdminChangesPerSecond="
                f"{per_second}: try again in {wait_s:.1f} s",
                code=ResponseCode.SYSTEM_BUSY,
            )
        if len(self._full_at_s) >= _USERS_MAX:
            self._full_at_s = {u: at_s for u, at_s in self._full_at_s.items() if at_s > now_s}
        self._full_at_s[user] = full_at_s + cost_s
        self.held += int(wait_s > 0)
        return wait_s


def paced(handler: Handler, pace: AdminPace, per_second: Callable[[], int]) -> Handler:
    """Returns a handler of changes that go no faster than they may."""

    async def later(request: Request, wait_s: float) -> Answer:
        await asyncio.sleep(wait_s)
        answer = handler(request)
        return await answer if isinstance(answer, Awaitable) else answer

    def serve(request: Request) -> Answer | Awaitable[Answer]:
        wait_s = pace.wait_s(request.user, per_second())
        return later(request, wait_s) if wait_s > 0 else handler(request)

    return serve
