"""A directory of snapshots: each file once by the hash of its bytes, and a manifest per snapshot.

    files/3f/3fa9...        bytes; the name is their SHA-256
    files/as-linked/7-...   a file of the log that was linked and not hashed
    snapshots/NAME.json     a manifest, written last

Local, or any file system of fsspec. One program at a time writes there.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

from mqcore.snapshots.errors import SnapshotError
from mqcore.snapshots.manifest import FileRow, Manifest
from mqcore.spark.directories import Directory, FileEntry, directory_of
from mqcore.spark.locations import Location

__all__ = ["Pool", "Removed"]

_FILES: Final = "files"
_SNAPSHOTS: Final = "snapshots"
_AS_LINKED: Final = "as-linked"
_ENDING: Final = ".json"
# So many digits of a hash make a folder: 256 of them hold a million files in thousands each.
_FOLDER_DIGITS: Final = 2
# As sends are refused on a disk that is fuller (`diskSpaceWarningLevelRatio`): a copy beside the
# store must not take its space.
_FILL_MAX: Final = 0.90


class Removed(NamedTuple):
    """What was removed.

    Attributes:
        snapshots: Manifests.
        files: Files that no other snapshot has.
        len_bytes: Bytes of them.
    """

    snapshots: int
    files: int
    len_bytes: int


@dataclass(frozen=True, slots=True)
class Pool:
    """A directory of snapshots.

    Attributes:
        directory: Where it is.
        path: Its root on this machine; None where it is elsewhere.
    """

    directory: Directory
    path: Path | None

    @classmethod
    def at(cls, text: str) -> Self:
        """Returns the directory that a path or URL means; it need not be there."""
        location = Location.of(text).absolute()
        path = Path(location.path) if location.is_local else None
        return cls(directory_of(location), path)

    def __str__(self) -> str:
        """Returns where it is."""
        return self.directory.uri if self.path is None else str(self.path)

    @staticmethod
    def name_of(sha256: str) -> str:
        """Returns the name of a file with a hash."""
        return f"{sha256[:_FOLDER_DIGITS]}/{sha256}"

    @staticmethod
    def linked_name_of(found: os.stat_result) -> str:
        """Returns the name of a file that is not hashed."""
        return f"{_AS_LINKED}/{found.st_ino}-{found.st_size}-{found.st_mtime_ns}"

    def file(self, name: str) -> str:
        """Returns the path of a file."""
        return self.directory.below(_FILES, name)

    def has(self, name: str, stored_bytes: int) -> bool:
        """Returns whether a file is there, with all its bytes."""
        return self.directory.size(self.file(name)) == stored_bytes

    def names(self) -> list[str]:
        """Returns the names of the snapshots, the oldest first."""
        found = self.directory.files(self.directory.below(_SNAPSHOTS))
        ended = (each.name for each in found if each.name.endswith(_ENDING))
        return sorted(name.removesuffix(_ENDING) for name in ended)

    def manifest(self, name: str | None = None) -> Manifest:
        """Returns a snapshot: by its name, or the newest.

        Raises:
            SnapshotError: It is not there, or cannot be read.
        """
        names = self.names()
        if not names:
            raise SnapshotError(f"{self}: there is no snapshot", path=str(self))
        if name is not None and name not in names:
            shown = ", ".join(names)
            raise SnapshotError(f"{self}: no snapshot {name}; there: {shown}", path=str(self))
        path = self.directory.below(_SNAPSHOTS, f"{name or names[-1]}{_ENDING}")
        return Manifest.of_bytes(self.directory.read(path), path)

    def add(self, manifest: Manifest) -> None:
        """Writes a manifest: with it the snapshot is one.

        Raises:
            SnapshotError: There is one of this name.
        """
        path = self.directory.below(_SNAPSHOTS, f"{manifest.name}{_ENDING}")
        if not self.directory.create(path, manifest.to_bytes()):
            raise SnapshotError(f"{path} is there already", path=path)

    def put(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Writes a file; it has its name when it is whole."""
        with self.directory.writing(self.file(name)) as sink:
            for piece in pieces:
                sink.write(piece)

    def link(self, file: Path, name: str) -> bool:
        """Gives a file of this machine a name here; returns whether that is possible."""
        if self.path is None:
            return False
        into = Path(self.file(name))
        into.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(file, into)
        except FileExistsError:
            return True
        except OSError:
            # Another file system, or one without links: it is copied then.
            return False
        return True

    def can_link(self, folder: Path) -> bool:
        """Returns whether it lies on the file system of a folder."""
        if self.path is None:
            return False
        self.path.mkdir(parents=True, exist_ok=True)
        return self.path.stat().st_dev == folder.stat().st_dev

    def free_bytes(self) -> int | None:
        """Returns how many bytes may be written here; None where nobody knows."""
        if self.path is None:
            return None
        self.path.mkdir(parents=True, exist_ok=True)
        space = os.statvfs(self.path)
        # As `df` counts: of what may be used, not of what the device has.
        usable = space.f_blocks - space.f_bfree + space.f_bavail
        return max(0, space.f_bavail - int(usable * (1 - _FILL_MAX))) * space.f_frsize

    def forget(self, names: Iterable[str]) -> None:
        """Removes files that belong to no snapshot yet."""
        for name in names:
            # What cannot be removed lies in the way of nobody.
            with suppress(OSError):
                self.directory.remove(self.file(name))

    def keep(self, count: int) -> Removed:
        """Removes all snapshots but the newest, and what none of those has.

        Args:
            count: How many stay.
        """
        names = self.names()
        gone = names[:-count]
        kept = {row.name for name in names[-count:] for row in self.manifest(name).files}
        for name in gone:
            self.directory.remove(self.directory.below(_SNAPSHOTS, f"{name}{_ENDING}"))
        left = [(name, entry) for name, entry in self._entries() if name not in kept]
        for _name, entry in left:
            self.directory.remove(entry.path)
        self.directory.clear()
        return Removed(len(gone), len(left), sum(entry.len_bytes for _, entry in left))

    def _entries(self) -> Iterator[tuple[str, FileEntry]]:
        root = self.directory.below(_FILES)
        for folder in self.directory.directories(root):
            for entry in self.directory.files(self.directory.below(_FILES, folder)):
                yield f"{folder}/{entry.name}", entry

    def rows_of(self, source: str) -> dict[str, FileRow]:
        """Returns the files of the newest snapshot of a source, by their paths."""
        for name in reversed(self.names()):
            manifest = self.manifest(name)
            if manifest.source == source:
                return {row.path: row for row in manifest.files}
        return {}
