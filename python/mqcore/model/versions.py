"""Data versions of configuration tables, and the version numbers of programs. Pure values."""

from dataclasses import dataclass, replace
from typing import Any, Final, Self

from mqcore.model.reading import as_dict, as_int

# Ordinals of the list of versions: the one that we report by default, and the last.
V4_9_8: Final = 409
HIGHER_VERSION: Final = 612

# First ordinal of a release line, with the line: later ones alternate snapshot and release.
_LINES: Final = (
    (393, (4, 9, 0)),
    (413, (5, 0, 0)),
    (433, (5, 1, 0)),
    (453, (5, 2, 0)),
    (473, (5, 3, 0)),
)
_LINE_END: Final = 493


def version_name(ordinal: int) -> str:
    """Returns the name of a version, such as `V4_9_8`; the number where it has no known name."""
    if ordinal >= HIGHER_VERSION:
        return "HIGHER_VERSION"
    first, (major, minor, patch) = next(
        (line for line in reversed(_LINES) if ordinal >= line[0] - 1), (0, (0, 0, 0))
    )
    if not first or ordinal >= _LINE_END:
        return f"V_{ordinal}"
    steps = ordinal - first
    name = f"V{major}_{minor}_{patch + (steps + 1) // 2}"
    return name if steps % 2 == 0 else f"{name}_SNAPSHOT"


def version_ordinal(name: str) -> int:
    """Returns the ordinal of a version, given by its name or as a number.

    Raises:
        ValueError: There is no such version.
    """
    if name.isascii() and name.isdigit() and len(name) <= 5:
        return int(name)
    for ordinal in range(_LINES[0][0], _LINE_END):
        if version_name(ordinal) == name.strip().upper():
            return ordinal
    raise ValueError(f"{name!r} is no known version such as V4_9_8 or V5_3_3")


@dataclass(frozen=True, slots=True)
class DataVersion:
    """Which state of a table: two equal versions mean equal tables.

    Attributes:
        counter: Changes since the table was made.
        timestamp_ms: When it was changed last.
        state_version: The controller's epoch; 0 without one.
    """

    counter: int
    timestamp_ms: int
    state_version: int = 0

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns the version that a JSON object holds; zeros for what is missing."""
        found = as_dict(value)
        return cls(
            counter=as_int(found.get("counter")),
            timestamp_ms=as_int(found.get("timestamp")),
            state_version=as_int(found.get("stateVersion")),
        )

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object."""
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp_ms,
        }

    def next(self, now_ms: int) -> Self:
        """Returns the version after one more change."""
        return replace(self, counter=self.counter + 1, timestamp_ms=now_ms)
