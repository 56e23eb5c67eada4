"""The files of an audit: lines are appended, a full file gets another name, the oldest go.

`audit.log` is the file that grows; a full one is `audit.log.N`, N being the number of its first
line in twenty digits. All are readable by their owner alone. Everything here waits for the disk;
one at a time writes. Knows no event loop and no request.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mqcore.audit.lines import (
    MISSED,
    TORN,
    Checked,
    Ending,
    Wanted,
    checked,
    hash_of,
    line_of,
    parsed,
)

__all__ = ["READ_BYTES_MAX", "AuditFiles", "AuditReader", "Page"]

_MODE: Final = 0o600
_DIRECTORY_MODE: Final = 0o700
_NUMBER_DIGITS: Final = 20
# What is read back of a file at once.
_BLOCK_BYTES: Final = 256 << 10
# What one page reads at the most: beyond it the next page goes on.
READ_BYTES_MAX: Final = 16 << 20


class AuditFiles:
    """The files that one server writes.

    Attributes:
        ending: Where the chain ends.
        bytes: How many bytes were appended.
    """

    def __init__(self, path: Path, *, file_bytes_max: int, files_max: int, is_synced: bool) -> None:
        """Takes where they are; touches nothing.

        Args:
            path: The file that grows.
            file_bytes_max: From which size on it gets another name.
            files_max: How many files there are at the most, the growing one among them.
            is_synced: Whether lines are on the disk when they count as written.
        """
        self.path = path
        self.ending = Ending()
        self.bytes = 0
        self._file_bytes_max = file_bytes_max
        self._files_max = files_max
        self._is_synced = is_synced
        self._descriptor: int | None = None
        self._size = 0
        self._first = 1
        self._missed = 0

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Appends lines: all of them or none.

        Raises:
            OSError: They could not be written.
        """
        taken = list(rows)
        if not taken:
            return
        try:
            self._append(taken)
        except OSError:
            self._missed += len(taken)
            self.close()
            raise

    def _append(self, rows: list[Mapping[str, Any]]) -> None:
        if self._descriptor is None:
            self._open(rows[0])
        if self._size >= self._file_bytes_max:
            self._rotate()
        text, ending = b"", self.ending
        if self._missed:
            noted = {**_head(rows[0]), "event": MISSED, "count": self._missed}
            rows = [noted, *rows]
        for row in rows:
            line = line_of(ending.number + 1, ending.hash, row)
            ending = Ending(ending.number + 1, hash_of(line))
            text += line + b"\n"
        self._write(text)
        self.ending, self._missed = ending, 0

    def _write(self, text: bytes) -> None:
        """Writes behind the last line; what was written of it in vain is taken back."""
        assert self._descriptor is not None
        left = memoryview(text)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
            if self._is_synced:
                os.fdatasync(self._descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(text)
        self.bytes += len(text)

    def _open(self, row: Mapping[str, Any]) -> None:
        """Opens the file, and goes on where the chain ends; a line that was cut short is ended."""
        is_new = not self.path.parent.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=_DIRECTORY_MODE)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.path, flags, _MODE)
        try:
            os.fchmod(descriptor, _MODE)
            self._size = os.fstat(descriptor).st_size
            self.ending, self._first, is_torn = _end_of(self.path)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        if self._is_synced:
            _sync_directory(self.path.parent)
            if is_new:
                _sync_directory(self.path.parent.parent)
        if is_torn:
            noted = line_of(self.ending.number + 1, self.ending.hash, {**_head(row), "event": TORN})
            self._write(b"\n" + noted + b"\n")
            self.ending = Ending(self.ending.number + 1, hash_of(noted))

    def _rotate(self) -> None:
        """Gives the full file another name, and begins the next."""
        self.close()
        full = self.path.with_name(f"{self.path.name}.{self._first:0{_NUMBER_DIGITS}d}")
        self.path.rename(full)
        kept = self._files_max - 1
        older = _full_files(self.path)
        for each in older[: len(older) - kept] if len(older) > kept else []:
            each.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, _MODE)
        self._size, self._first = 0, self.ending.number + 1
        if self._is_synced:
            _sync_directory(self.path.parent)

    def close(self) -> None:
        """Closes the file; the next line opens it again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)


def _head(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row.get(name, "") for name in ("time", "server")}


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _full_files(path: Path) -> list[Path]:
    """Returns the files that are full, the oldest first."""
    return sorted(
        each
        for each in path.parent.glob(f"{path.name}.*")
        if len(each.suffix) == _NUMBER_DIGITS + 1 and each.suffix[1:].isdecimal()
    )


def _end_of(path: Path) -> tuple[Ending, int, bool]:
    """Returns where the chain ends, the first number of the growing file, and if it is torn."""
    with path.open("rb") as file:
        first_line = file.readline()
    last = next(_backwards(path), None)
    if last is None:
        # The crash came between a rename and the first line.
        older = _full_files(path)
        if not older:
            return Ending(), 1, False
        line = next(_backwards(older[-1]), b"")
        ending = Ending(_number(parsed(line)), hash_of(line))
        return ending, ending.number + 1, False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        is_torn = file.read(1) != b"\n"
    number = _number(parsed(last))
    if not number:
        before = next(_skipped(path), b"")
        number = _number(parsed(before))
    return Ending(number, hash_of(last)), _number(parsed(first_line)) or 1, is_torn


def _skipped(path: Path) -> Iterator[bytes]:
    """Yields whole lines backwards, without the last one."""
    lines = _backwards(path)
    next(lines, None)
    yield from (each for each in lines if _number(parsed(each)))


def _number(row: Mapping[str, Any] | None) -> int:
    found = row.get("n") if row is not None else None
    return found if isinstance(found, int) else 0


def _backwards(path: Path) -> Iterator[bytes]:
    """Yields the lines of a file, the last one first, without their ends."""
    with path.open("rb") as file:
        at = file.seek(0, os.SEEK_END)
        rest = b""
        is_end = True
        while at > 0:
            begin = max(0, at - _BLOCK_BYTES)
            file.seek(begin)
            block = file.read(at - begin) + rest
            at = begin
            lines = block.split(b"\n")
            rest = lines[0]
            for line in reversed(lines[1:]):
                if is_end and not line:
                    is_end = False
                    continue
                is_end = False
                yield line
        if rest:
            yield rest


@dataclass(frozen=True, slots=True)
class Page:
    """Some lines, the newest first.

    Attributes:
        rows: What they have.
        before: The number before which the next page goes on; 0 where there is no more.
        looked: How many lines were looked at.
    """

    rows: tuple[dict[str, Any], ...]
    before: int
    looked: int


@dataclass(frozen=True, slots=True)
class AuditReader:
    """Reads the files of an audit, while somebody writes them or not.

    Attributes:
        path: The file that grows.
    """

    path: Path
    _bytes_max: int = field(default=READ_BYTES_MAX)

    @property
    def files(self) -> list[Path]:
        """The files, the oldest first."""
        found = _full_files(self.path)
        return [*found, self.path] if self.path.exists() else found

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """Yields every line with where it is, the oldest first.

        Raises:
            OSError: A file cannot be read.
        """
        for path in self.files:
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    yield f"{path.name}:{number}", line.rstrip(b"\n")

    def check(self, expected: Ending | None = None) -> Checked:
        """Checks that no line was taken out or changed; reads everything.

        Raises:
            OSError: A file cannot be read.
        """
        return checked(self.lines(), expected)

    def page(self, wanted: Wanted, *, rows_max: int, before: int = 0) -> Page:
        """Returns the newest lines that are wanted.

        Args:
            wanted: Which.
            rows_max: How many at the most.
            before: Only lines with smaller numbers; 0 for all.

        Raises:
            OSError: A file cannot be read.
        """
        found: list[dict[str, Any]] = []
        looked = read = last = 0
        for path in reversed(self.files):
            first = int(path.suffix[1:]) if path != self.path else 0
            if before and first >= before:
                continue
            try:
                for line in _backwards(path):
                    row = parsed(line)
                    number = _number(row)
                    if row is None or not number or (before and number >= before):
                        continue
                    if len(found) >= rows_max or read >= self._bytes_max:
                        return Page(tuple(found), last, looked)
                    looked, read, last = looked + 1, read + len(line), number
                    if wanted.has(line, row):
                        found.append(row)
            except FileNotFoundError:
                # It was the oldest, or got another name just now.
                continue
        return Page(tuple(found), 0, looked)
