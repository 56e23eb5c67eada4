"""Whether a value is of a declared type, and in which words it is not. Pure; knows no option.

Numbers are strict: True is no number, and a text with digits is none either.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

__all__ = ["fault_of", "nearest"]

_SHOWN_CHARS_MAX: Final = 80
# How alike a wrong name and the right one must be: one slip in a short word is enough.
_ALIKE: Final = 0.6
_NAMES: Final[dict[Any, str]] = {
    bool: "True or False",
    int: "an int",
    float: "a number",
    str: "a str",
    NoneType: "None",
}


def nearest(wrong: str, right: Iterable[str]) -> str | None:
    """Returns the name that was probably meant, None where none is like it."""
    found = get_close_matches(wrong, list(right), n=1, cutoff=_ALIKE)
    return found[0] if found else None


def fault_of(value: object, kind: Any) -> str | None:
    """Returns why a value is not of a type; None where it is.

    Args:
        value: The value.
        kind: A type as an annotation has it: classes, unions, `Literal`, sequences, callables.
    """
    if _is_of(value, kind):
        return None
    words = _words(kind)
    if isinstance(value, str) and words:
        meant = nearest(value, words)
        hint = f"; did you mean {meant!r}?" if meant else ""
        return f"{_expected(kind)} is expected, not {value[:_SHOWN_CHARS_MAX]!r}{hint}"
    if isinstance(value, int | float | str | NoneType):
        return f"{_expected(kind)} is expected, not {repr(value)[:_SHOWN_CHARS_MAX]}"
    return f"{_expected(kind)} is expected, not {type(value).__name__}"


def _is_of(value: object, kind: Any) -> bool:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return any(_is_of(value, each) for each in get_args(kind))
    if origin is Literal:
        return value in get_args(kind)
    if origin is Callable:
        return callable(value)
    if origin is Sequence:
        (element,) = get_args(kind)
        return (
            isinstance(value, Sequence)
            and not isinstance(value, str | bytes)
            and all(_is_of(each, element) for each in value)
        )
    if kind is float:
        return (
            isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
        )
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _words(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return [each for each in get_args(kind) if isinstance(each, str)]
    if get_origin(kind) in (Union, UnionType):
        return [word for each in get_args(kind) for word in _words(each)]
    return []


def _expected(kind: Any) -> str:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        parts = [_expected(each) for each in get_args(kind)]
        return f"{', '.join(parts[:-1])} or {parts[-1]}"
    if origin is Literal:
        return ", ".join(map(repr, get_args(kind)))
    if origin is Callable:
        return "a callable"
    if origin is Sequence:
        return f"a sequence of {get_args(kind)[0].__name__}"
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    return _NAMES.get(kind) or f"{article} {kind.__name__}"
