"""A store directory looked at as it lies there: nothing is changed, nothing is locked.

A broker may run on it meanwhile. Sizes are those of the files unless settings give others.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from mqcore.native._native import BadRecord, IndexCapacity, Message, NativeInspection, Rebuilt
from mqcore.native._native import index_capacity as _index_capacity
from mqcore.native._native import next_bad_record as _next_bad_record
from mqcore.native._native import rebuild as _rebuild
from mqcore.native._native import replace_bad_record as _replace_bad_record
from mqcore.native._native import resident_parts as _resident_parts
from mqcore.native.store import Setting, setting_texts

# Enough for a usual message; a longer one is read again with what it needs.
_ONE_MESSAGE_BYTES = 4096


def rebuild(path: str | Path, *, config: Mapping[str, Setting]) -> Rebuilt:
    """Builds queues and index of a closed store again, into place. The log is only read.

    Args:
        path: The store's directory.
        config: Settings by their official keys; sizes must be those of the files.

    Raises:
        StoreLockedError: A broker runs on it.
        DamagedError: Whole records are behind a bad one.
    """
    return _rebuild(setting_texts(path, config))


def next_bad_record(
    path: str | Path, *, config: Mapping[str, Setting], physical_offset: int = 0
) -> BadRecord | None:
    """Returns the first bad record of a closed store that has whole ones behind it; or None.

    Args:
        path: The store's directory.
        config: Settings by their official keys; sizes must be those of the files.
        physical_offset: Where a record begins, from which on is looked.

    Raises:
        StoreError: The log cannot be read.
    """
    return _next_bad_record(setting_texts(path, config), physical_offset)


def replace_bad_record(
    path: str | Path,
    *,
    config: Mapping[str, Setting],
    physical_offset: int,
    record: bytes,
    around: Sequence[tuple[int, bytes]],
    is_dry: bool,
) -> str:
    """Puts a record of another replica in place of a bad one of a closed store.

    Args:
        path: The store's directory.
        config: Settings by their official keys; sizes must be those of the files.
        physical_offset: Where the bad record begins.
        record: What the other replica has there.
        around: What it has at `before` and `next_whole` of the bad record.
        is_dry: Look at everything, and write nothing.

    Returns:
        The path at which the bad bytes are kept.

    Raises:
        StoreLockedError: A broker runs on it.
        NotWritableError: The replicas differ in more than that record, theirs is none of this
            place, or the place is beyond what is confirmed.
    """
    return _replace_bad_record(
        setting_texts(path, config), physical_offset, record, list(around), is_dry=is_dry
    )


def index_capacity(folder: str | Path, *, slots: int, entries: int) -> IndexCapacity | None:
    """Returns how much the index files of a folder hold; None without a file, or where none fits.

    RocketMQ writes it nowhere: the length and the content of the first file show it.

    Args:
        folder: The folder of the index.
        slots: Hash slots by the settings, which win where the files may have them.
        entries: Entries by the settings.

    Raises:
        StoreError: A file cannot be read.
    """
    return _index_capacity(str(folder), slots, entries)


def resident_parts(path: str | Path, parts: int) -> list[int] | None:
    """Returns how many bytes of a file are in memory (the page cache), by equal parts of it.

    Asks the kernel for every page of the file: belongs in a thread.

    Args:
        path: The file.
        parts: Into how many parts it is divided; of a short file there are fewer.

    Returns:
        Bytes by part, from the start of the file on; empty for an empty file, None where there is
        no such file, it belongs to somebody else, or the system does not report it.

    Raises:
        StoreError: The file cannot be looked at.
    """
    return _resident_parts(str(path), parts)


class Inspection(NativeInspection):
    """A look at a store directory.

    Args:
        path: The directory.
        config: Settings by their official keys, where the sizes of files are not to be taken from
            the files.

    Raises:
        StoreError: There is no store, or its files do not fit together.
    """

    def __new__(cls, path: str | Path, *, config: Mapping[str, Setting] | None = None) -> Self:
        """Opens the directory."""
        return super().__new__(cls, str(path), setting_texts(path, config))

    def message_at(self, physical_offset: int) -> Message | None:
        """Returns the message that starts at a physical offset, or None.

        Args:
            physical_offset: Bytes of the log.
        """
        batch = next(self.scan(physical_offset, batch_bytes=_ONE_MESSAGE_BYTES), None)
        if batch is None or len(batch) == 0:
            return None
        first = batch[0]
        return first if first.physical_offset == physical_offset else None

    def last_message(self) -> tuple[Message | None, int]:
        """Returns the last message of the log, or None, and where the log ends.

        Walks the last file that holds anything; files behind it were made ahead of need.
        """
        start, end = self.log_range.start, self.log_range.end
        len_bytes = int(self.settings["mappedFileSizeCommitLog"])
        last: Message | None = None
        log_end = start
        for base in range(end - len_bytes, start - 1, -len_bytes):
            scan = self.scan(base)
            for batch in scan:
                log_end = max(log_end, scan.position)
                if len(batch):
                    last = batch[-1]
            if last is not None:
                break
        return last, log_end

    def messages(self) -> Iterator[Message]:
        """Yields every whole message of the log, in its order."""
        for batch in self.scan():
            yield from batch
