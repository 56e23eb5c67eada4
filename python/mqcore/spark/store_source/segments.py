"""The files of a log: found below a path, with their times, and where the last of them ends.

A log's file is named by its first physical offset in 20 digits. Knows no Spark.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyarrow import compute

from mqcore.native.columns import ColumnBatch, RecordColumns, Span
from mqcore.spark.directories import Directory, FileEntry, LocalDirectory, PathError

LOG_DIRECTORY: Final = "commitlog"
CONFIG_DIRECTORY: Final = "config"
CHECKPOINT_FILE: Final = "checkpoint"
ABORT_FILE: Final = "abort"
# Any of these makes a directory a store's.
_STORE_DIRECTORIES: Final = frozenset({LOG_DIRECTORY, "consumequeue"})
_STORE_FILES: Final = frozenset({CHECKPOINT_FILE, ABORT_FILE, "lock"})
_SEGMENT_NAME: Final = re.compile(r"\d{20}")
# Length and magic distinguish a file that holds something from one that was made ahead of need.
_START_BYTES: Final = 8
# The head of a record with both hosts in their long form.
_HEAD_BYTES: Final = 112
# The last record of a file is looked for in this much of its end: more than a record of the usual
# greatest body, 4 MiB.
_TAIL_BYTES: Final = 8 * 1024 * 1024
_TIME_COLUMN: Final = "storeTimestamp"
_OFFSET_COLUMN: Final = "physicalOffset"


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of a log.

    Attributes:
        path: Its path, as its directory knows it.
        base: Physical offset of its first byte.
        len_bytes: Its length, or as much of it as is to be read.
        is_log_end: Whether the log ends in it.
    """

    path: str
    base: int
    len_bytes: int
    is_log_end: bool = False

    @property
    def end(self) -> int:
        """Physical offset behind its last byte."""
        return self.base + self.len_bytes


def is_store(directory: Directory) -> bool:
    """Returns whether it is a store's directory: one that took no message has no log yet."""
    root = directory.root
    if _STORE_DIRECTORIES & set(directory.directories(root)):
        return True
    return bool(_STORE_FILES & {entry.name for entry in directory.files(root)})


def store_root(directory: Directory) -> str | None:
    """Returns the store's root that a directory's root belongs to, None for lone files."""
    root = directory.root.rstrip("/")
    if is_store(directory):
        return root
    parent, _slash, name = root.rpartition("/")
    if name == LOG_DIRECTORY:
        return parent or "/"
    parent, _slash, name = parent.rpartition("/")
    return (parent or "/") if name == LOG_DIRECTORY else None


def segments_of(directory: Directory) -> list[Segment]:
    """Returns the files of the log in a directory: a store, its `commitlog`, or one file of it.

    Raises:
        PathError: The path is not there, or there is no log.
    """
    root = directory.root
    size = directory.size(root)
    if size is not None:
        entry = FileEntry(root, size)
        if not _SEGMENT_NAME.fullmatch(entry.name):
            raise PathError(f"{root} is no file of a log: those are named by 20 digits", path=root)
        return [Segment(root, int(entry.name), size)]
    directories = directory.directories(root)
    inside = directory.below(LOG_DIRECTORY) if LOG_DIRECTORY in directories else root
    entries = directory.files(inside)
    found = [
        Segment(entry.path, int(entry.name), entry.len_bytes)
        for entry in entries
        if _SEGMENT_NAME.fullmatch(entry.name)
    ]
    if not found and inside == root and not is_store(directory):
        what = "is no store: it has no commitlog" if directories or entries else "is not there"
        raise PathError(f"{root} {what}", path=root)
    return sorted(found, key=lambda segment: segment.base)


