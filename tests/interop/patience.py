"""Waiting for what another process does sooner or later: asked again until it is so.

Knows nothing of brokers.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")

# Far beyond what a busy machine needs, below the limit of a test.
PATIENCE_S = 90.0
_PAUSE_S = 0.05


def eventually(
    look: Callable[[], Seen], is_so: Callable[[Seen], bool], *, patience_s: float = PATIENCE_S
) -> Seen:
    """Returns what `look` gives once `is_so`, or what it gave last when patience ends."""
    deadline = time.monotonic() + patience_s
    pause = threading.Event()
    while True:
        seen = look()
        if is_so(seen) or time.monotonic() > deadline:
            return seen
        pause.wait(_PAUSE_S)
