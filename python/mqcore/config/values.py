"""Reads the values of settings: texts become typed values, in this file alone.

Booleans are read as Java reads them (`true` in any case, everything else is false), numbers as
Java's `parseInt` and `parseLong`. Pure functions of texts; knows no key.
"""

import re
from pathlib import Path

Value = bool | int | float | str | Path | tuple[str, ...]

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_SIZE = re.compile(r"([0-9]+)\s*(?:([kmgt])i?b?|b)?", re.ASCII | re.IGNORECASE)
# A whole number with bounds: `int>=1`, `int>=0<=7`, `int>=-1`.
_BOUNDED = re.compile(r"(int|long)(?:>=(-?[0-9]+))?(?:<=([0-9]+))?")
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
# The ranges of Java's types: an official broker ignores what lies outside.
_INT_BITS = 31
_LONG_BITS = 63
_PORT_MAX = 65_535
MASK = "******"


def parsed(kind: str, text: str) -> Value:
    """Returns the value of a text.

    Args:
        kind: `boolean`, `int`, `long`, `double`, `port`, `size`, `path`, `list`, `text`, `secret`,
            the allowed words joined by `/`, or a number with bounds (`int>=1`, `int>=0<=7`).
        text: What somebody wrote.

    Raises:
        ValueError: It is no value of that kind; the message describes one.
    """
    text = text.strip()
    if "/" in kind:
        return _word(kind, text)
    bounded = _BOUNDED.fullmatch(kind)
    if bounded is not None:
        return _within(text, *bounded.groups())
    match kind:
        case "boolean":
            return text.lower() == "true"
        case "port":
            return _within(text, "int", "0", str(_PORT_MAX))
        case "double":
            return _number(text)
        case "size":
            return size_bytes(text)
        case "path":
            return _path(text)
        case "list":
            return tuple(part.strip() for part in text.split(";") if part.strip())
    return text


def size_bytes(text: str) -> int:
    """Returns the bytes of a size such as `4096`, `64m` or `2 GiB` (units of 1024).

    Raises:
        ValueError: It is none.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("expected a size: bytes, or a number with k, m, g or t")
    size = int(match[1]) * _UNITS.get((match[2] or "").lower(), 1)
    if size >= 1 << _LONG_BITS:
        raise ValueError("expected a size below 2^63 bytes")
    return size


def misread_warning(kind: str, text: str) -> str | None:
    """Returns a warning for a value that is read otherwise than it looks, or None."""
    if kind == "boolean" and text.strip().lower() not in ("true", "false"):
        return "read as false, as Java does: write true or false"
    return None


def rendered(value: Value) -> str:
    """Returns a value as a properties file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ";".join(value)
    return str(value)


def _word(kind: str, text: str) -> str:
    words = kind.split("/")
    for word in words:
        if text.lower() == word.lower():
            return word
    raise ValueError(f"expected {', '.join(words[:-1])} or {words[-1]}")


def _path(text: str) -> Path | str:
    if "\0" in text:
        raise ValueError("expected a path")
    try:
        return Path(text).expanduser() if text else ""
    except RuntimeError:
        raise ValueError("expected a path: its user has no home") from None


def _within(text: str, kind: str, least: str | None, most: str | None) -> int:
    number = _whole(text, _INT_BITS if kind == "int" else _LONG_BITS)
    is_low = least is not None and number < int(least)
    is_high = most is not None and number > int(most)
    if is_low or is_high:
        raise ValueError(f"expected {_range_text(least, most)}")
    return number


def _range_text(least: str | None, most: str | None) -> str:
    if least is None:
        return f"at most {most}"
    return f"at least {least}" if most is None else f"{least} to {most}"


def _whole(text: str, bits: int) -> int:
    # The length is looked at first: Python reads numbers of any length, slowly.
    if len(text) > 20 or not _WHOLE.fullmatch(text):
        raise ValueError("expected a whole number")
    number = int(text)
    if not -(1 << bits) <= number < 1 << bits:
        raise ValueError(f"expected a whole number below 2^{bits}")
    return number


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("expected a number") from None
