"""Who hears how far a copy is."""

from collections.abc import Callable

__all__ = ["Report", "unreported"]

# Called as often as something was copied: bytes that are done, and all.
Report = Callable[[int, int], None]


def unreported(_done: int, _total: int) -> None:
    """Reports to nobody."""
