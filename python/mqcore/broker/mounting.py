"""A store that belongs to somebody else, served without a byte of it being changed.

    with Mount(Path("/archive/store"), Path("/var/lib/mqcore/mount")) as mount: ...

The directory of the mount gets links to the files that are only read, and copies of the few that
opening a store writes to: the last file of each queue, the last of the index, the checkpoint, and
the tables of `config`. The engine opens what is behind a link for reading alone, so that the
kernel refuses every write. Offsets of consumers are kept in the directory of the mount. Knows no
request, and no format but the names of files.
"""

import contextlib
import fcntl
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from mqcore.broker import policy
from mqcore.broker.state import BrokerState
from mqcore.config import BrokerSettings
from mqcore.errors import MountError
from mqcore.model.topics import PERM_READ, TopicConfig
from mqcore.numbered_files import folders, numbered

__all__ = ["Mount", "as_mounted", "know_stored_topics"]

# Names the source of the links; its lock keeps a second mount away.
_MARKER: Final = "mounted"
# The folders of queues, and whether an open writes to the last file of one. Of extensions nothing
# is written: what a start puts into queues again has none.
_QUEUES: Final = {"consumequeue": True, "batchconsumequeue": True, "consumequeue_ext": False}
# What a mount makes anew each time.
_MADE: Final = ("commitlog", *_QUEUES, "index", "truncated", "commitlog.preparing")
_MADE_FILES: Final = ("checkpoint", "abort", "lock", "queues.manifest", "queues.manifest.before")
_COPIED: Final = ("checkpoint", "abort")
# The name server of one process with the broker keeps its table here.
_BESIDE: Final = frozenset({"namesrv"})
# Names of files of the log and of queues are their first offset; those of the index a time.
_OFFSET_DIGITS: Final = 20
_TIME_DIGITS: Final = 17
# ioctl(2): the copy shares the blocks of the original until one of the two is written to.
_FICLONE: Final = 0x40049409


class Mount:
    """The directory of one mount; held until `close`."""

    def __init__(self, source: Path, into: Path, *, log_dir: Path | None = None) -> None:
        """Makes the directory of the mount, or makes it anew.

        Args:
            source: The store's directory.
            into: Where links and copies are made, and offsets kept: an empty or new directory, or
                that of an earlier mount.
            log_dir: The directory of the log where it is not below `source`.

        Raises:
            MountError: There is no store, or `into` contains something else, or a file cannot be
                linked or copied.
        """
        self.source = source.absolute()
        self._log_dir = (log_dir or source / "commitlog").absolute()
        self._into = into.absolute()
        self._marker = -1
        try:
            self._make()
        except OSError as error:
            self.close()
            raise MountError(f"{source} cannot be mounted at {into}: {error}") from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Gives the directory back."""
        self.close()

    def close(self) -> None:
        """Gives the directory back; what is in it stays."""
        if self._marker >= 0:
            os.close(self._marker)
            self._marker = -1

    def _make(self) -> None:
        if not self._log_dir.is_dir():
            raise MountError(f"{self.source} is no store: there is no {self._log_dir}")
        if self._into == self.source or self.source in self._into.parents:
            raise MountError(f"{self._into} lies in the store itself: nothing is written there")
        self._take()
        for name in _MADE:
            shutil.rmtree(self._into / name, ignore_errors=True)
        for name in _MADE_FILES:
            (self._into / name).unlink(missing_ok=True)
        _link(numbered(self._log_dir, _OFFSET_DIGITS), self._into / "commitlog", writes_last=False)
        for kind, writes_last in _QUEUES.items():
            for topic in folders(self.source / kind):
                for queue in folders(topic):
                    into = self._into / kind / topic.name / queue.name
                    _link(numbered(queue, _OFFSET_DIGITS), into, writes_last=writes_last)
        _link(numbered(self.source / "index", _TIME_DIGITS), self._into / "index", writes_last=True)
        for name in _COPIED:
            if (self.source / name).is_file():
                shutil.copyfile(self.source / name, self._into / name)
        self._copy_config()

    def _take(self) -> None:
        """Takes the directory for this mount alone.

        Raises:
            MountError: It holds something else, or another mount has it.
        """
        marker = self._into / _MARKER
        self._into.mkdir(parents=True, exist_ok=True)
        others = (each for each in self._into.iterdir() if each.name not in _BESIDE)
        if not marker.exists() and any(others):
            raise MountError(f"{self._into} is not empty, and no directory of a mount")
        self._marker = os.open(marker, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MountError(f"{self._into} is the directory of a mount that is served") from error
        os.ftruncate(self._marker, 0)
        os.pwrite(self._marker, f"{self.source}\n".encode(), 0)

    def _copy_config(self) -> None:
        """Copies the tables that no earlier mount left: those are this mount's own."""
        config = self._into / "config"
        config.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self.source / "config"):
                if entry.name.endswith(".json") and entry.is_file():
                    into = config / entry.name
                    if not into.exists():
                        shutil.copyfile(entry.path, into)


def _link(files: list[Path], into: Path, *, writes_last: bool) -> None:
    """Links files into a folder, but copies the last one where it is written to."""
    into.mkdir(parents=True, exist_ok=True)
    for file in files:
        if writes_last and file == files[-1]:
            _copy(file, into / file.name)
        else:
            (into / file.name).symlink_to(file)


def _copy(source: Path, into: Path) -> None:
    """Copies a file, sharing its blocks where the file system can; holes stay holes."""
    with source.open("rb") as original, into.open("xb") as copy:
        reads, writes = original.fileno(), copy.fileno()
        with contextlib.suppress(OSError):
            fcntl.ioctl(writes, _FICLONE, reads)
            return
        size = os.fstat(reads).st_size
        os.ftruncate(writes, size)
        at = 0
        while at < size:
            try:
                at = os.lseek(reads, at, os.SEEK_DATA)
            except OSError:
                # Nothing but a hole up to the end.
                return
            end = os.lseek(reads, at, os.SEEK_HOLE)
            while at < end:
                os.lseek(writes, at, os.SEEK_SET)
                done = os.sendfile(writes, reads, at, end - at)
                if not done:
                    return
                at += done


def know_stored_topics(state: BrokerState) -> None:
    """Makes the topics known that have queues: an archive may have come without its tables."""
    counts: dict[str, int] = {}
    for queue in state.store.queues():
        counts[queue.topic] = max(counts.get(queue.topic, 0), queue.queue_id + 1)
    for name, count in counts.items():
        known = state.topics.find(name)
        if known is None:
            made = TopicConfig(name=name, read_queues=count, write_queues=count, perm=PERM_READ)
            state.topics.put(made, state.now_ms())
        elif known.read_queues < count:
            state.topics.put(replace(known, read_queues=count), state.now_ms())
    policy.fill_topics(state, None)


def as_mounted(settings: BrokerSettings) -> BrokerSettings:
    """Returns settings with which a broker changes nothing of the store that it serves."""
    return replace(
        settings,
        permission=settings.permission & PERM_READ,
        creates_topics=False,
        has_timers=False,
        allows_recall=False,
    )
