"""Times as people write them on a command line: `10m`, `2h30m ago`, `2024-05-01T10:00`, `now`.

A pure function of a text and the time now.
"""

import re
from collections.abc import Callable
from datetime import datetime

import click

__all__ = ["END", "SPAN", "START", "TIME", "WHEN", "parse_span", "parse_time"]

# Words for the first message of a queue, and for behind its last one.
START, END = "start", "end"

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SPAN = re.compile(r"(?:\d+(?:ms|[smhdw]))+")
_PART = re.compile(r"(\d+)(ms|[smhdw])")
_MS_PER_S = 1_000
# Digits alone are Unix ms; a year has four.
_DIGITS_MIN = 9


def parse_time(text: str, now_ms: int) -> int:
    """Returns the time that a text means, in Unix ms.

    Args:
        text: `now`; a span such as `90s`, `1h30m` or `2d`, which means so long ago; digits, which
            are Unix ms; or a date and time in ISO form, local unless it names a zone.
        now_ms: The time now, in Unix ms.

    Raises:
        ValueError: It means none.
    """
    wanted = text.strip().removesuffix("ago").strip()
    if wanted == "now":
        return now_ms
    if _SPAN.fullmatch(wanted):
        return now_ms - parse_span(wanted)
    if wanted.isdigit() and len(wanted) >= _DIGITS_MIN:
        return int(wanted)
    try:
        return round(datetime.fromisoformat(wanted).timestamp() * _MS_PER_S)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is no time: a span such as 10m or 2h30m (ago), a date such as "
            "2024-05-01T10:00, Unix ms, or now"
        ) from None


def parse_span(text: str) -> int:
    """Returns how long a span such as `90s` or `1h30m` is, in ms.

    Raises:
        ValueError: It is none.
    """
    wanted = text.strip()
    if not _SPAN.fullmatch(wanted):
        raise ValueError(f"{text!r} is no span: 500ms, 90s, 1h30m, 2d")
    return sum(int(count) * _UNITS_MS[unit] for count, unit in _PART.findall(wanted))


class _Text(click.ParamType[int]):
    """A text on the command line that means a number of ms."""

    def __init__(self, name: str, parse: Callable[[str], int]) -> None:
        """Takes what it is called, and what reads it."""
        self.name = name
        self._parse = parse

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Returns the number, or ends with a usage error."""
        if isinstance(value, int):
            return value
        try:
            return self._parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _time_now(text: str) -> int:
    # Imported here: a module of pure functions reads no clock.
    from mqcore.clock import wall_ms

    return parse_time(text, wall_ms())


class _When(click.ParamType[str | int]):
    """`start`, `end`, or a time as Unix ms."""

    name = "start|end|time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | int:
        """Returns the word or the time, or ends with a usage error."""
        if isinstance(value, int):
            return value
        if str(value) in (START, END):
            return str(value)
        return TIME.convert(value, param, ctx)


TIME = _Text("time", _time_now)
WHEN = _When()
SPAN = _Text("span", parse_span)
