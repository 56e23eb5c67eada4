"""A store directory looked at as it lies there: nothing is changed, nothing is locked.

A broker may run on it meanwhile. Sizes are those of the files unless settings say otherwise.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mqcore.native._native import Message, NativeInspection
from mqcore.native._native import rebuild as _rebuild
from mqcore.native.store import Setting, setting_pairs

# Enough for a usual message; a longer one is read again with what it needs.
_ONE_MESSAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class FileSize:
    """One file of a store.

    Attributes:
        path: Its path below the store's directory.
        len_bytes: Its length.
        allocated_bytes: Bytes it takes on the device.
        resident_bytes: Bytes of it in memory, None where the system does not say.
    """

    path: str
    len_bytes: int
    allocated_bytes: int
    resident_bytes: int | None


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue as its files have it.

    Attributes:
        topic: Its topic.
        queue_id: Its number in the topic.
        min_offset: First queue offset whose record the log still has.
        max_offset: Queue offset behind the last unit.
        min_physical_offset: Place of the first record, bytes of the log; None in an empty queue.
    """

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    min_physical_offset: int | None


@dataclass(frozen=True, slots=True)
class IndexHeader:
    """The header of an index file.

    Attributes:
        path: The file.
        begin_timestamp_ms: Store time of the first entry.
        end_timestamp_ms: Store time of the latest entry.
        begin_physical_offset: Record of the first entry, bytes of the log.
        end_physical_offset: Record of the latest entry.
        slots_used: Hash slots in use.
        entries: Entries.
    """

    path: str
    begin_timestamp_ms: int
    end_timestamp_ms: int
    begin_physical_offset: int
    end_physical_offset: int
    slots_used: int
    entries: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verification found.

    Attributes:
        log_start: First byte of the log that is there.
        log_end: Byte behind the last good record.
        records: Records of the log.
        blanks: Blank ends of files.
        queues: Queues looked at.
        units: Queue units looked at.
        index_files: Index files looked at.
        index_entries: Index entries looked at.
        problem_count: How many disagreements there are.
        problems: The first thousand: part of the store, place, what disagrees.
        notes: What looks odd and has a lawful reason.
    """

    log_start: int
    log_end: int
    records: int
    blanks: int
    queues: int
    units: int
    index_files: int
    index_entries: int
    problem_count: int
    problems: list[tuple[str, str, str]]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild made.

    Attributes:
        log_end: Physical offset behind the last record of the log.
        records: Records walked.
        queues: Queues made.
        index_entries: Entries of the index.
    """

    log_end: int
    records: int
    queues: int
    index_entries: int


def rebuild(path: str | Path, *, config: Mapping[str, Setting]) -> Rebuilt:
    """Builds queues and index of a closed store again, into place. The log is only read.

    Args:
        path: The store's directory.
        config: Settings by their official keys; sizes must be those of the files.

    Raises:
        StoreLockedError: A broker runs on it.
        DamagedError: Whole records stand behind a bad one.
    """
    return Rebuilt(*_rebuild(setting_pairs(path, config)))


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
        return super().__new__(cls, str(path), setting_pairs(path, config))

    def files(self) -> list[FileSize]:
        """Returns every file below the directory. Asks the kernel for the pages of each."""
        return [FileSize(*row) for row in self.file_rows()]

    def queues(self) -> list[QueueState]:
        """Returns every queue with its bounds, by topic and queue id."""
        return [QueueState(*row) for row in self.queue_rows()]

    def index_headers(self) -> list[IndexHeader]:
        """Returns the headers of the index files, oldest first."""
        return [IndexHeader(**numbers) for numbers in self.index_numbers()]

    def verify(self) -> Verdict:
        """Walks log, queues and index and returns everything that disagrees.

        `progress` may be called meanwhile from another thread.
        """
        return Verdict(**self.verify_numbers())

    def message_at(self, physical_offset: int) -> Message | None:
        """Returns the message that starts at a place of the log, or None.

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
        start, end = self.log_range
        len_bytes = int(dict(self.settings)["mappedFileSizeCommitLog"])
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
