"""What a handler may return for messages, and what it means: done, once more, never again.

Pure values. Delays are what brokers know: levels.
"""

from bisect import bisect_left
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

__all__ = [
    "BROKER_DECIDES",
    "DEAD_LETTER",
    "DONE",
    "Outcome",
    "Reject",
    "Retry",
    "outcome_of",
    "raised",
]

# Delay levels of a request to give a message back: the broker decides, and the dead-letter queue.
BROKER_DECIDES: Final = 0
DEAD_LETTER: Final = -1
# The official levels 1 to 18, in seconds (`messageDelayLevel`).
_LEVELS_S: Final = (
    *(1, 5, 10, 30),
    *(minutes * 60 for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    *(hours * 3600 for hours in (1, 2)),
)
_SHOWN_CHARS_MAX: Final = 80


class Retry(Exception):
    """Deliver the messages again; return or raise it.

    Args:
        delay: How long to wait, in seconds or as a `timedelta`; the next longer level of the broker
            is taken, two hours at the most. Without it the broker waits longer each time: 10 s,
            30 s, 1 min ... 2 h. An orderly consumer holds its queue for so long, 10 ms to 30 s, one
            second without it.
        why: For the log.
    """

    def __init__(self, delay: float | timedelta | None = None, why: str = "") -> None:
        """Takes the delay."""
        super().__init__(why or "retry")
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"a delay of {seconds} s: it must not be negative")
        self.delay_s = seconds

    @property
    def level(self) -> int:
        """The broker's level of delay."""
        if not self.delay_s:
            return BROKER_DECIDES
        return min(bisect_left(_LEVELS_S, self.delay_s) + 1, len(_LEVELS_S))


class Reject(Exception):
    """Put the messages into the dead-letter queue now; return or raise it.

    Args:
        why: For the log.
    """

    def __init__(self, why: str = "") -> None:
        """Takes the reason."""
        super().__init__(why or "reject")

    @property
    def level(self) -> int:
        """What a broker takes for the dead-letter queue."""
        return DEAD_LETTER


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a call of the handler.

    Attributes:
        is_done: Whether the messages need not come again.
        level: The broker's level of delay for those that do; -1 for the dead-letter queue.
        delay_s: The delay as it was asked for, in seconds; None where it was not.
        error: What the handler raised that is no answer.
        why: What to log; empty for what needs no line.
        is_null: Whether the handler answered with something that is no answer.
    """

    is_done: bool = True
    level: int = BROKER_DECIDES
    delay_s: float | None = None
    error: BaseException | None = None
    why: str = ""
    is_null: bool = False


DONE: Final = Outcome()
# The handler was not called: its consumer closes.
LEFT_OUT: Final = Outcome(is_done=False)
_AGAIN: Final = Outcome(is_done=False)


def outcome_of(value: Any) -> Outcome:
    """Returns what a handler's answer means.

    None and True: done. False and `Retry`: again. `Reject`: dead letter. Anything else is no
    answer: the messages come again, as after an exception.
    """
    if value is None or value is True:
        return DONE
    if value is False:
        return _AGAIN
    if isinstance(value, Retry | Reject):
        return raised(value)
    shown = repr(value)[:_SHOWN_CHARS_MAX]
    why = f"the handler returned {shown}: None, True, False, Retry() or Reject() are expected"
    return Outcome(is_done=False, why=why, is_null=True)


def raised(error: BaseException) -> Outcome:
    """Returns what an exception of a handler means."""
    if isinstance(error, Reject):
        return Outcome(is_done=False, level=DEAD_LETTER, why=str(error))
    if isinstance(error, Retry):
        return Outcome(is_done=False, level=error.level, delay_s=error.delay_s)
    return Outcome(is_done=False, error=error, why=f"{type(error).__name__}: {error}")
