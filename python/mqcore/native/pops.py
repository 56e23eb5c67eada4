"""Ordered pops and rounds over check points, as the lane's methods take and give them.

Values only; the work is the lane's (`Lane.revive`).
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

__all__ = ["OrderRow", "Revived", "RevivedRow"]

# `Revived` as the extension gives it.
RevivedRow: TypeAlias = tuple[int, int, int, int, int, int, bool, tuple[str, str] | None, int]


@dataclass(frozen=True, slots=True)
class Revived:
    """What a call of `Lane.revive` did.

    Attributes:
        done_offset: The last offset of the queue that is done; -1 for none.
        read: Records read.
        revived: Messages stored for another try.
        acknowledged: Check points whose messages were all acknowledged.
        skipped: What was passed over: gone, or of topics and groups that are gone.
        waiting: Check points that are not due.
        has_more: Whether the round goes on with another call.
        needs: The retry topic that has to be made first, and its group.
        end: End of the last message stored; 0 for none. Write the offset down only when the log is
            flushed up to it.
    """

    done_offset: int
    read: int
    revived: int
    acknowledged: int
    skipped: int
    waiting: int
    has_more: bool
    needs: tuple[str, str] | None
    end: int


class OrderRow(NamedTuple):
    """What a group popped last from a queue, in order.

    Attributes:
        key: The official key, `topic@group`.
        queue_id: The queue.
        pop_time_ms: When, Unix ms.
        invisible_ms: For how long.
        offsets: The queue offsets, ascending.
        visible_ms: When a message is visible again, where that was changed, by its offset.
        counts: How often a message was given before, by its offset.
        last_ms: When the queue was popped from last, Unix ms.
        bits: Which messages are acknowledged, by their places in `offsets`.
        attempt: The attempt that may repeat the pop.
    """

    key: str
    queue_id: int
    pop_time_ms: int
    invisible_ms: int
    offsets: list[int]
    visible_ms: dict[int, int]
    counts: dict[int, int]
    last_ms: int
    bits: int
    attempt: str | None
