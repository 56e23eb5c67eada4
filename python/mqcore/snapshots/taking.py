"""Takes a snapshot: what is there gets a second name at once, and is copied at leisure from there.

The order is what makes it consistent. Offsets, the checkpoint and what else is about places in the
log are read first; then the log is flushed, and ends where it is durable; then queues and index,
which an open brings to that end; last the topics. Retention may remove what it wants meanwhile: a
file with a second name stays. Knows names and orders, no broker.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mqcore.clock import wall_ms
from mqcore.snapshots.errors import SnapshotError
from mqcore.snapshots.manifest import FileRow, Identity, Manifest
from mqcore.snapshots.pool import Pool
from mqcore.snapshots.reading import (
    content_end,
    data_end,
    direct_pieces,
    read_growing,
    steps,
)
from mqcore.snapshots.reports import Report, unreported
from mqcore.snapshots.source import Point, Source, StoreFile
from mqcore.snapshots.units import cut_units, index_end, unit_bytes
from mqcore.version import __version__

__all__ = ["STAGE", "Taken", "take"]

# Second names of a store's files while a snapshot is taken, beside them: a link crosses no disk.
STAGE: Final = "mqcore.snapshot"
# A file that was changed within this time may change again with the same time stamp.
_UNCERTAIN_NS: Final = 2_000_000_000
_MODE: Final = 0o700
# Names in one folder of the stage.
_PER_FOLDER: Final = 10_000
# What is found again by its identity: files that are written front to back by calls, and so get a
# new time with each change; and those that nobody changes.
_REUSED: Final = ("commitlog/", "consumequeue", "batchconsumequeue", "index/")


@dataclass(frozen=True, slots=True)
class Taken:
    """A snapshot that was taken.

    Attributes:
        manifest: It.
        linked_files: Files that got another name, and were not copied.
        linked_bytes: Bytes of them.
        copied_files: Files that were copied.
        copied_bytes: Bytes of them.
        known_files: Files that the directory had already.
        known_bytes: Bytes of them.
        took_ms: How long it took.
    """

    manifest: Manifest
    linked_files: int
    linked_bytes: int
    copied_files: int
    copied_bytes: int
    known_files: int
    known_bytes: int
    took_ms: int


def take(
    source: Source,
    pool: Pool,
    point: Callable[[], Point],
    *,
    hashes_links: bool = True,
    bytes_per_second: int = 0,
    report: Report = unreported,
) -> Taken:
    """Takes a snapshot.

    Args:
        source: The store.
        pool: Where it goes.
        point: Flushes the log, and returns where the snapshot ends; called when all is read that
            must be older.
        hashes_links: Whether files of the log that are linked and not copied are read for their
            hash.
        bytes_per_second: How fast files are read at the most; 0: as fast as it goes.
        report: Called with how far it is.

    Raises:
        SnapshotError: It cannot be taken; nothing that counts is left.
    """
    taking = _Taking(source, pool, hashes_links, _Pace(bytes_per_second), report)
    try:
        with _stage(source) as stage:
            return taking.run(point, stage)
    except OSError as error:
        taking.undo()
        raise SnapshotError(
            f"no snapshot in {pool}: {error.strerror or error} ({error.filename or pool}); what "
            "was written for it is removed",
            path=str(pool),
        ) from error
    except BaseException:
        taking.undo()
        raise


@contextlib.contextmanager
def _stage(source: Source) -> Iterator[tuple[Path, Path]]:
    """Gives two names of folders, one beside the log; what a kill left there goes.

    Raises:
        SnapshotError: Another snapshot of the store is being taken.
    """
    folders = (source.log_dir.parent / STAGE, source.root / STAGE)
    for folder in folders:
        folder.mkdir(mode=_MODE, exist_ok=True)
    descriptor = os.open(folders[1], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            text = f"another snapshot of {source.root} is being taken"
            raise SnapshotError(text, path=str(source.root)) from error
        try:
            for folder in folders:
                for left in folder.iterdir():
                    shutil.rmtree(left)
            yield folders[0] / "log", folders[1] / "rest"
        finally:
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


class _Pace:
    """Keeps reads below a rate."""

    def __init__(self, bytes_per_second: int) -> None:
        self._rate = bytes_per_second
        self._began_s = time.monotonic()
        self._done = 0
        self._never = threading.Event()

    def note(self, len_bytes: int) -> None:
        """Waits as long as the bytes that were read should have taken."""
        if self._rate:
            self._done += len_bytes
            ahead_s = self._began_s + self._done / self._rate - time.monotonic()
            if ahead_s > 0:
                self._never.wait(ahead_s)


class _Taking:
    """One snapshot that is being taken."""

    def __init__(
        self, source: Source, pool: Pool, hashes_links: bool, pace: _Pace, report: Report
    ) -> None:
        self._source, self._pool = source, pool
        self._hashes_links, self._pace, self._report = hashes_links, pace, report
        self._links = pool.can_link(source.log_dir)
        self._rows: list[FileRow] = []
        self._written: list[str] = []
        self._before: dict[str, FileRow] = {}
        self._counts = dict.fromkeys(("linked", "copied", "known"), (0, 0))
        self._done = self._total = 0

    def run(self, point: Callable[[], Point], stage: tuple[Path, Path]) -> Taken:
        """Takes it."""
        began_ms = wall_ms()
        began_s = time.monotonic()
        source = f"{socket.gethostname()}:{self._source.root}"
        self._before = self._pool.rows_of(source)
        early = _read(self._source.early())
        end = point()
        log = _staged(self._source.log(end), stage[0])
        derived = _staged(self._source.derived(end), stage[1])
        late = _read(self._source.late())
        self._check_space(log, derived, end)
        for path, found, content in (*early, *late):
            self._take_content(path, found, content, None)
        # What still grows first: the nearer to the point, the less has to be brought to it.
        for each in derived:
            self._take_derived(each, end)
        for each in log:
            self._take_log(each, end)
        manifest = Manifest(
            name=_name(began_ms, self._pool.names()),
            taken_ms=began_ms,
            version=__version__,
            source=source,
            broker=end.broker,
            log_start=min((_base(each) for each in log), default=0),
            log_end=self._log_end(end),
            is_clean=end.is_clean,
            files=tuple(sorted(self._rows, key=lambda row: row.path)),
        )
        self._pool.add(manifest)
        counts = self._counts
        return Taken(
            manifest,
            *counts["linked"],
            *counts["copied"],
            *counts["known"],
            took_ms=int((time.monotonic() - began_s) * 1_000),
        )

    def undo(self) -> None:
        """Removes what was written for a snapshot that is none."""
        self._pool.forget(self._written)

    def _log_end(self, point: Point) -> int:
        if point.end is not None:
            return point.end
        rows = [row for row in self._rows if row.path.startswith("commitlog/") and row.stored_bytes]
        last = max(rows, key=lambda row: row.path, default=None)
        if last is None or not point.is_clean:
            return 0
        return int(last.path.rpartition("/")[2]) + last.stored_bytes

    def _check_space(self, log: list[StoreFile], derived: list[StoreFile], point: Point) -> None:
        """Refuses before anything is written where the directory has no space for it."""
        needed = 0
        for each in log:
            if not (each.is_settled and (self._links or self._known(each))):
                needed += _wanted_bytes(each, point)
        needed += sum(_data_bytes(each.file) for each in derived if not self._known(each))
        self._total = needed + sum(
            each.file.stat().st_size
            for each in log
            if each.is_settled and self._links and self._hashes_links and not self._known(each)
        )
        free = self._pool.free_bytes()
        if free is not None and needed > free:
            raise SnapshotError(
                f"no snapshot in {self._pool}: {needed} bytes are to be written, and {free} may be "
                "before the disk is 90 % full; nothing was written",
                path=str(self._pool),
            )

    def _known(self, each: StoreFile) -> FileRow | None:
        """Returns the row of the snapshot before, where the file has not changed since."""
        row = self._before.get(each.path)
        if row is None or row.identity is None or not each.path.startswith(_REUSED):
            return None
        if row.identity != _identity(each.file.stat()):
            return None
        if self._hashes_links and not row.sha256:
            return None
        return row if self._pool.has(row.name, row.stored_bytes) else None

    def _take_derived(self, each: StoreFile, point: Point) -> None:
        known = self._known(each)
        if known is not None:
            self._add("known", known)
            return
        if each.path.startswith("index/"):
            if point.end is None or index_end(each.file) < point.end:
                self._take_whole(each, each.file.stat(), content_end(each.file), is_linked=False)
            return
        found, content = read_growing(each.file)
        is_same = time.time_ns() - found.st_mtime_ns > _UNCERTAIN_NS
        unit_len = unit_bytes(each.path)
        if point.end is not None and unit_len:
            kept = cut_units(content, unit_len, point.end)
            if content and not kept:
                return
            is_same = is_same and len(kept) >= len(content)
            content = kept
        identity = _identity(found) if is_same else None
        self._take_content(each.path, found, content, identity)

    def _take_content(
        self, path: str, found: os.stat_result, content: bytes, identity: Identity | None
    ) -> None:
        found_hash = hashlib.sha256()
        for step in steps(content):
            found_hash.update(step)
        sha256 = found_hash.hexdigest()
        name = self._pool.name_of(sha256)
        row = FileRow(path, found.st_size, len(content), name, sha256, identity)
        kind = "known"
        if not self._pool.has(name, len(content)):
            self._write(name, steps(content))
            kind = "copied"
        self._add(kind, row)
        self._note(len(content))

    def _take_log(self, each: StoreFile, point: Point) -> None:
        known = self._known(each) if each.is_settled else None
        if known is not None:
            self._add("known", known)
            return
        found = each.file.stat()
        end = found.st_size if each.is_settled else _wanted_bytes(each, point)
        self._take_whole(each, found, end, is_linked=each.is_settled and self._links)

    def _take_whole(
        self, each: StoreFile, found: os.stat_result, end: int, *, is_linked: bool
    ) -> None:
        """Takes a file whose first `end` bytes do not change: linked, or read twice."""
        identity = _identity(found) if each.is_settled else None
        if is_linked and not self._hashes_links:
            row = FileRow(each.path, end, end, self._pool.linked_name_of(found), "", identity)
        else:
            sha256 = self._hash(each.file, end)
            row = FileRow(
                each.path, found.st_size, end, self._pool.name_of(sha256), sha256, identity
            )
        if self._pool.has(row.name, end):
            self._add("known", row)
        elif is_linked and self._pool.link(each.file, row.name):
            self._written.append(row.name)
            self._add("linked", row)
        else:
            self._write(row.name, self._noted(direct_pieces(each.file, end)))
            self._add("copied", row)

    def _hash(self, file: Path, end: int) -> str:
        sha256 = hashlib.sha256()
        done = 0
        for piece in direct_pieces(file, end):
            for step in steps(piece):
                sha256.update(step)
                self._pace.note(len(step))
            done += len(piece)
            if self._links:
                self._note(len(piece))
        if done != end:
            raise SnapshotError(f"{file} became shorter than {end} bytes", path=str(file))
        return sha256.hexdigest()

    def _noted(self, pieces: Iterator[memoryview]) -> Iterator[memoryview]:
        for piece in pieces:
            for step in steps(piece):
                self._pace.note(len(step))
                yield step
            self._note(len(piece))

    def _write(self, name: str, pieces: Iterator[memoryview]) -> None:
        self._written.append(name)
        self._pool.put(name, pieces)

    def _add(self, kind: str, row: FileRow) -> None:
        self._rows.append(row)
        files, len_bytes = self._counts[kind]
        self._counts[kind] = files + 1, len_bytes + row.stored_bytes

    def _note(self, len_bytes: int) -> None:
        self._done += len_bytes
        self._report(min(self._done, self._total), self._total)


def _read(files: list[StoreFile]) -> list[tuple[str, os.stat_result, bytes]]:
    """Returns small files with what is in them; one that is just being replaced is not there."""
    found = []
    for each in files:
        with contextlib.suppress(FileNotFoundError):
            found.append((each.path, *read_growing(each.file)))
    return found


def _staged(files: "list[StoreFile] | Iterator[StoreFile]", stage: Path) -> list[StoreFile]:
    """Gives files a second name; what retention has removed just before is not there any more."""
    found = []
    for number, each in enumerate(files):
        link = stage / str(number // _PER_FOLDER) / str(number)
        link.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.link(each.file, link)
            found.append(StoreFile(each.path, link, each.is_settled))
    return found


def _identity(found: os.stat_result) -> Identity:
    return Identity(found.st_ino, found.st_size, found.st_mtime_ns)


def _base(each: StoreFile) -> int:
    return int(each.path.rpartition("/")[2])


def _wanted_bytes(each: StoreFile, point: Point) -> int:
    """Returns how much of a file of the log belongs to the snapshot."""
    if point.end is None:
        return content_end(each.file)
    return min(point.end - _base(each), each.file.stat().st_size)


def _data_bytes(file: Path) -> int:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return data_end(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def _name(began_ms: int, taken: list[str]) -> str:
    """Returns a name that sorts behind those that are there."""
    moment = datetime.fromtimestamp(began_ms / 1_000, UTC)
    name = moment.strftime("%Y%m%dT%H%M%S.") + f"{began_ms % 1_000:03}Z"
    return name if name not in taken else f"{name}-{len(taken)}"
