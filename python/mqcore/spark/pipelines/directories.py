"""Where an archive lives: a local directory, or anything that pyarrow can reach (S3, GCS, HDFS).

Two promises, and how each kind of directory keeps them. A data file that has its name is whole: a
local file is written under another name, synced and renamed; an object store shows an object when
it was closed. A commit is written once: a local one is linked, which fails where the name is taken;
an object store only looks before it writes, so that one program at a time may archive into it.
"""

import io
import os
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from pyarrow import fs

from mqcore.spark.locations import Location
from mqcore.spark.pipelines.errors import ArchiveError
from mqcore.spark.pipelines.layout import UNFINISHED

__all__ = ["Directory", "LocalDirectory", "RemoteDirectory", "Sink", "directory_of"]

# File systems whose files are not there until they are closed.
_ATOMIC_TYPES = frozenset({"s3", "gcs", "abfs"})


class Sink(io.RawIOBase):
    """A file that counts and sums what is written to it, as Parquet writers want one.

    Closing it does not close the file, which is the directory's; nor does flushing: the directory
    syncs at the end.
    """

    def __init__(self, target: Any) -> None:
        """Takes an open file."""
        super().__init__()
        self._target = target
        self.size_bytes = 0
        self.crc32 = 0

    def write(self, data: Any) -> int:
        """Writes all of it."""
        view = memoryview(data).cast("B")
        self.crc32 = zlib.crc32(view, self.crc32)
        self.size_bytes += len(view)
        self._target.write(view)
        return len(view)

    def writable(self) -> bool:
        """Returns True, which pyarrow asks for."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Returns how many bytes were written, for `io.IOBase`, which asks for its position so.

        Raises:
            io.UnsupportedOperation: It is to go anywhere else.
        """
        if (offset, whence) != (0, io.SEEK_CUR):
            raise io.UnsupportedOperation("a file that is summed is written front to back")
        return self.size_bytes


class Directory(Protocol):
    """A directory tree with the two promises."""

    @property
    def uri(self) -> str:
        """The directory, as Spark takes it."""

    def exists(self) -> bool:
        """Returns whether the directory is there."""

    def names(self, folder: str) -> list[str]:
        """Returns the files of a folder, sorted; none where there is no folder."""

    def read(self, path: str) -> bytes:
        """Returns a small file."""

    @contextmanager
    def writing(self, path: str) -> Iterator[Sink]:
        """Gives a file that gets its name when the block ends, unless it raises."""

    def create(self, path: str, content: bytes) -> bool:
        """Writes a file that is not there yet; False where it is."""

    def clear(self) -> int:
        """Removes what broken tasks left; returns how many files."""


def directory_of(target: str | Path) -> Directory:
    """Returns the directory of a path or URI.

    Raises:
        ArchiveError: Nothing here can reach it.
    """
    location, text = Location.of(target), str(target)
    if location.is_local:
        return LocalDirectory(Path(location.path).absolute())
    try:
        filesystem, root = fs.FileSystem.from_uri(text)
    except (ValueError, OSError, NotImplementedError) as error:
        raise ArchiveError(f"{text} cannot be reached: {error}", path=text) from error
    return RemoteDirectory(filesystem, root, text)


class LocalDirectory:
    """A directory of this machine, or one that all machines have mounted."""

    def __init__(self, root: Path) -> None:
        """Takes the directory, which need not be there."""
        self._root = root

    @property
    def uri(self) -> str:
        """The directory, as Spark takes it: Hadoop's paths know no escapes."""
        return Location.of(self._root).url

    def exists(self) -> bool:
        """Returns whether the directory is there."""
        return self._root.is_dir()

    def names(self, folder: str) -> list[str]:
        """Returns the files of a folder, sorted; none where there is no folder."""
        where = self._root / folder
        if not where.is_dir():
            return []
        return sorted(entry.name for entry in where.iterdir() if entry.is_file())

    def read(self, path: str) -> bytes:
        """Returns a small file."""
        return (self._root / path).read_bytes()

    @contextmanager
    def writing(self, path: str) -> Iterator[Sink]:
        """Gives a file that gets its name when the block ends, unless it raises."""
        unfinished = self._unfinished()
        try:
            with unfinished.open("wb") as file:
                yield Sink(file)
                file.flush()
                os.fsync(file.fileno())
            final = self._root / path
            final.parent.mkdir(parents=True, exist_ok=True)
            unfinished.replace(final)
            _sync_directory(final.parent)
        finally:
            unfinished.unlink(missing_ok=True)

    def create(self, path: str, content: bytes) -> bool:
        """Writes a file that is not there yet; False where it is."""
        unfinished = self._unfinished()
        final = self._root / path
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

    def clear(self) -> int:
        """Removes what broken tasks left; returns how many files."""
        left = self.names(UNFINISHED)
        for name in left:
            (self._root / UNFINISHED / name).unlink(missing_ok=True)
        return len(left)

    def _unfinished(self) -> Path:
        folder = self._root / UNFINISHED
        folder.mkdir(parents=True, exist_ok=True)
        return folder / uuid.uuid4().hex


def _sync_directory(directory: Path) -> None:
    """Makes names durable that were given in a directory."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class RemoteDirectory:
    """A directory of a file system that pyarrow reaches."""

    def __init__(self, filesystem: Any, root: str, uri: str) -> None:
        """Takes the file system, the directory in it, and both as a person gave them."""
        self._files = filesystem
        self._root = root.rstrip("/")
        self._uri = uri

    @property
    def uri(self) -> str:
        """The directory, as Spark takes it."""
        return self._uri

    def exists(self) -> bool:
        """Returns whether the directory is there."""
        return self._kind("") is not fs.FileType.NotFound

    def names(self, folder: str) -> list[str]:
        """Returns the files of a folder, sorted; none where there is no folder."""
        selector = fs.FileSelector(self._path(folder), allow_not_found=True)
        entries = self._files.get_file_info(selector)
        return sorted(entry.base_name for entry in entries if entry.type is fs.FileType.File)

    def read(self, path: str) -> bytes:
        """Returns a small file."""
        with self._files.open_input_stream(self._path(path)) as file:
            return bytes(file.read())

    @contextmanager
    def writing(self, path: str) -> Iterator[Sink]:
        """Gives a file that gets its name when the block ends, unless it raises."""
        final = self._path(path)
        is_atomic = self._files.type_name in _ATOMIC_TYPES
        written = final if is_atomic else self._path(f"{UNFINISHED}/{uuid.uuid4().hex}")
        self._files.create_dir(written.rpartition("/")[0], recursive=True)
        stream = self._files.open_output_stream(written)
        try:
            yield Sink(stream)
        except BaseException:
            # An object store has no way back from here: what is closed is there. No commit names
            # it, and the next run of the task writes it again.
            stream.close()
            self._files.delete_file(written)
            raise
        stream.close()
        if written != final:
            self._files.create_dir(final.rpartition("/")[0], recursive=True)
            self._files.move(written, final)

    def create(self, path: str, content: bytes) -> bool:
        """Writes a file that is not there yet; False where it is."""
        if self._kind(path) is not fs.FileType.NotFound:
            return False
        with self.writing(path) as sink:
            sink.write(content)
        return True

    def clear(self) -> int:
        """Removes what broken tasks left; returns how many files."""
        left = self.names(UNFINISHED)
        for name in left:
            self._files.delete_file(self._path(f"{UNFINISHED}/{name}"))
        return len(left)

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _kind(self, path: str) -> Any:
        return self._files.get_file_info(self._path(path)).type
