"""When a process gives memory back that it has freed.

The allocator gives back what is free at the ends of its arenas; what a busy moment took in their
middle stays, a little more each time. Knows no program.
"""

from collections.abc import Callable
from typing import Final

from mqcore.native import give_memory_back
from mqcore.occupancy.process import anonymous_bytes

__all__ = ["GivingBack"]

# A process that has grown by less is left alone: giving back holds the locks of the allocator for
# some milliseconds in 100 MiB, and what is used again has to be taken anew.
_GROWN_BYTES: Final = 4 << 20
# The same of a large one, as a part of what it had.
_GROWN_PART: Final = 8
# What is in use now may be free at the next look, or at a later one: after so many at the most.
_LOOKS_MAX: Final = 64


class GivingBack:
    """Looks now and then whether the process has grown, and has it give back what is free."""

    def __init__(
        self,
        anonymous: Callable[[], int] = anonymous_bytes,
        give_back: Callable[[], object] = give_memory_back,
    ) -> None:
        """Takes the bytes of anonymous memory there are, and what gives back."""
        self._anonymous = anonymous
        self._give_back = give_back
        # The least that it had.
        self._least: int | None = None
        # Looks until the next that may give back, and how many the pause before had.
        self._left = self._pause = 0

    def look(self) -> bool:
        """Returns whether it had grown, and gave back.

        Blocks for some milliseconds then; for any thread, one at a time.
        """
        if not self._has_grown():
            self._left = self._pause = 0
            return False
        if self._left:
            self._left -= 1
            return False
        self._give_back()
        # What is left is in use, and most of it may be for good.
        self._pause = min(2 * self._pause + 1, _LOOKS_MAX) if self._has_grown() else 0
        self._left = self._pause
        return True

    def _has_grown(self) -> bool:
        now = self._anonymous()
        self._least = now if self._least is None else min(self._least, now)
        return now - self._least > max(_GROWN_BYTES, self._least // _GROWN_PART)
