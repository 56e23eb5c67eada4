"""Numbers, sizes and times as pages show them. Pure functions."""

from datetime import UTC, datetime
from typing import Any, Final

__all__ = ["ago", "bytes_text", "duration", "microseconds", "number", "rate", "when"]

# What is shown for what is not known, or not there.
NONE: Final = "\N{EN DASH}"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MS: Final = 1_000
_LAST_MS: Final = 253_402_300_799_000
_SPANS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def number(value: Any) -> str:
    """Returns a whole number in groups of three digits; a dash for None."""
    if value is None or value == "":
        return NONE
    try:
        return f"{int(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    except (TypeError, ValueError, OverflowError):
        return str(value)


def rate(value: Any) -> str:
    """Returns a number per second; a dash for None."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return NONE
    return number(round(found)) if found >= 100 else f"{found:.1f}"


def bytes_text(value: Any) -> str:
    """Returns a size with its unit; a dash for what is no number."""
    try:
        size = float(value)
    except (TypeError, ValueError):
        return NONE
    for unit in _UNITS:
        if abs(size) < 1024 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def microseconds(value: Any) -> str:
    """Returns a span of microseconds; a dash for none."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return NONE
    if found < _MS:
        return f"{found:.0f} \N{MICRO SIGN}s"
    return f"{found / _MS:.1f} ms" if found < _MS * _MS else f"{found / _MS / _MS:.2f} s"


def when(ms: Any) -> str:
    """Returns Unix ms as a time of UTC; a dash for none."""
    try:
        value = int(ms)
    except (TypeError, ValueError):
        return NONE
    if not 0 < value <= _LAST_MS:
        return NONE
    at = datetime.fromtimestamp(value / _MS, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{value % _MS:03d}Z"


def duration(ms: Any) -> str:
    """Returns a span in its two largest units; a dash for none."""
    try:
        left = int(ms)
    except (TypeError, ValueError):
        return NONE
    if left < _MS:
        return f"{left} ms" if left else "0 s"
    seconds = left // _MS
    parts: list[str] = []
    for length, unit in _SPANS:
        count, seconds = divmod(seconds, length)
        if count or parts:
            parts.append(f"{count} {unit}")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if not part.startswith("0 "))


def ago(ms: Any, now_ms: int) -> str:
    """Returns how long ago a time was, or in how long it will be."""
    try:
        passed = now_ms - int(ms)
    except (TypeError, ValueError):
        return ""
    return f"{duration(passed)} ago" if passed >= 0 else f"in {duration(-passed)}"
