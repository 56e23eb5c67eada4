"""Reads the time: the only place in Python that asks the machine for it.

State machines take the time as an argument; those who drive them take a reader from here, or a
twin in a test.
"""

import time

__all__ = ["monotonic_ms", "monotonic_s", "wall_ms"]


def monotonic_ms() -> int:
    """Returns the time since some moment in the past; it never steps back."""
    return time.monotonic_ns() // 1_000_000


def monotonic_s() -> float:
    """Returns the same in seconds, as fine as the machine measures it."""
    return time.monotonic()


def wall_ms() -> int:
    """Returns the time since 1970 as the machine's clock has it; it may step either way."""
    return time.time_ns() // 1_000_000
