"""What the check of half messages goes by. Values alone; the work is that of `HalfMessages`."""

from typing import NamedTuple

__all__ = ["CheckRules"]


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
