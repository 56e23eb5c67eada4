"""The delay levels: their lengths, how far each was delivered (`delayOffset.json`), when to look.

Pure state over passed-in times. A level's messages lie in queue `level - 1` of the schedule topic.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mqcore.errors import BadJsonError
from mqcore.model.reading import as_dict, as_int
from mqcore.model.relaxed_json import parse_object, pretty
from mqcore.model.versions import DataVersion
from mqcore.native import OffsetRange
from mqcore.native.errors import SettingError

DEFAULT_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
# How soon to look again: while there is more, while nothing is due, and after a failed delivery.
IDLE_MS: Final = 100
FAILED_MS: Final = 1_000
# First look after the start, as the official broker waits.
FIRST_MS: Final = 1_000
# No look is planned farther ahead: one that seems to be was planned before the clock was set back.
LOOK_MAX_MS: Final = 1_000
# Changes that make a new data version in 5.x (`delayOffsetUpdateVersionStep`).
VERSION_STEP: Final = 200
# Levels at the most: the level is one queue of the schedule topic.
LEVELS_MAX: Final = 256

_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL = re.compile(r"(\d{1,9})([smhd])")


def parse_levels(text: str) -> tuple[int, ...]:
    """Returns the lengths of the levels in milliseconds: that of level 1 first.

    Raises:
        SettingError: It is no list of levels.
    """
    parts = text.split()
    found = [_LEVEL.fullmatch(part) for part in parts]
    if not parts or len(parts) > LEVELS_MAX or None in found:
        why = f"messageDelayLevel={text!r}: numbers with s, m, h or d expected, such as 1s 5s 1m"
        raise SettingError(why)
    return tuple(int(match[1]) * _UNITS_MS[match[2]] for match in found if match is not None)


def _parsed(text: bytes) -> dict[str, object]:
    found = parse_object(text)
    if not isinstance(found.get("offsetTable", {}), dict):
        raise BadJsonError("its offsetTable is no object")
    return found


@dataclass(slots=True)
class _Level:
    offset: int = 0
    look_ms: int = 0

    def until_look_ms(self, now_ms: int) -> int:
        left_ms = max(0, self.look_ms - now_ms)
        return left_ms if left_ms <= LOOK_MAX_MS else 0


class DelayTable:
    """How far every level was delivered, and when each wants to be looked at.

    Args:
        lengths_ms: Lengths of the levels.
        now_ms: Time of the start.
    """

    def __init__(self, lengths_ms: tuple[int, ...], now_ms: int) -> None:
        """Begins every level at its first message."""
        self.lengths_ms = lengths_ms
        self._levels = {
            level: _Level(look_ms=now_ms + FIRST_MS) for level in range(1, len(lengths_ms) + 1)
        }
        self._kept: dict[int, int] = {}
        self._version = DataVersion(counter=0, timestamp_ms=now_ms)
        self._changes = 0

    def load(self, text: bytes) -> None:
        """Takes a `delayOffset.json`.

        Raises:
            BadJsonError: It cannot be read; nothing was taken.
        """
        self._take(_parsed(text))

    def follow(self, text: bytes) -> None:
        """Takes the `delayOffset.json` of a master, which may have delivered less than we have.

        A level that it does not name is at its first message there. We may have delivered more of
        it as master, and that was lost: whoever is elected next is to deliver it again.

        Raises:
            BadJsonError: It cannot be read; nothing was taken.
        """
        self._replace(_parsed(text))

    def go_back(self, offsets: Mapping[int, int]) -> None:
        """Takes the offsets of an earlier time; a level without one is at its first message."""
        self._replace({"offsetTable": offsets})

    def _replace(self, found: Mapping[str, object]) -> None:
        if "offsetTable" in found:
            self._kept.clear()
            for known in self._levels.values():
                known.offset = 0
        self._take(found)

    def _take(self, found: Mapping[str, object]) -> None:
        for key, offset in as_dict(found.get("offsetTable")).items():
            level = as_int(key)
            known = self._levels.get(level)
            if known is not None:
                known.offset = max(0, as_int(offset))
            elif level > 0:
                # A level that the settings lack now: kept, in case they get it back.
                self._kept[level] = max(0, as_int(offset))
        if "dataVersion" in found:
            self._version = DataVersion.of_json(found["dataVersion"])

    def length_ms(self, level: int) -> int:
        """Returns how long a level waits; one above the table, as long as the last of it."""
        return self.lengths_ms[min(level, len(self.lengths_ms)) - 1]

    def need(self, levels: int, now_ms: int) -> None:
        """Follows so many levels at the least: the table may have lost one where messages wait.

        Args:
            levels: How many.
            now_ms: When they are to be looked at first.
        """
        for level in range(len(self._levels) + 1, min(levels, LEVELS_MAX) + 1):
            self._levels[level] = _Level(self._kept.pop(level, 0), now_ms)

    def change(self, lengths_ms: tuple[int, ...], now_ms: int) -> None:
        """Replaces the table; levels that it has no more are followed as long as we run."""
        self.lengths_ms = lengths_ms
        self.need(len(lengths_ms), now_ms)
        for known in self._levels.values():
            known.look_ms = now_ms

    @property
    def levels(self) -> range:
        """The levels that are followed."""
        return range(1, len(self._levels) + 1)

    def clamp(self, level: int, bounds: OffsetRange | None) -> None:
        """Moves a level into its queue: what lies outside was deleted, or never was."""
        low, high = (0, 0) if bounds is None else (bounds.min_offset, bounds.max_offset)
        known = self._levels[level]
        known.offset = min(max(known.offset, low), high)

    def offset(self, level: int) -> int:
        """Returns the next queue offset of a level that is to be delivered."""
        return self._levels[level].offset

    @property
    def offsets(self) -> Mapping[int, int]:
        """The next queue offset of every level that has one."""
        found = {level: known.offset for level, known in self._levels.items() if known.offset}
        return self._kept | found

    def due(self, now_ms: int) -> list[int]:
        """Returns the levels that want to be looked at."""
        return [level for level, known in self._levels.items() if not known.until_look_ms(now_ms)]

    def until_look_ms(self, now_ms: int) -> int:
        """Returns for how long no level wants to be looked at."""
        return min(known.until_look_ms(now_ms) for known in self._levels.values())

    def delivered(self, level: int, offset: int, look_ms: int, now_ms: int) -> None:
        """Notes how far a level was delivered, and when it is to be looked at again."""
        known = self._levels[level]
        known.look_ms = look_ms
        if known.offset != offset:
            known.offset = offset
            self._changes += 1
            if self._changes % VERSION_STEP == 0:
                self._version = self._version.next(now_ms)

    @property
    def changes(self) -> int:
        """Grows with every change of an offset."""
        return self._changes

    def text(self) -> bytes:
        """Returns the content of `delayOffset.json`."""
        return pretty(self.to_json())

    def to_json(self) -> dict[str, object]:
        """Returns the table as `DelayOffsetSerializeWrapper` has it."""
        return {"dataVersion": self._version.to_json(), "offsetTable": dict(self.offsets)}
