"""Where the files of stores and archives are: a local directory, or anything fsspec can open.

A directory lists, reads and writes files; it goes from the driver to the tasks. Knows neither
records nor archives. Two promises to who writes, and how each kind of directory keeps them. A file
that has its name is whole: it is written under another name and renamed, locally synced before; an
object store shows an object when it was closed. A file is created once: a local one is linked,
which fails where the name is taken; elsewhere it is only looked for before, so that one program at
a time may write there.
"""

import importlib
import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mqcore.spark.errors import SparkError
from mqcore.spark.locations import Location
from mqcore.spark.sink_files import Sink

__all__ = [
    "UNFINISHED",
    "Directory",
    "FileEntry",
    "LocalDirectory",
    "PathError",
    "RemoteDirectory",
    "directory_of",
]

# Where files are written before they get their names, below the root.
UNFINISHED: Final = "_mqcore/unfinished"
# File systems whose files are not there until they are closed, and that have no directories.
_OBJECT_STORES: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})

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

    @property
    @abstractmethod
    def uri(self) -> str:
        """The root, as Spark takes it."""

    @abstractmethod
    def writing(self, path: str) -> AbstractContextManager[Sink]:
        """Gives a file that gets its name when the block ends, unless it raises."""

    @abstractmethod
    def create(self, path: str, content: bytes) -> bool:
        """Writes a file that is not there yet; False where it is."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Removes a file, where it is there."""

    @abstractmethod
    def clear(self) -> int:
        """Removes what broken tasks left below `UNFINISHED`; returns how many files."""


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

    @property
    def uri(self) -> str:
        """The root, as Spark takes it: Hadoop's paths know no escapes."""
        return Location.of(self.root).url

    @contextmanager
    def writing(self, path: str) -> Iterator[Sink]:
        """Gives a file that gets its name when the block ends, unless it raises."""
        unfinished, final = self._unfinished(), Path(path)
        try:
            with unfinished.open("wb") as file:

                def settle() -> None:
                    file.flush()
                    os.fdatasync(file.fileno())

                yield Sink(file, settle)
                file.flush()
                os.fsync(file.fileno())
            final.parent.mkdir(parents=True, exist_ok=True)
            unfinished.replace(final)
            _sync_directory(final.parent)
        finally:
            unfinished.unlink(missing_ok=True)

    def create(self, path: str, content: bytes) -> bool:
        """Writes a file that is not there yet; False where it is."""
        unfinished, final = self._unfinished(), Path(path)
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            with unfinished.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            final.hardlink_to(unfinished)
        except FileExistsError:
            return False
        finally:
            unfinished.unlink(missing_ok=True)
        _sync_directory(final.parent)
        return True

    def remove(self, path: str) -> None:
        """Removes a file, where it is there."""
        Path(path).unlink(missing_ok=True)

    def clear(self) -> int:
        """Removes what broken tasks left below `UNFINISHED`; returns how many files."""
        left = self.files(self.below(UNFINISHED))
        for entry in left:
            Path(entry.path).unlink(missing_ok=True)
        return len(left)

    def _unfinished(self) -> Path:
        folder = Path(self.below(UNFINISHED))
        folder.mkdir(parents=True, exist_ok=True)
        return folder / uuid.uuid4().hex


def _sync_directory(directory: Path) -> None:
    """Makes names durable that were given in a directory."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
            found = None if self.options else _by_pyarrow(self.url)
            if found is None:
                raise PathError(f"{self.url} cannot be opened: {error}", path=self.url) from error
            return found
        return system, path

    def _listed(self, path: str) -> list[dict[str, Any]]:
        system, _root = self._opened()
        # What others wrote meanwhile may not be in a list that was asked for before.
        system.invalidate_cache()
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
        # PyArrow's streams seek nowhere, not even to their beginning.
        return bytes(system.cat_file(path, start=start or None, end=end))

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

    @property
    def uri(self) -> str:
        """The root, as Spark takes it."""
        return self.url

    @contextmanager
    def writing(self, path: str) -> Iterator[Sink]:
        """Gives a file that gets its name when the block ends, unless it raises."""
        system, _root = self._opened()
        protocols = {system.protocol} if isinstance(system.protocol, str) else {*system.protocol}
        is_object_store = bool(protocols & _OBJECT_STORES)
        written = path if is_object_store else self.below(UNFINISHED, uuid.uuid4().hex)
        if not is_object_store:
            system.makedirs(written.rpartition("/")[0], exist_ok=True)
        file = system.open(written, "wb")
        try:
            yield Sink(file)
        except BaseException:
            # An object store has no way back from here: what is closed is there. No commit names
            # it, and the next run of the task writes it again.
            file.close()
            system.rm_file(written)
            raise
        file.close()
        if written != path:
            system.makedirs(path.rpartition("/")[0], exist_ok=True)
            system.mv(written, path)

    def create(self, path: str, content: bytes) -> bool:
        """Writes a file that is not there yet; False where it is."""
        system, _root = self._opened()
        # What others wrote meanwhile may not be in a list that was asked for before.
        system.invalidate_cache()
        if system.exists(path):
            return False
        with self.writing(path) as sink:
            sink.write(content)
        return True

    def remove(self, path: str) -> None:
        """Removes a file, where it is there."""
        system, _root = self._opened()
        with suppress(FileNotFoundError):
            system.rm_file(path)

    def clear(self) -> int:
        """Removes what broken tasks left below `UNFINISHED`; returns how many files."""
        system, _root = self._opened()
        left = self.files(self.below(UNFINISHED))
        for entry in left:
            system.rm_file(entry.path)
        return len(left)


def _by_pyarrow(url: str) -> tuple[Any, str] | None:
    """Returns the file system of a URL by PyArrow (S3, GCS, HDFS), None where it knows none.

    For schemes whose own package is not installed.
    """
    try:
        arrow = importlib.import_module("fsspec.implementations.arrow")
        system, path = importlib.import_module("pyarrow.fs").FileSystem.from_uri(url)
    except (ImportError, ValueError, OSError, NotImplementedError):
        return None
    return arrow.ArrowFSWrapper(system), path


def directory_of(location: Location, options: dict[str, Any] | None = None) -> Directory:
    """Returns the directory of a location: one that is not local is opened by fsspec.

    Args:
        location: The location; it need not be there.
        options: What fsspec opens it with.
    """
    if location.is_local:
        return LocalDirectory(location.path)
    return RemoteDirectory(location.url, options or {})
