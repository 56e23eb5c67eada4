"""Where the files of a store are: a local directory, or anything fsspec can open.

A directory lists files and gives their bytes, in pieces or in part; it goes from the driver to the
tasks. Knows no record.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mqcore.spark.errors import SparkError
from mqcore.spark.locations import Location

# Large enough that what a call costs is lost in it, small enough to stay in a processor's cache.
PIECE_BYTES: Final = 256 * 1024
# One request to an object store; smaller ones cost more in waiting than in bytes.
REMOTE_PIECE_BYTES: Final = 8 * 1024 * 1024
# What is asked for first behind the likely end: a record of a usual size, not a large piece for it.
REMOTE_OVERRUN_BYTES: Final = 64 * 1024


class PathError(SparkError):
    """A path is not there, cannot be read, or needs a package that is not installed.

    Attributes:
        path: The path.
    """

    path: str


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file.

    Attributes:
        path: Its path, as the directory knows it.
        len_bytes: Its length.
    """

    path: str
    len_bytes: int

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rstrip("/").rpartition("/")[2]


class Directory(ABC):
    """Files below one root. Paths are those that a directory itself gave, or joined to its root."""

    root: str

    def below(self, *parts: str) -> str:
        """Returns a path below the root."""
        return "/".join((self.root.rstrip("/"), *parts))

    @abstractmethod
    def files(self, path: str) -> list[FileEntry]:
        """Returns the files of a directory by name; none where there is no directory."""

    @abstractmethod
    def directories(self, path: str) -> list[str]:
        """Returns the names of a directory's directories; none where there is no directory."""

    @abstractmethod
    def size(self, path: str) -> int | None:
        """Returns the length of a file, None where there is none."""

    @abstractmethod
    def read(self, path: str, start: int = 0, len_bytes: int | None = None) -> bytes:
        """Returns bytes of a file, fewer where it ends.

        Raises:
            FileNotFoundError: It is not there.
        """

    @abstractmethod
    def pieces(
        self, path: str, start: int, end: int, likely_end: int | None = None
    ) -> Iterator[bytes | memoryview]:
        """Yields the bytes of a file from `start` to `end` in pieces.

        Args:
            path: The file.
            start: First byte.
            end: Byte behind the last.
            likely_end: Where whoever reads will probably have enough.

        A piece is good until the next is asked for.

        Raises:
            FileNotFoundError: It is not there.
        """

    @abstractmethod
    def matches(self, pattern: str) -> list[str]:
        """Returns the paths that a pattern with `*`, `?` and `[]` means."""


@dataclass(frozen=True, slots=True)
class LocalDirectory(Directory):
    """A directory of this machine, or one that every machine sees under the same path."""

    root: str

    def files(self, path: str) -> list[FileEntry]:
        """Returns the files of a directory by name; none where there is no directory."""
        directory = Path(path)
        if not directory.is_dir():
            return []
        found = sorted(entry for entry in directory.iterdir() if entry.is_file())
        return [FileEntry(str(entry), entry.stat().st_size) for entry in found]

    def directories(self, path: str) -> list[str]:
        """Returns the names of a directory's directories; none where there is no directory."""
        directory = Path(path)
        if not directory.is_dir():
            return []
        return sorted(entry.name for entry in directory.iterdir() if entry.is_dir())

    def size(self, path: str) -> int | None:
        """Returns the length of a file, None where there is none."""
        file = Path(path)
        return file.stat().st_size if file.is_file() else None

    def read(self, path: str, start: int = 0, len_bytes: int | None = None) -> bytes:
        """Returns bytes of a file, fewer where it ends."""
        with Path(path).open("rb") as file:
            file.seek(start)
            return file.read(-1 if len_bytes is None else len_bytes)

    def pieces(
        self, path: str, start: int, end: int, likely_end: int | None = None
    ) -> Iterator[bytes | memoryview]:
        """Yields the bytes of a file from `start` to `end`, all in one buffer.

        Not from a map: copying into a buffer that stays in the cache was measured to cost less than
        the faults of a map (with 1 KB bodies by a third), and a file that is cut short or a disk
        that fails is an error then and no signal.
        """
        del likely_end  # A piece is small enough.
        with (
            Path(path).open("rb", buffering=0) as file,
            memoryview(bytearray(PIECE_BYTES)) as buffer,
        ):
            # Read-only for whoever gets it: such bytes are not copied once more.
            view = buffer.toreadonly()
            file.seek(start)
            at = start
            while at < end:
                len_bytes = file.readinto(buffer[: min(PIECE_BYTES, end - at)])
                if not len_bytes:
                    return
                yield view[:len_bytes]
                at += len_bytes

    def matches(self, pattern: str) -> list[str]:
        """Returns the paths that a pattern means."""
        anchor = Path(pattern).anchor or "."
        relative = pattern.removeprefix(anchor) if anchor != "." else pattern
        return sorted(str(path) for path in Path(anchor).glob(relative))


