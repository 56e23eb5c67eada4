"""Numbers as people read them: values with unit. Pure."""

from datetime import UTC, datetime

__all__ = ["bytes_text", "count_text", "duration_text", "time_text"]

_DECIMAL = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_MS_PER_S = 1_000
_MS_PER_MIN = 60_000
_MS_PER_H = 3_600_000
# Below it three digits are more exact than a prefix.
_PREFIXED_FROM = 10_000


def count_text(value: float) -> str:
    """Returns a number: 950, 12.3 k, 1.5 M."""
    if abs(value) >= _PREFIXED_FROM:
        for limit, prefix in _DECIMAL:
            if abs(value) >= limit:
                return f"{_three_digits(value / limit)} {prefix}"
    return _three_digits(value) if value != int(value) else f"{int(value):,}"


def bytes_text(value: float) -> str:
    """Returns a number of bytes: 950 B, 1.5 MiB."""
    for limit, unit in _BINARY:
        if abs(value) >= limit:
            return f"{_three_digits(value / limit)} {unit}"
    return f"{_three_digits(value)} B"


def duration_text(value_ms: float) -> str:
    """Returns a duration: 0.4 ms, 35 ms, 1.5 s, 12 min, 3.2 h."""
    if abs(value_ms) < _MS_PER_S:
        return f"{_three_digits(value_ms)} ms"
    if abs(value_ms) < _MS_PER_MIN:
        return f"{_three_digits(value_ms / _MS_PER_S)} s"
    if abs(value_ms) < _MS_PER_H:
        return f"{_three_digits(value_ms / _MS_PER_MIN)} min"
    return f"{_three_digits(value_ms / _MS_PER_H)} h"


def time_text(time_ms: int) -> str:
    """Returns a time as commands show it, without ms: 2026-11-22 10:00:00Z."""
    return f"{datetime.fromtimestamp(time_ms / _MS_PER_S, UTC):%Y-%m-%d %H:%M:%S}Z"


def _three_digits(value: float) -> str:
    size = abs(value)
    digits = 0 if size >= 100 or value == int(value) else 1 if size >= 10 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
