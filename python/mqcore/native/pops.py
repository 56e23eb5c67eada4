"""What pops go by and what a round over check points did, as the lane's methods take and give it.

Values only; the work is the lane's (`Lane.revive`).
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

__all__ = ["OrderRow", "PopPolicy", "Revived", "RevivedRow"]

# `Revived` as the extension gives it.
RevivedRow: TypeAlias = tuple[int, int, int, int, int, int, bool, tuple[str, str] | None, int]


class PopPolicy(NamedTuple):
    """What is decided about pops.

    Attributes:
        revive_queues: Queues of the topic of check points.
        has_buffer: Keep pops in memory first: what is acknowledged soon is never stored.
        stay_ms: How long they are kept.
        stored_before_ms: How long before its messages come back a pop is stored at the latest.
        kept_max: Pops kept at the most.
        kept_per_queue_max: The same per queue.
        in_flight_max: Messages of a queue that a group may have and not acknowledge before it gets
            no more of it; None for any number.
        retry_first_percent: How often in a hundred a pop looks at the retry topic first.
        has_retry_v2: Messages come back in retry topics of the second kind, `%RETRY%group+topic`.
        reads_retry_v1: Those of the first kind, `%RETRY%group_topic`, are read all the same.
        begins_in_memory: A new group that begins at the end gets all of a queue that is young.
        names_retry_topic: Answers name the retry topic, not the one that was asked for.
        held_per_line: Pops held per topic, group and queue.
        held_max: Pops held at all.
    """

    revive_queues: int = 8
    has_buffer: bool = True
    stay_ms: int = 10_000
    stored_before_ms: int = 3_000
    kept_max: int = 200_000
    kept_per_queue_max: int = 20_000
    in_flight_max: int | None = None
    retry_first_percent: int = 20
    has_retry_v2: bool = False
    reads_retry_v1: bool = True
    begins_in_memory: bool = True
    names_retry_topic: bool = False
    held_per_line: int = 1_024
    held_max: int = 100_000


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