def without_prepared(directory: Directory, segments: list[Segment]) -> list[Segment]:
    """Returns the files without those at the end that were made ahead of need.

    In the last of them the log ends, unless it was asked for alone and the next one lies beside it.
    """
    last = len(segments)
    while last and not _holds_anything(directory, segments[last - 1].path):
        last -= 1
    kept = segments[:last]
    if kept:
        end = kept[-1]
        following = f"{end.path.rpartition('/')[0]}/{end.end:020}"
        is_log_end = directory.size(following) is None or not _holds_anything(directory, following)
        kept[-1] = replace(end, is_log_end=is_log_end)
    return kept


def _holds_anything(directory: Directory, path: str) -> bool:
    return any(directory.read(path, 0, _START_BYTES))


def cut_at_log_end(directory: Directory, segments: list[Segment]) -> list[Segment]:
    """Returns the files with the last as long as its last whole record reaches.

    What is planned is then the same for every task, also while a broker goes on writing. The last
    file is walked; a remote one is not (its tasks find the end themselves, in files that rest).
    """
    if not segments or not segments[-1].is_log_end or not isinstance(directory, LocalDirectory):
        return segments
    last = segments[-1]
    span = Span(start=last.base, end=last.end, limit=last.end)
    walk = RecordColumns([], bad_records="skip", span=span)
    for _batch in _batches(walk, directory, last):
        pass
    cut = replace(last, len_bytes=walk.good_end - last.base)
    return [*segments[:-1], cut]


def flushed_part(directory: Directory, segment: Segment, flushed_ms: int) -> Segment:
    """Returns a file as long as the records at its beginning that were stored before a time.

    Args:
        directory: Where it is.
        segment: The file.
        flushed_ms: What was stored before it has been flushed, by the checkpoint; Unix ms.
    """
    span = Span(start=segment.base, end=segment.end, limit=segment.end)
    walk = RecordColumns([_TIME_COLUMN, _OFFSET_COLUMN], bad_records="skip", span=span)
    for batch in _batches(walk, directory, segment):
        times, offsets = pa.record_batch(batch).columns
        is_later = compute.greater_equal(times.cast(pa.int64()), flushed_ms * 1000)
        first = compute.index(is_later, value=True).as_py()
        if first >= 0:
            return replace(segment, len_bytes=offsets[first].as_py() - segment.base)
    return replace(segment, len_bytes=walk.good_end - segment.base)


def first_store_ms(directory: Directory, segment: Segment) -> int | None:
    """Returns the store time of the first record of a file, None where none is there."""
    head = directory.read(segment.path, 0, _HEAD_BYTES)
    if len(head) < _HEAD_BYTES:
        return None
    # An IPv6 born host moves everything behind it by 12 bytes: `rust/record/src/layout.rs`.
    at = 68 if int.from_bytes(head[36:40], "big") & 0x10 else 56
    time_ms = int.from_bytes(head[at : at + 8], "big", signed=True)
    is_record = head[4:7] == b"\xda\xa3\x20" and time_ms > 0
    return time_ms if is_record else None


def last_store_ms(directory: Directory, segment: Segment) -> int | None:
    """Returns the store time of the last whole record of a file, None in an empty one."""
    starts: Iterable[int] = (max(segment.base, segment.end - _TAIL_BYTES), segment.base)
    for start in dict.fromkeys(starts):
        span = Span(
            start=start, end=segment.end, limit=segment.end, is_inside=start != segment.base
        )
        walk = RecordColumns([_TIME_COLUMN], bad_records="skip", span=span)
        *_before, last = (None, *_batches(walk, directory, segment))
        if last is not None:
            last_us: int = pa.record_batch(last).column(0)[-1].value
            return last_us // 1000
    return None


def _batches(walk: RecordColumns, directory: Directory, segment: Segment) -> Iterator[ColumnBatch]:
    """Walks a file from where the walk begins."""
    start = walk.next_position - segment.base
    for piece in directory.pieces(segment.path, start, segment.len_bytes):
        yield from walk.feed(piece, walk.next_position)
        if walk.is_done:
            break
    yield from walk.finish()
