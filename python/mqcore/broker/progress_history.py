"""What a broker has written down of its own progress, with the end of the log it rests on.

Under a controller a log may be cut, and goes on with another master's bytes. Where that takes what
was delivered, a file that counts it as delivered is no more true: who is elected with it would
never deliver it. So the file has some states before its own, too, under a key that RocketMQ does
not read, and whoever reads it takes the newest state whose log ours goes on with. Pure.
"""

from collections.abc import Callable, Mapping
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from mqcore.model.reading import INT, as_dict, as_int, as_list

__all__ = ["KEY", "STATES_MAX", "EpochsOfLog", "LogEnd", "ProgressHistory", "gone_back"]

# Of the file's object; official brokers leave it out when they write the file.
KEY: Final = "mqcoreHistory"
# States of one file: with the distances between them growing, the oldest is far enough back for a
# replica that was behind for long.
STATES_MAX: Final = 16
# Of a byte that was written before there was a controller.
_NO_EPOCH: Final = -1

T = TypeVar("T")


class EpochsOfLog(Protocol):
    """Which master has written which part of a log (`ReplicationEpochs`)."""

    def epoch_before(self, offset: int) -> int:
        """Returns the epoch of the byte before a physical offset."""
        ...

    def has(self, epoch: int, offset: int) -> bool:
        """Returns whether the log has what a log had that ended at an offset."""
        ...


class LogEnd(NamedTuple):
    """Where a log ended.

    Attributes:
        epoch: The epoch of its last byte; -1 where it has none.
        offset: The physical offset of its end.
    """

    epoch: int
    offset: int


class ProgressHistory(Generic[T]):
    """States of one file, oldest first; the last is the file's own. Each is a value of JSON."""

    def __init__(self) -> None:
        """Begins without a state: what the file has counts as it is."""
        self._states: list[tuple[LogEnd, T]] = []

    def load(self, found: Mapping[str, object], read: Callable[[object], T]) -> None:
        """Takes the states of a file.

        Args:
            found: The object of the file.
            read: Takes a state from its JSON value.
        """
        self._states = []
        for each in as_list(found.get(KEY)):
            row = as_dict(each)
            epoch = as_int(row.get("epoch"), _NO_EPOCH, bits=INT)
            end = LogEnd(epoch, max(0, as_int(row.get("end"))))
            self._states.append((end, read(row.get("state"))))

    @property
    def newest(self) -> tuple[LogEnd, T] | None:
        """The newest state, and what it rests on."""
        return self._states[-1] if self._states else None

    def add(self, epochs: EpochsOfLog, offset: int, state: T) -> None:
        """Adds a state; one that the log has left, or that is no earlier, goes.

        Args:
            epochs: Those of the log.
            offset: The end of the log that it rests on.
            state: The state.
        """
        self._states = [
            (end, known) for end, known in self._states if end.offset < offset and epochs.has(*end)
        ]
        self._states.append((LogEnd(epochs.epoch_before(offset), offset), state))
        if len(self._states) > STATES_MAX:
            del self._states[self._most_crowded(offset)]

    def _most_crowded(self, offset: int) -> int:
        """Returns which state has the closest neighbours, by how far back they are."""
        back = [offset - end.offset + 1 for end, _ in self._states]
        return min(range(1, len(back) - 1), key=lambda at: back[at - 1] / back[at + 1])

    def go_back(self, epochs: EpochsOfLog) -> LogEnd | None:
        """Forgets the newest states as far as the log has not got all that they rest on.

        Returns:
            What the file's own state rests on, where that is one of them; None where it holds.
        """
        left = None
        while self._states and not epochs.has(*self._states[-1][0]):
            end, _ = self._states.pop()
            left = left or end
        return left

    def to_json(self) -> dict[str, object]:
        """Returns what the object of the file has of it; nothing without a state."""
        rows = [
            {"epoch": end.epoch, "end": end.offset, "state": state} for end, state in self._states
        ]
        return {KEY: rows} if rows else {}


def gone_back(left: LogEnd, newest: tuple[LogEnd, object] | None) -> str:
    """Returns in words where a file goes back to, and why.

    Args:
        left: What its own state rests on.
        newest: The state that it goes back to, and what that rests on; None for the beginning.
    """
    where = "the beginning" if newest is None else f"the log up to {newest[0].offset}"
    return (
        f"rests on a log up to {left.offset}, of epoch {left.epoch}, and ours was cut before it: "
        f"it goes back to {where}, what came after that is done again"
    )
