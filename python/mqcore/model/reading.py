"""Lenient readings of JSON values: what fastjson takes, we take. Pure, total."""

from typing import Any

# Bits of Java's int and long: what is beyond wraps in no client, it is simply not meant.
INT, LONG = 32, 64


def as_int(value: Any, default: int = 0, *, bits: int = LONG) -> int:
    """Returns a number of so many bits, also one given as text; `default` for anything else."""
    if isinstance(value, bool):
        return int(value)
    bound = 1 << (bits - 1)
    if isinstance(value, float):
        # No fraction lies between the largest number and the bound.
        return int(value) if -bound <= value < bound else default
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            return default
    if isinstance(value, int):
        return value if -bound <= value < bound else default
    return default


def as_float(value: Any) -> float:
    """Returns a number with its fraction; 0 for anything else."""
    return float(value) if isinstance(value, int | float) else 0.0


def as_bool(value: Any, default: bool = False) -> bool:
    """Returns a truth value, also one given as text or number; `default` for anything else."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        folded = value.strip().lower()
        return True if folded == "true" else False if folded == "false" else default
    return bool(value) if isinstance(value, int) else default


def as_text(value: Any, default: str = "") -> str:
    """Returns a text; a number as its digits; `default` for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    return str(value)


def as_dict(value: Any) -> dict[str, Any]:
    """Returns an object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Returns an array; an empty one for anything else."""
    return value if isinstance(value, list) else []


def first_number(text: str) -> float:
    """Returns the first number of a figure that may have several, such as `putTps`; 0 for none."""
    try:
        return float(text.split()[0])
    except (ValueError, IndexError):
        return 0.0
