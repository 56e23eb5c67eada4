"""Sends that come again are stored once: what the settings ask of the lane, and its figures.

What counts as the same message, and how it is found, is the lane's (`rust/lane/src/repeats`).
"""

import logging
from collections.abc import Mapping
from typing import NamedTuple, Self

from mqcore.clock import monotonic_ms
from mqcore.config import BrokerSettings
from mqcore.native import Lane

_log = logging.getLogger("mqcore.broker")

_MS_PER_MINUTE = 60_000


class Deduplication(NamedTuple):
    """The window in numbers.

    Attributes:
        repeats: Sends answered with the place of an earlier one, since the start.
        told_apart: Sends with the key of an earlier one that were stored all the same.
        keys: Messages that are remembered.
        displaced: Messages forgotten before their time, since the start: the memory was full.
        window_ms: How far back the window reaches now.
    """

    repeats: int
    told_apart: int
    keys: int
    displaced: int
    window_ms: int

    @classmethod
    def of(cls, lane: Mapping[str, int]) -> Self | None:
        """Returns the window by the figures of the lane; None without one."""
        if "repeat_keys" not in lane:
            return None
        return cls(
            repeats=lane["repeats"],
            told_apart=lane["repeats_told_apart"],
            keys=lane["repeat_keys"],
            displaced=lane["repeat_keys_displaced"],
            window_ms=lane["repeat_window_ms"],
        )


def remember_sends(settings: BrokerSettings, lane: Lane) -> None:
    """Opens the window, where the settings want one: reads the end of the log. Any thread.

    Raises:
        StoreError: The log cannot be read.
    """
    if not settings.deduplication_minutes:
        return
    began_ms = monotonic_ms()
    length_ms = settings.deduplication_minutes * _MS_PER_MINUTE
    memory_bytes = settings.deduplication_memory_mib << 20
    remembered = lane.remember(length_ms, memory_bytes)
    _log.info(
        "sends of %d minutes are remembered: %d keys of %d messages, %d bytes of the log, in %d ms",
        settings.deduplication_minutes,
        remembered.keys,
        remembered.records,
        remembered.end - remembered.start,
        monotonic_ms() - began_ms,
    )


def runtime_rows(lane: Mapping[str, int]) -> dict[str, str]:
    """Returns what the runtime table says of it, nothing without a window."""
    window = Deduplication.of(lane)
    if window is None:
        return {}
    return {
        "deduplicationRepeats": str(window.repeats),
        "deduplicationToldApart": str(window.told_apart),
        "deduplicationKeys": str(window.keys),
        "deduplicationDisplaced": str(window.displaced),
        "deduplicationWindowMs": str(window.window_ms),
    }