@dataclass(frozen=True, slots=True)
class RemoteDirectory(Directory):
    """A directory of any file system that fsspec knows.

    Attributes:
        url: The root with its scheme.
        options: What the file system is opened with.
    """

    url: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def root(self) -> str:  # type: ignore[override]
        """The root without its scheme."""
        return str(self._opened()[1])

    def _opened(self) -> tuple[Any, str]:
        try:
            # Only needed for such paths, and no dependency of ours.
            url_to_fs = importlib.import_module("fsspec.core").url_to_fs
        except ImportError as error:
            raise PathError(
                f"{self.url} needs fsspec: pip install fsspec, and the package of its scheme",
                path=self.url,
            ) from error
        try:
            system, path = url_to_fs(self.url, **self.options)
        except (ImportError, ValueError) as error:
            raise PathError(f"{self.url} cannot be opened: {error}", path=self.url) from error
        return system, path

    def _listed(self, path: str) -> list[dict[str, Any]]:
        system, _root = self._opened()
        try:
            rows: list[dict[str, Any]] = system.ls(path, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [row for row in rows if row["name"].rstrip("/") != path.rstrip("/")]

    def files(self, path: str) -> list[FileEntry]:
        """Returns the files of a directory by name; none where there is no directory."""
        rows = [row for row in self._listed(path) if row["type"] == "file"]
        return sorted(
            (FileEntry(row["name"], int(row["size"])) for row in rows), key=lambda file: file.path
        )

    def directories(self, path: str) -> list[str]:
        """Returns the names of a directory's directories; none where there is no directory."""
        rows = [row for row in self._listed(path) if row["type"] == "directory"]
        return sorted(row["name"].rstrip("/").rpartition("/")[2] for row in rows)

    def size(self, path: str) -> int | None:
        """Returns the length of a file, None where there is none."""
        system, _root = self._opened()
        return int(system.size(path)) if system.isfile(path) else None

    def read(self, path: str, start: int = 0, len_bytes: int | None = None) -> bytes:
        """Returns bytes of a file, fewer where it ends."""
        system, _root = self._opened()
        end = None if len_bytes is None else start + len_bytes
        return bytes(system.cat_file(path, start=start, end=end))

    def pieces(
        self, path: str, start: int, end: int, likely_end: int | None = None
    ) -> Iterator[bytes | memoryview]:
        """Yields the bytes of a file from `start` to `end`, one request each."""
        enough = end if likely_end is None else likely_end
        at, overrun = start, REMOTE_OVERRUN_BYTES
        while at < end:
            wanted = min(REMOTE_PIECE_BYTES, enough - at)
            if wanted <= 0:
                wanted, overrun = overrun, min(2 * overrun, REMOTE_PIECE_BYTES)
            piece = self.read(path, at, min(wanted, end - at))
            if not piece:
                return
            yield piece
            at += len(piece)

    def matches(self, pattern: str) -> list[str]:
        """Returns the paths that a pattern means."""
        system, _root = self._opened()
        return sorted(system.glob(pattern))


def directory_of(location: Location, options: dict[str, Any]) -> Directory:
    """Returns the directory of a location: one that is not local is opened by fsspec."""
    if location.is_local:
        return LocalDirectory(location.path)
    return RemoteDirectory(location.url, options)
