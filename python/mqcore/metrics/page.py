"""The page `/metrics`: a snapshot as Prometheus's text, made in a thread. Knows no program."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Final

from mqcore.metrics.text import CONTENT_TYPE, SeriesBound, Snapshot, exposition
from mqcore.remoting.observatory import Page, Source

__all__ = ["metrics_page", "rest"]

_OK: Final = 200
# A thread that computes keeps the interpreter from the loop for five milliseconds at a time, unless
# it lets go by itself: so long is a rest, in which the loop runs as long as it has something to do.
_REST_S: Final = 0.000_05
_NEVER: Final = threading.Event()


def rest() -> None:
    """Lets other threads have the interpreter."""
    _NEVER.wait(_REST_S)


def metrics_page(gather: Callable[[], Awaitable[Snapshot]], series_max: int) -> Source:
    """Returns the page.

    Args:
        gather: Returns the figures of this moment.
        series_max: Series of a family at the most.
    """
    bound = SeriesBound(series_max)

    async def metrics() -> Page:
        found = await gather()
        text = await asyncio.to_thread(exposition, found, bound, rest)
        return Page(_OK, text, CONTENT_TYPE, found.bulk)

    return metrics
