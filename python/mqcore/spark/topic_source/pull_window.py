"""Which pulls of one range are under way, and what their answers mean for the next ones.

How many messages an answer brings is the broker's affair (32 by default with official ones), and
the next pull needs to know. So the window guesses from the answers before; a guess that was wrong
costs the pulls behind it. Pure: knows no socket and no time.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

__all__ = ["Ask", "PullWindow"]

# Full answers before a longer one is asked for.
_FULL_BEFORE_GROWTH: Final = 16
# Messages that may be under way beyond two pulls: more hides no way there and back.
_AHEAD_ROWS: Final = 512
# Below the rows of an answer that ended at its bytes: the next one is about as long, not exactly.
_MARGIN: Final = 16


@dataclass(frozen=True, slots=True)
class Ask:
    """One pull.

    Attributes:
        offset: First offset.
        count: Messages at the most.
    """

    offset: int
    count: int


class PullWindow:
    """The pulls of one range.

    Attributes:
        position: The next offset that is not answered yet.
        end: Where the range ends.
    """

    def __init__(self, start: int, end: int, *, count_max: int, depth: int) -> None:
        """Begins at a start.

        Args:
            start: First offset.
            end: Offset behind the last one.
            count_max: Messages of one pull at the most.
            depth: Pulls under way at the most; 1 where answers skip messages.
        """
        self.position = start
        self.end = end
        self._count_max = count_max
        self._depth = depth
        self._step = count_max
        self._is_known = False
        self._full = 0
        self._asked: deque[Ask] = deque()

    @property
    def is_done(self) -> bool:
        """Whether everything was answered."""
        return self.position >= self.end

    @property
    def head(self) -> Ask | None:
        """The pull whose answer comes next in order."""
        return self._asked[0] if self._asked else None

    def next_asks(self) -> list[Ask]:
        """Returns the pulls to send now; they count as sent."""
        found: list[Ask] = []
        # One alone, until it is known how long answers are; two of those that are long.
        depth = min(self._depth, max(2, _AHEAD_ROWS // self._step)) if self._is_known else 1
        last = self._asked[-1] if self._asked else None
        offset = self.position if last is None else last.offset + last.count
        while len(self._asked) < depth and offset < self.end:
            ask = Ask(offset, min(self._step, self.end - offset))
            self._asked.append(ask)
            found.append(ask)
            offset += ask.count
        return found

    def answered(self, next_offset: int) -> bool:
        """Takes the answer to the head; returns whether the pulls behind it still fit.

        Args:
            next_offset: Where the broker lets the queue go on, above the position.

        Returns:
            False where those under way were dropped: their answers mean nothing.
        """
        ask = self._asked.popleft()
        count = next_offset - ask.offset
        self.position = next_offset
        self._learn(ask, count)
        if not self._asked or self._asked[0].offset == next_offset:
            return True
        self.drop()
        return False

    def drop(self) -> None:
        """Forgets the pulls under way: the connection is gone, or they do not fit."""
        self._asked.clear()

    def move(self, offset: int) -> None:
        """Goes on elsewhere."""
        self.drop()
        self.position = offset

    def _learn(self, ask: Ask, count: int) -> None:
        self._is_known = True
        if count < ask.count:
            self._full = 0
            self._step = max(1, count - count // _MARGIN if count >= 2 * _MARGIN else count)
            # What official brokers give is a round number, and exact.
            if count in (32, 64):
                self._step = count
            return
        self._full += 1
        if self._full >= _FULL_BEFORE_GROWTH and self._step < self._count_max:
            self._full = 0
            self._step = min(self._count_max, self._step * 2)
