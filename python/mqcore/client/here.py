"""Where a call comes from: the event loop that runs in its thread, and whether the process forked.

Both are asked at every send, so the answer is at hand.
"""

import os

# What `asyncio.get_running_loop` is made of: that one raises where there is no loop, and costs ten
# times as much then. Event loops are written against this name.
from asyncio import _get_running_loop as current_loop
from typing import Protocol
from weakref import WeakSet

__all__ = ["Opened", "close_in_forks", "current_loop"]


class Opened(Protocol):
    """What a forked child must not use.

    Attributes:
        is_open: Set to False in the child.
    """

    is_open: bool


_opened: "WeakSet[Opened]" = WeakSet()


def close_in_forks(opened: Opened) -> None:
    """Lets every child that is forked from now on find `opened` closed."""
    _opened.add(opened)


def _after_fork_in_child() -> None:
    for opened in list(_opened):
        opened.is_open = False


os.register_at_fork(after_in_child=_after_fork_in_child)
