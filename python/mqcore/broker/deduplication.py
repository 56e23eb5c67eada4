"""Sends that come again are stored once: what the settings ask of the fast path, and its figures.

What counts as the same message, and how it is found, is the fast path's
(`rust/fast_path/src/repeats`).
"""

import logging
from collections.abc import Mapping
from typing import NamedTuple, Self

from mqcore.clock import monotonic_ms
from mqcore.config import BrokerSettings
from mqcore.native import FastPath

_log = logging.getLogger("mqcore.broker")

_MS_PER_MINUTE = 60_000


class Deduplication(NamedTuple):
    """The window in numbers.

    Attributes:
        repeats: Sends answered with the result of an earlier one, since the start.
        distinguished: Sends with the key of an earlier one that were stored all the same.
        keys: Messages that are remembered.
        displaced: Messages forgotten before their time, since the start: the memory was full.
        window_ms: How far back the window reaches now.
    """

    repeats: int
    distinguished: int
    keys: int
    displaced: int
    window_ms: int

    @classmethod
    def of(cls, fast_path: Mapping[str, int]) -> Self | None:
        """Returns the window by the figures of the fast path; None without one."""
        if "repeat_keys" not in fast_path:
            return None
        return cls(
            repeats=fast_path["repeats"],
            distinguished=fast_path["repeats_told_apart"],
            keys=fast_path["repeat_keys"],
            displaced=fast_path["repeat_keys_displaced"],
            window_ms=fast_path["repeat_window_ms"],
        )


def remember_sends(settings: BrokerSettings, fast_path: FastPath) -> None:
    """Opens the window, where the settings want one: reads the end of the log. Any thread.

    Raises:
        StoreError: The log cannot be read.
    """
    if not settings.deduplication_minutes:
        return
    began_ms = monotonic_ms()
    length_ms = settings.deduplication_minutes * _MS_PER_MINUTE
    memory_bytes = settings.deduplication_memory_mib << 20
    remembered = fast_path.remember(length_ms, memory_bytes)
    _log.info(
        "sends of %d minutes are remembered: %d keys of %d messages, %d bytes of the log, in %d ms",
        settings.deduplication_minutes,
        remembered.keys,
        remembered.records,
        remembered.end - remembered.start,
        monotonic_ms() - began_ms,
    )


def runtime_rows(fast_path: Mapping[str, int]) -> dict[str, str]:
    """Returns its rows of the runtime table, nothing without a window."""
    window = Deduplication.of(fast_path)
    if window is None:
        return {}
    return {
        "deduplicationRepeats": str(window.repeats),
        "deduplicationToldApart": str(window.distinguished),
        "deduplicationKeys": str(window.keys),
        "deduplicationDisplaced": str(window.displaced),
        "deduplicationWindowMs": str(window.window_ms),
    }
