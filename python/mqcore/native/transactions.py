"""What the check of half messages goes by and what it did, as the lane's methods take and give it.

Values only; the work is the lane's (`Lane.check_halves`, `Lane.transactions`).
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

__all__ = [
    "CheckQuestion",
    "CheckRules",
    "CheckedHalves",
    "CheckedRow",
    "HalfPlace",
    "TransactionCount",
]

# Queue, its offset, and that of its notes.
HalfPlace: TypeAlias = tuple[int, int, int]
# `CheckQuestion` and `CheckedHalves` as the extension gives them.
QuestionRow: TypeAlias = tuple[str, str | None, str, int, int, bytes]
CheckedRow: TypeAlias = tuple[int, int, int, list[QuestionRow], int, int, bool, bool, int]


class CheckRules(NamedTuple):
    """What a round over the half messages goes by.

    Attributes:
        now_ms: The time now, Unix ms.
        timeout_ms: Age from which on a half message is asked about.
        check_max: How often it is before it is given up.
        age_max_ms: Age from which on it is given up whatever was asked.
        can_give_up: Whether the topic for what is given up is there.
        limit: Half messages stored anew or given up at the most.
    """

    now_ms: int
    timeout_ms: int
    check_max: int
    age_max_ms: int
    can_give_up: bool
    limit: int = 1_024


class CheckQuestion(NamedTuple):
    """What to ask the producers of a half message.

    Attributes:
        group: Their group.
        unique_id: The id that the producer gave.
        offset_id: The id of the half message's newest copy.
        half_offset: Its offset in the half queue.
        physical_offset: Its place in the log.
        record: The message as its producers read it.
    """

    group: str
    unique_id: str | None
    offset_id: str
    half_offset: int
    physical_offset: int
    record: bytes


@dataclass(frozen=True, slots=True)
class CheckedHalves:
    """What `check_halves` did.

    Attributes:
        half_offset: Where the half queue goes on.
        note_offset: Where the queue of notes goes on.
        until: Where the half queue ended when the round began: for the next call of the round.
        questions: What to ask whom.
        copied: Half messages stored anew.
        given_up: Half messages given up.
        has_more: Whether the round goes on with another call.
        needs_topic: Whether it cannot go on before the topic for what is given up is there.
        end: End of what was stored in the log: write both offsets down only when the log is
            flushed up to it. 0 when nothing was.
    """

    half_offset: int
    note_offset: int
    until: int
    questions: list[CheckQuestion]
    copied: int
    given_up: int
    has_more: bool
    needs_topic: bool
    end: int


class TransactionCount(NamedTuple):
    """The transactions of one topic.

    Attributes:
        topic: The topic that the messages are meant for.
        waiting: Half messages that are neither ended nor given up.
        committed: Committed since the start.
        rolled_back: Rolled back since the start.
        given_up: Given up since the start.
    """

    topic: str
    waiting: int
    committed: int
    rolled_back: int
    given_up: int
