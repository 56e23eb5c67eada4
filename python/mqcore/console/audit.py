"""Who changed what: one JSON line per change that was asked for, in a file of mode 0600.

A line has the hash of the line before, so that one that was taken out is noticed.
"""

import hashlib
import json
import os
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mqcore.audit.lines import time_text
from mqcore.clock import wall_ms

__all__ = ["Audit"]

# What pages show; the file has all.
SHOWN_MAX: Final = 500
_SECRET_WORDS: Final = ("password", "secret", "token", "csrf")
_VALUE_CHARS_MAX: Final = 500


class Audit:
    """The audit log of a console."""

    def __init__(self, path: Path) -> None:
        """Takes the file; reads the last lines of it where it is there."""
        self._path = path
        self._last: deque[dict[str, Any]] = deque(maxlen=SHOWN_MAX)
        self._hash = ""
        if path.exists():
            with path.open(encoding="utf-8") as file:
                for line in file:
                    self._hash = hashlib.sha256(line.rstrip("\n").encode()).hexdigest()
                    try:
                        self._last.append(json.loads(line))
                    except ValueError:
                        self._last.append({"what": "unreadable line", "outcome": line[:100]})

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._path

    def note(
        self,
        *,
        user: str,
        role: str,
        address: str,
        what: str,
        on: str,
        outcome: str,
        fields: Mapping[str, str] | None = None,
    ) -> None:
        """Writes a line.

        Args:
            user: Who.
            role: Their role.
            address: From where.
            what: The change, by the name of its route, or `login`.
            on: The object.
            outcome: `done`, or why not.
            fields: What was asked for; secrets are left out.

        Raises:
            OSError: It cannot be written: then nothing may be changed.
        """
        row = {
            "time": time_text(wall_ms()),
            "user": user[:_VALUE_CHARS_MAX],
            "role": role,
            "address": address,
            "what": what,
            "on": on[:_VALUE_CHARS_MAX],
            "outcome": outcome[:_VALUE_CHARS_MAX],
            "fields": {key: _shown(key, value) for key, value in (fields or {}).items()},
            "before": self._hash,
        }
        line = json.dumps(row, ensure_ascii=True)
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")
        self._hash = hashlib.sha256(line.encode()).hexdigest()
        self._last.append(row)

    def rows(self, text: str = "") -> list[dict[str, Any]]:
        """Returns the last lines, the newest first; those with a text in them.

        The time counts as it is shown, with a blank between day and hour; the hash does not count.
        """
        wanted = text.lower()
        return [row for row in reversed(self._last) if wanted in _searched(row)]

    def checked(self) -> tuple[int, int]:
        """Returns how many lines the file has, and the number of the first that was tampered with.

        0 for none: every line has the hash of the one before. Reads the whole file.
        """
        count, known = 0, ""
        if not self._path.exists():
            return 0, 0
        with self._path.open(encoding="utf-8", errors="replace") as file:
            for count, line in enumerate(file, 1):
                try:
                    before = json.loads(line).get("before")
                except (ValueError, AttributeError):
                    return count, count
                if before != known:
                    return count, count
                known = hashlib.sha256(line.rstrip("\n").encode()).hexdigest()
        return count, 0

    def whole(self) -> bytes:
        """Returns the file."""
        return self._path.read_bytes() if self._path.exists() else b""


def _searched(row: Mapping[str, Any]) -> str:
    shown = {key: value for key, value in row.items() if key != "before"}
    shown["time"] = str(row.get("time", "")).replace("T", " ")
    return json.dumps(shown, ensure_ascii=False).lower()


def _shown(key: str, value: str) -> str:
    if any(word in key.lower() for word in _SECRET_WORDS):
        return "***"
    return value if len(value) <= _VALUE_CHARS_MAX else f"{value[:_VALUE_CHARS_MAX]}..."
