"""SIGTERM and SIGINT as a request to end: taken while a consumer waits, given back afterwards.

Only the main thread can take signals; elsewhere they stay as they are. Several consumers may wait
at once: a signal ends all of them. Knows no consumer.
"""

import asyncio
import functools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

__all__ = ["stop_at_signals"]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

# Belong to the main thread: who wants to hear of a signal, and what served each one before.
_stops: dict[object, Callable[[], object]] = {}
_before: dict[int, Any] = {}
_seen: set[int] = set()


@contextmanager
def stop_at_signals(stop: Callable[[], object], *, takes_all: bool) -> Iterator[None]:
    """Calls `stop` at SIGTERM and SIGINT, for the time of a `with`; does nothing in other threads.

    A signal that is ignored stays so. A second SIGINT does what it did before: it interrupts.

    Args:
        stop: What is called, in the signal handler: it must not wait.
        takes_all: Whether signals are taken too that the application serves itself.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    key = object()
    try:
        _stops[key] = stop
        _take(takes_all=takes_all)
        yield
    finally:
        _stops.pop(key, None)
        if not _stops:
            _give_back()


def _take(*, takes_all: bool) -> None:
    for number in _SIGNALS:
        served_by = signal.getsignal(number)
        # None is a handler that Python did not set, and cannot set again.
        if served_by in (None, signal.SIG_IGN, _on_signal):
            continue
        if takes_all or _is_default(served_by):
            _before[number] = served_by
            signal.signal(number, _on_signal)


def _give_back() -> None:
    for number, served_by in _before.items():
        if signal.getsignal(number) is _on_signal:
            signal.signal(number, served_by)
    _before.clear()
    _seen.clear()


def _is_default(served_by: Any) -> bool:
    """Returns whether a handler is Python's own, that of `asyncio.run` included."""
    if served_by in (signal.SIG_DFL, signal.default_int_handler):
        return True
    is_partial = isinstance(served_by, functools.partial)
    return is_partial and isinstance(getattr(served_by.func, "__self__", None), asyncio.Runner)


def _on_signal(number: int, frame: FrameType | None) -> None:
    before = _before.get(number)
    if number == signal.SIGINT and number in _seen and callable(before):
        # Whoever asks twice does not want to wait for handlers.
        before(number, frame)
        return
    _seen.add(number)
    for stop in list(_stops.values()):
        stop()
