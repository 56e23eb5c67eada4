"""Levels of single loggers as one setting: `mqcore.remoting=debug;mqcore.store=error`.

Parses, writes and applies; knows no program.
"""

import logging
from collections.abc import Mapping
from typing import Final

__all__ = ["LEVELS", "apply_log_levels", "log_levels_of", "log_levels_text"]

LEVELS: Final = ("debug", "info", "warning", "error")
# Loggers of others are as loud as they are.
_ROOT: Final = "mqcore"
# So many at the most: a mistake makes no table that grows.
_LOGGERS_MAX: Final = 64


def log_levels_of(text: str) -> dict[str, str]:
    """Returns the level of each logger.

    Raises:
        ValueError: It is no such text.
    """
    found: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.split(";"))):
        name, sign, level = (each.strip() for each in part.partition("="))
        is_ours = name == _ROOT or name.startswith(f"{_ROOT}.")
        if not sign or not is_ours or level.lower() not in LEVELS:
            raise ValueError(
                f"{part!r}: LOGGER=LEVEL expected, a logger below {_ROOT} and one of "
                f"{', '.join(LEVELS)}"
            )
        found[name] = level.lower()
    if len(found) > _LOGGERS_MAX:
        raise ValueError(f"{len(found)} loggers: {_LOGGERS_MAX} at the most")
    return found


def log_levels_text(levels: Mapping[str, str]) -> str:
    """Returns levels as the setting has them."""
    return ";".join(f"{name}={levels[name]}" for name in sorted(levels))


def apply_log_levels(before: str, now: str) -> None:
    """Sets the levels of loggers; those that are not named any more are as their parents again.

    Args:
        before: The setting before.
        now: The setting.

    Raises:
        ValueError: It is no such text; nothing was set.
    """
    wanted = log_levels_of(now)
    for name in log_levels_of(before).keys() - wanted.keys():
        logging.getLogger(name).setLevel(logging.NOTSET)
    for name, level in wanted.items():
        logging.getLogger(name).setLevel(level.upper())
