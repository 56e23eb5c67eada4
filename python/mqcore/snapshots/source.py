"""The store that a snapshot is taken of: its files by kind, and where its log ends.

    with StoppedStore(Source(directory)) as stopped: ...   # no broker runs, and none can start
    Point(...)                                             # the word of a broker that runs

Knows names of files and the store's lock; no record.
"""

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from mqcore.numbered_files import folders, numbered
from mqcore.snapshots.errors import SnapshotError
from mqcore.snapshots.reading import content_end

__all__ = ["LATE_TABLES", "Point", "Source", "StoppedStore", "StoreFile", "lock_identity"]

# Tables of which a newer one goes with an older log: what they name is there, or harms nobody. All
# others are about places in the log, and an older one goes with a newer log.
LATE_TABLES: Final = frozenset(
    f"{name}.json{ending}"
    for name in (
        "topics",
        "subscriptionGroup",
        "topicQueueMapping",
        "messageRequestMode",
        "consumerFilter",
    )
    for ending in ("", ".bak")
)
_QUEUES: Final = ("consumequeue", "batchconsumequeue", "consumequeue_ext")
# Beside the tables: about the log as it was before it is read.
_EARLY: Final = ("checkpoint", "epochFileCheckpoint", "epochFileCheckpoint.bak")
_CONFIG: Final = "config"
_LOG: Final = "commitlog"
_OFFSET_DIGITS: Final = 20
_TIME_DIGITS: Final = 17
# struct flock of 64-bit Linux: type, whence, start, length, pid.
_FLOCK: Final = struct.Struct("@hhqqi4x")
_BYTE_0: Final = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)


@dataclass(frozen=True, slots=True)
class Point:
    """Where a snapshot's log ends.

    Attributes:
        end: Physical offset; None: with the last byte that is there.
        file_len_bytes: Length of a file of the log.
        broker: The name of the broker that answered so; empty where none runs.
        is_clean: Whether the store was stopped cleanly.
    """

    end: int | None
    file_len_bytes: int
    broker: str = ""
    is_clean: bool = False


@dataclass(frozen=True, slots=True)
class StoreFile:
    """A file to be taken.

    Attributes:
        path: Its name in the snapshot, below the store's directory.
        file: Where it is.
        is_settled: Whether nobody writes to it any more.
    """

    path: str
    file: Path
    is_settled: bool


@dataclass(frozen=True, slots=True)
class Source:
    """The directory of a store.

    Attributes:
        root: The store's directory.
        log_dir: The directory of the log.
    """

    root: Path
    log_dir: Path

    @classmethod
    def of(cls, root: Path, log_dir: Path | None = None) -> Self:
        """Returns the source of a directory.

        Raises:
            SnapshotError: It is no store.
        """
        found = cls(root.absolute(), (log_dir or root / _LOG).absolute())
        if not found.log_dir.is_dir():
            raise SnapshotError(f"{root} is no store: there is no {found.log_dir}", path=str(root))
        return found

    def early(self) -> list[StoreFile]:
        """Returns what is read before the point.

        So offsets never pass the log, and the checkpoint claims no more of queues than they have.
        """
        tables = [each for each in _files(self.root / _CONFIG) if each.name not in LATE_TABLES]
        # The check point of the timers among the tables, before wheel and log of the timers.
        found = [StoreFile(f"{_CONFIG}/{each.name}", each, False) for each in tables]
        paths = (self.root / name for name in _EARLY)
        return [*found, *(StoreFile(each.name, each, False) for each in paths if each.is_file())]

    def log(self, point: Point) -> list[StoreFile]:
        """Returns the files of the log up to a point, in their order."""
        found = numbered(self.log_dir, _OFFSET_DIGITS)
        end = point.end
        if end is None:
            # The next file may have been made already, and holds nothing.
            last = next((each for each in reversed(found) if content_end(each)), None)
            settled = found[: found.index(last)] if last is not None else []
            return [StoreFile(f"{_LOG}/{each.name}", each, each in settled) for each in found]
        return [
            StoreFile(f"{_LOG}/{each.name}", each, int(each.name) + point.file_len_bytes <= end)
            for each in found
            if int(each.name) < end
        ]

    def derived(self, point: Point) -> Iterator[StoreFile]:
        """Yields queues, index and timers: what an open makes again where it lacks."""
        for kind in _QUEUES:
            for topic in folders(self.root / kind):
                for queue in folders(topic):
                    path = f"{kind}/{topic.name}/{queue.name}"
                    yield from _all_but_last_settled(path, numbered(queue, _OFFSET_DIGITS))
        index = numbered(self.root / "index", _TIME_DIGITS)
        # The newest one is written in place, slot by slot: half of a change would hide older keys.
        # An open after a kill throws it away too, and makes it again.
        kept = index if point.is_clean else index[:-1]
        yield from (StoreFile(f"index/{each.name}", each, True) for each in kept)
        wheel = self.root / "timerwheel"
        if wheel.is_file():
            yield StoreFile(wheel.name, wheel, False)
        yield from _all_but_last_settled(
            "timerlog", numbered(self.root / "timerlog", _OFFSET_DIGITS)
        )

    def late(self) -> list[StoreFile]:
        """Returns the tables that are read last."""
        tables = (each for each in _files(self.root / _CONFIG) if each.name in LATE_TABLES)
        return [StoreFile(f"{_CONFIG}/{each.name}", each, False) for each in tables]

    def file_len_bytes(self) -> int:
        """Returns the length of a file of the log; 0 where there is none."""
        files = numbered(self.log_dir, _OFFSET_DIGITS)
        return files[0].stat().st_size if files else 0


class StoppedStore:
    """A store on which no broker runs; none can start on it until the block ends."""

    def __init__(self, source: Source) -> None:
        """Takes the source."""
        self._source = source
        self._descriptor = -1

    def __enter__(self) -> Point | None:
        """Returns the point; None where a broker runs on it."""
        with_lock = self._source.root / "lock"
        if with_lock.exists():
            self._descriptor = os.open(with_lock, os.O_RDWR | os.O_CLOEXEC)
            try:
                # As brokers take it, of RocketMQ and ours: the two keep each other out.
                fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _BYTE_0)
            except OSError as error:
                self._close()
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    return None
                raise
        is_clean = not (self._source.root / "abort").exists()
        return Point(None, self._source.file_len_bytes(), is_clean=is_clean)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Gives the store back."""
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def lock_identity(root: Path) -> str:
    """Returns by what a store's directory is known to be the same; empty without a lock file."""
    try:
        found = (root / "lock").stat()
    except FileNotFoundError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def _all_but_last_settled(path: str, files: list[Path]) -> Iterator[StoreFile]:
    for file in files:
        yield StoreFile(f"{path}/{file.name}", file, file != files[-1])


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(Path(each.path) for each in os.scandir(folder) if each.is_file())
    except FileNotFoundError:
        return []
