"""The files of a store: their lengths, what they take on the device, what of them is in memory.

A running broker may remove a file meanwhile: it is left out. Nothing is read of a file.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mqcore.errors import MQError
from mqcore.native import resident_parts
from mqcore.occupancy.values import FilePart

__all__ = ["page_cache"]

# Of a log file of 1 GiB a part is 16 MiB.
STRIP_PARTS: Final = 64
# Log files that are shown one by one, the newest: a quarter of a terabyte; older ones are one row.
LOG_FILES_MAX: Final = 256
# Other files whose pages are asked for, some ten microseconds each; of more the sizes are known.
FILES_ASKED_MAX: Final = 50_000
_LOG: Final = "commitlog"
_OLDER: Final = "commitlog, older files"
# `st_blocks` counts in these, whatever the device has.
_BLOCK_BYTES: Final = 512
_PER_CENT: Final = 100


def page_cache(store: Path, log_dir: Path | None = None) -> list[FilePart]:
    """Returns what each log file and each other part of a store occupies on disk and in memory.

    Args:
        store: Its directory.
        log_dir: The directory of the log, where it is not below that.
    """
    found = list(_log_files(log_dir or store / _LOG))
    sums: dict[str, FilePart] = {}
    left = FILES_ASKED_MAX
    for path in _files(store):
        part = path.relative_to(store).parts[0]
        if part == _LOG:
            continue
        left -= 1
        row = _looked_at(path, part, parts=1 if left >= 0 else 0)
        if row is not None:
            sums[part] = _sum(sums.get(part, FilePart(part)), row)
    return [*found, *(sums[part] for part in sorted(sums))]


def _log_files(folder: Path) -> Iterator[FilePart]:
    """Yields the files of a log, the oldest first; those beyond the newest as one."""
    names = sorted(path.name for path in _files(folder) if path.parent == folder)
    older = FilePart(_OLDER)
    for name in names[:-LOG_FILES_MAX]:
        row = _looked_at(folder / name, _OLDER, parts=1)
        older = _sum(older, row) if row is not None else older
    if older.files:
        yield older
    for name in names[-LOG_FILES_MAX:]:
        row = _looked_at(folder / name, f"{_LOG}/{name}", parts=STRIP_PARTS)
        if row is not None:
            yield row


def _files(folder: Path) -> Iterator[Path]:
    """Yields the files below a folder."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(parent, name) for name in sorted(names))


def _looked_at(path: Path, part: str, *, parts: int) -> FilePart | None:
    """Returns one file; None for one that is gone.

    Args:
        path: The file.
        part: The part of the store that it belongs to.
        parts: Into how many parts it is divided; 0 not to ask for its pages.
    """
    try:
        stat = path.stat()
        resident = resident_parts(path, parts) if parts else []
    except (OSError, MQError):
        return None
    resident = resident or []
    strip: tuple[int, ...] = ()
    if parts > 1 and resident:
        part_bytes = -(-stat.st_size // len(resident))
        strip = tuple(min(_PER_CENT, each * _PER_CENT // part_bytes) for each in resident)
    on_disk = stat.st_blocks * _BLOCK_BYTES
    return FilePart(part, 1, stat.st_size, on_disk, sum(resident), strip)


def _sum(one: FilePart, other: FilePart) -> FilePart:
    return FilePart(
        one.part,
        one.files + other.files,
        one.length + other.length,
        one.on_disk + other.on_disk,
        one.resident + other.resident,
    )
