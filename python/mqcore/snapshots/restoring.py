"""Brings a snapshot into a directory: beside its place first, into place when all of it is whole.

Until the last step the directory holds one folder, which no broker takes for a store. A restore
that was interrupted goes on where it was. Knows no broker, and no record.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqcore.snapshots.errors import SnapshotError
from mqcore.snapshots.manifest import FileRow, Manifest
from mqcore.snapshots.pool import Pool
from mqcore.snapshots.reports import Report, unreported

__all__ = ["Restored", "restore"]

_FOLDER: Final = "mqcore.restoring"
_TREE: Final = "store"
_WHICH: Final = "snapshot.json"
_PART: Final = ".part"
# Who was started on a directory with this file recovers first.
_ABORT: Final = "abort"
# Moved into place last: without it there is no store.
_LOG: Final = "commitlog"
# What a new file system holds.
_OF_FILE_SYSTEMS: Final = frozenset({"lost+found"})


@dataclass(frozen=True, slots=True)
class Restored:
    """A snapshot that was restored.

    Attributes:
        manifest: It.
        files: Files that were written.
        len_bytes: Bytes of them that were read and compared with their hash.
        kept_files: Files that an interrupted restore had written.
        unhashed_files: Files of the snapshot that have no hash: `mqcore store verify` judges them.
    """

    manifest: Manifest
    files: int
    len_bytes: int
    kept_files: int
    unhashed_files: int


def restore(
    pool: Pool,
    name: str | None,
    directory: Path,
    *,
    report: Report = unreported,
) -> Restored:
    """Restores a snapshot into an empty or new directory.

    Args:
        pool: The directory of snapshots.
        name: The snapshot; None for the newest.
        directory: Where it goes.
        report: Called with how far it is: bytes that are done, and all.

    Raises:
        SnapshotError: The directory holds something else, or a file is missing or other than it
            was; nothing is in place then, and the same call goes on where it was.
    """
    manifest = pool.manifest(name)
    try:
        with _Restoring(pool, manifest, directory) as restoring:
            return restoring.run(report)
    except OSError as error:
        raise SnapshotError(
            f"{directory} is not restored: {error.strerror or error} ({error.filename or ''}); "
            f"the same command goes on where it was, or remove {directory / _FOLDER}",
            path=str(directory),
        ) from error


class _Restoring:
    """One restore; holds the directory while it runs."""

    def __init__(self, pool: Pool, manifest: Manifest, directory: Path) -> None:
        self._pool, self._manifest = pool, manifest
        self._directory = directory
        self._folder = directory / _FOLDER
        self._tree = self._folder / _TREE
        self._descriptor = -1

    def __enter__(self) -> "_Restoring":
        self._directory.mkdir(parents=True, exist_ok=True)
        self._refuse_used()
        self._tree.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._descriptor)
            raise self._error("is being restored by somebody else") from error
        (self._folder / _WHICH).write_bytes(self._manifest.to_bytes())
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def run(self, report: Report) -> Restored:
        """Restores."""
        rows = self._manifest.files
        self._check_space()
        done, files, kept = 0, 0, 0
        total = self._manifest.len_bytes
        for row in rows:
            target = self._tree / row.path
            if self._is_there(target, row):
                kept += 1
            else:
                self._write(row, target)
                files += 1
            done += row.stored_bytes
            report(done, total)
        if not self._manifest.is_clean and not (self._directory / _ABORT).exists():
            (self._tree / _ABORT).touch()
        self._move()
        return Restored(
            self._manifest,
            files,
            done,
            kept,
            sum(not row.sha256 for row in rows),
        )

    def _refuse_used(self) -> None:
        """Refuses a directory that holds anything but an interrupted restore of this snapshot."""
        found = {each.name for each in self._directory.iterdir()} - _OF_FILE_SYSTEMS
        which = self._folder / _WHICH
        if which.is_file():
            other = Manifest.of_bytes(which.read_bytes(), str(which))
            if other != self._manifest:
                raise self._error(
                    f"holds an interrupted restore of {other.name} of {other.source}: end that one "
                    f"by its name, or remove {self._folder}"
                )
            found -= {_ABORT, *(row.path.partition("/")[0] for row in self._manifest.files)}
        found -= {_FOLDER}
        if found:
            some = ", ".join(sorted(found)[:3])
            raise self._error(f"is not empty ({some}): a snapshot goes into a new directory")

    def _error(self, why: str) -> SnapshotError:
        return SnapshotError(f"{self._directory} {why}", path=str(self._directory))

    def _check_space(self) -> None:
        needed = sum(
            row.len_bytes if row.path.startswith(_LOG) else row.stored_bytes
            for row in self._manifest.files
            if not self._is_there(self._tree / row.path, row)
        )
        space = os.statvfs(self._directory)
        free = space.f_bavail * space.f_frsize
        if needed > free:
            raise self._error(f"has {free} bytes free, and {needed} are needed")

    def _is_there(self, target: Path, row: FileRow) -> bool:
        for path in (target, self._directory / row.path):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if path.stat().st_size == row.len_bytes:
                    return True
        return False

    def _write(self, row: FileRow, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + _PART)
        sha256 = hashlib.sha256()
        done = 0
        with part.open("wb", buffering=0) as file:
            if row.path.startswith(_LOG) and row.len_bytes:
                # A map is written to later: a hole on a full disk would end the broker.
                os.posix_fallocate(file.fileno(), 0, row.len_bytes)
            for piece in self._pieces(row):
                sha256.update(piece)
                _write_all(file.fileno(), piece)
                done += len(piece)
            os.ftruncate(file.fileno(), row.len_bytes)
            os.fsync(file.fileno())
        if done != row.stored_bytes or (row.sha256 and sha256.hexdigest() != row.sha256):
            part.unlink()
            raise SnapshotError(
                f"{row.path} of {self._manifest.name} is not what it was when it was stored "
                f"({self._pool.file(row.name)}): nothing is restored",
                path=self._pool.file(row.name),
            )
        part.rename(target)

    def _pieces(self, row: FileRow) -> Iterator[bytes | memoryview]:
        path = self._pool.file(row.name)
        if row.stored_bytes == 0:
            return
        try:
            yield from self._pool.directory.pieces(path, 0, row.stored_bytes)
        except FileNotFoundError as error:
            raise SnapshotError(
                f"{row.path} of {self._manifest.name} is gone ({path}): nothing is restored",
                path=path,
            ) from error

    def _move(self) -> None:
        """Moves everything into place, the log last."""
        for folder, _folders, _files in os.walk(self._tree):
            _sync_folder(Path(folder))
        names = sorted((each.name for each in self._tree.iterdir()), key=lambda name: name == _LOG)
        for name in names:
            (self._tree / name).rename(self._directory / name)
        _sync_folder(self._directory)
        shutil.rmtree(self._folder)
        _sync_folder(self._directory)


def _write_all(descriptor: int, piece: bytes | memoryview) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
