"""Small files that hold one table each: read with their `.bak`, replaced durably.

`StateFile` is the file with its generation before, and blocks on the disk; `PersistedTable` is a
table with its file on an event loop, and waits for the disk in threads. Neither knows a format: the
table's codec reads and makes the content.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from inspect import isawaitable
from pathlib import Path
from typing import Final, TypeAlias

from mqcore.errors import MQError, StateFileError
from mqcore.native import write_state

__all__ = ["LEN_MAX_BYTES", "PersistedTable", "Snapshot", "StateFile"]

_log = logging.getLogger(__name__)

# Longest file that is read, as long as the engine writes one.
LEN_MAX_BYTES: Final = 256 << 20
_ABSENT: Final = "it is missing or empty"

# Makes the content of a file from a table as it was, in any thread.
Snapshot: TypeAlias = Callable[[], bytes]


class StateFile:
    """One small file with its generation before, as RocketMQ's `ConfigManager` names them."""

    def __init__(
        self, path: Path, *, empty_is_absent: bool = True, is_private: bool = False
    ) -> None:
        """Takes the path; touches nothing.

        Args:
            path: Where it is.
            empty_is_absent: Whether an empty file holds nothing, as for the broker's tables, or is
                a torn one.
            is_private: Whether nobody but its owner may read it: it holds secrets.
        """
        self.path = path
        self._is_private = is_private
        self._empty_is_absent = empty_is_absent

    @classmethod
    def of_store(cls, store_dir: Path, name: str) -> "StateFile":
        """Returns a table of a broker, in the directory `config` of its store."""
        return cls(store_dir / "config" / name)

    @property
    def backup(self) -> Path:
        """The generation before."""
        return self.path.with_name(f"{self.path.name}.bak")

    def load(self, take: Callable[[bytes], None]) -> bool:
        """Gives the newest generation that can be read to `take`.

        Args:
            take: Takes a content, or raises `MQError` and takes nothing.

        Returns:
            Whether there was one.

        Raises:
            StateFileError: There is content, and no generation can be read.
        """
        why = self._take(self.path, take)
        if why is None:
            return True
        backup_why = self._take(self.backup, take)
        if backup_why is None:
            if why:
                _log.warning("%s cannot be read (%s): %s is used", self.path, why, self.backup)
            return True
        if not why and not backup_why:
            return False
        raise StateFileError(
            f"{self.path}: {why or _ABSENT}, nor can {self.backup.name} be read: "
            f"{backup_why or _ABSENT}. Restore it, or remove both to start with nothing",
            path=str(self.path),
            why=why or backup_why,
        )

    def _take(self, path: Path, take: Callable[[bytes], None]) -> str | None:
        """Returns None where it was taken, `""` where there is nothing, else what is wrong."""
        try:
            if path.stat().st_size > LEN_MAX_BYTES:
                return f"it has more than {LEN_MAX_BYTES} bytes"
            content = path.read_bytes()
        except FileNotFoundError:
            return ""
        except OSError as error:
            return error.strerror or str(error)
        if not content.strip():
            return "" if self._empty_is_absent else "it is empty"
        try:
            take(content)
        except MQError as error:
            return error.message
        return None

    def save(self, content: bytes) -> None:
        """Replaces the file; on return both generations survive power loss.

        Raises:
            StoreError: It cannot be written; the old content stays.
        """
        write_state(self.path, content, is_private=self._is_private)


class PersistedTable:
    """One table and its file, on one event loop.

    Knows which version of the table the file has. One write is under way at a time; who asks for
    one meanwhile shares the next.
    """

    def __init__(
        self,
        file: StateFile,
        *,
        load: Callable[[bytes], None],
        snapshot: Callable[[], Snapshot | Awaitable[Snapshot | None]],
        version: Callable[[], Hashable] | None = None,
    ) -> None:
        """Takes file and codec; touches nothing.

        Args:
            file: The file.
            load: Takes a content into the table, or raises `MQError` and takes nothing.
            snapshot: Takes what there is to write, on the loop, and returns what makes the content
                of it in a thread: a table of ten thousand topics takes a tenth of a second. It is
                awaited where it has to wait first, such as for what must be durable before; None
                where that does not come: the file stays, and the next call writes.
            version: Returns what differs after each change of the table; `save_if_changed` needs
                it.
        """
        self._file = file
        self._load = load
        self._snapshot = snapshot
        self._version = version
        self._saved_version: Hashable = None
        self._lock = asyncio.Lock()
        self._asked = 0
        self._written = 0
        # The last write; a caller that was cancelled left it under way.
        self._write: asyncio.Future[None] | None = None

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._file.path

    def load(self) -> bool:
        """Reads the newest generation that the table can take. Blocks on the disk.

        Returns:
            Whether there was one.

        Raises:
            StateFileError: There is content, and no generation can be read.
        """
        return self._file.load(self._load)

    def note_saved(self) -> None:
        """Notes that the file has what the table has now: no write is needed until a change."""
        if self._version is not None:
            self._saved_version = self._version()

    @property
    def is_saved(self) -> bool:
        """Whether the file has what the table has now."""
        return self._version is not None and self._version() == self._saved_version

    async def save(self) -> None:
        """Writes the table as it is now, or later.

        Cancelling does not stop a write that has begun.

        Raises:
            MQError: It cannot be written; the old file stays.
        """
        self._asked += 1
        mine = self._asked
        async with self._lock:
            if self._written < mine:
                await self._save()

    async def go_back(self, empty: bytes) -> None:
        """Writes what may be written, and takes the file back where that is not all of the table.

        Args:
            empty: A content without a row, for a table without a file.

        Raises:
            MQError: It cannot be written or read.
        """
        await self.save_if_changed()
        if not self.is_saved:
            if not await asyncio.to_thread(self.load):
                self._load(empty)
            self.note_saved()

    async def save_if_changed(self) -> None:
        """Writes the table if its version is another than that of the file.

        Cancelling does not stop a write that has begun.

        Raises:
            MQError: It cannot be written; the old file stays, and the next call writes.
        """
        if self._version is None:
            raise RuntimeError(f"{self.path} has no version to compare")
        async with self._lock:
            if self._version() != self._saved_version:
                await self._save()

    async def _save(self) -> None:
        """Writes once; the lock is held. What changes meanwhile is left to the next write."""
        asked = self._asked
        version = self._version() if self._version is not None else None
        taken = self._snapshot()
        text = await taken if isawaitable(taken) else taken
        if text is None:
            return
        if self._write is not None and not self._write.done():
            await asyncio.wait([self._write])
        write = asyncio.ensure_future(asyncio.to_thread(lambda: self._file.save(text())))
        self._write = write
        await asyncio.shield(write)
        self._written = asked
        self._saved_version = version
