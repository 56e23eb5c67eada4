"""What opens of a store cut off its log or replaced in it, until somebody acknowledges it.

The engine writes one JSON file per cut or replacement into the directory `truncated` before it
changes the log. Knows these files alone, no open store. Blocks on the disk.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from mqcore.errors import StateFileError

# Where the engine keeps what it cut, and its reports.
DIRECTORY: Final = "truncated"
# Longest report that is read: the engine writes a few hundred bytes and a path per removed file.
LEN_MAX_BYTES: Final = 1 << 20
# Reports that are read: the first of them are enough to know that somebody has to look.
REPORTS_MAX: Final = 1_000
_ENDING: Final = ".json"
_ACKNOWLEDGED: Final = ".acknowledged.json"

Kind = Literal["cut", "keep"]


@dataclass(frozen=True, slots=True)
class DamageReport:
    """One cut, or one replacement of what was damaged.

    Attributes:
        path: The report.
        kind: `cut`: the log ends at the physical offset since; `keep`: other records are in place
            of the damaged bytes.
        physical_offset: Where it begins in the log.
        bytes: Bytes that were cut or replaced.
        whole_records: Whole records among the bytes of a cut; behind those of a replacement, where
            they stay.
        missing_bytes: Bytes that were durable once and that no file had any more.
        why: What was wrong.
        kept_in: Where copies of the bytes are, below the store's directory.
        removed: Files of the log that were removed.
        at_ms: When, in milliseconds.
        is_acknowledged: Whether somebody acknowledged it.
    """

    path: Path
    kind: Kind
    physical_offset: int
    bytes: int
    whole_records: int
    missing_bytes: int
    why: str
    kept_in: tuple[str, ...]
    removed: tuple[str, ...]
    at_ms: int
    is_acknowledged: bool

    def __str__(self) -> str:
        """Returns it as a sentence."""
        if self.kind == "cut":
            text = f"{self.bytes} bytes with {self.whole_records} whole records were cut off"
        else:
            text = f"{self.bytes} bytes were replaced, {self.whole_records} whole records"
            text += " behind stay"
        text += f"; physical offset {self.physical_offset} ({self.why})"
        if self.missing_bytes:
            text += f"; {self.missing_bytes} bytes were missing"
        if self.kept_in:
            text += f"; copy in {', '.join(self.kept_in)}"
        if self.removed:
            text += f"; removed {', '.join(self.removed)}"
        return text


def damage_reports(store_dir: Path, *, acknowledged: bool = False) -> list[DamageReport]:
    """Returns the reports of a store by physical offset: the open ones, or all.

    Raises:
        StateFileError: A report cannot be read.
    """
    folder = store_dir / DIRECTORY
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(_ENDING))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(folder, error.strerror or str(error)) from error
    if not acknowledged:
        names = [name for name in names if not name.endswith(_ACKNOWLEDGED)]
    return [_read(folder / name) for name in names[:REPORTS_MAX]]


def acknowledge(store_dir: Path) -> list[DamageReport]:
    """Acknowledges every open report; returns them as they were. The copies stay.

    Raises:
        StateFileError: A report cannot be read or renamed.
    """
    reports = damage_reports(store_dir)
    for report in reports:
        stem = report.path.name.removesuffix(_ENDING)
        try:
            report.path.rename(_free_name(report.path.parent, stem))
        except OSError as error:
            raise _unreadable(report.path, error.strerror or str(error)) from error
    return reports


def _free_name(folder: Path, stem: str) -> Path:
    """Returns a name that no acknowledged report has: a log may be cut twice at one place."""
    path, number = folder / f"{stem}{_ACKNOWLEDGED}", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}{_ACKNOWLEDGED}"
    return path


def _read(path: Path) -> DamageReport:
    try:
        with path.open("rb") as file:
            text = file.read(LEN_MAX_BYTES + 1)
        if len(text) > LEN_MAX_BYTES:
            raise _unreadable(path, f"longer than {LEN_MAX_BYTES} bytes")
        fields: dict[str, Any] = json.loads(text)
        return DamageReport(
            path=path,
            kind="keep" if fields["kind"] == "keep" else "cut",
            physical_offset=int(fields["physical_offset"]),
            bytes=int(fields["bytes"]),
            whole_records=int(fields["whole_records"]),
            missing_bytes=int(fields["missing_bytes"]),
            why=str(fields["why"]),
            kept_in=tuple(map(str, fields["kept_in"])),
            removed=tuple(map(str, fields["removed"])),
            at_ms=int(fields["at_ms"]),
            is_acknowledged=path.name.endswith(_ACKNOWLEDGED),
        )
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, f"{type(error).__name__}: {error}") from error


def _unreadable(path: Path, why: str) -> StateFileError:
    return StateFileError(f"{path}: {why}", path=str(path), why=why)
