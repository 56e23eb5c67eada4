"""Which task reads which bytes of the log. Looks at files, reads no record but first ones."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from pyspark.sql.datasource import InputPartition

from mqcore.spark.directories import Directory, PathError, directory_of
from mqcore.spark.locations import Location
from mqcore.spark.store_source.options import StoreOptions
from mqcore.spark.store_source.segments import (
    ABORT_FILE,
    CHECKPOINT_FILE,
    Segment,
    cut_at_log_end,
    first_store_ms,
    segments_of,
    store_root,
    without_prepared,
)

# Store times are monotone in our stores; an official broker's clock may have stepped back, and a
# file is left out only where that could not matter.
CLOCK_STEP_MS: Final = 60_000
_PATTERN_CHARACTERS: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class LogRange:
    """The records of one file that begin in a range.

    Attributes:
        directory: Where the file is.
        segment: The file.
        start: Physical offset where it begins.
        end: Records that begin here or behind are another's.
        before_ms: Only records that were stored before.
    """

    directory: Directory
    segment: Segment
    start: int
    end: int
    before_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The numbers of a `checkpoint` file.

    Attributes:
        physic_ms: Store time up to which the log is flushed.
        logics_ms: The same for the queues.
        index_ms: End time of the newest flushed full index file.
        master_flushed_offset: What the master had flushed (5.x; 0 where it is not written).
        confirm_offset: The confirm offset (5.x; 0 where it is not written).
    """

    physic_ms: int
    logics_ms: int
    index_ms: int
    master_flushed_offset: int
    confirm_offset: int


class RangesPartition(InputPartition):
    """What one task reads.

    Attributes:
        ranges: Ranges of files, in the order of the log.
    """

    def __init__(self, ranges: tuple[LogRange, ...]) -> None:
        """Keeps the ranges."""
        super().__init__(ranges)
        self.ranges = ranges


def directories_of(options: StoreOptions) -> list[Directory]:
    """Returns the directories of the paths, patterns resolved.

    Raises:
        PathError: A pattern means nothing.
    """
    directories: list[Directory] = []
    for path in options.paths:
        location = Location.of(path)
        directory = directory_of(location, options.storage)
        if not _PATTERN_CHARACTERS & set(path):
            directories.append(directory)
            continue
        found = directory.matches(directory.root)
        if not found:
            raise PathError(f"nothing is at {path}", path=path)
        directories.extend(directory_of(location.at(match), options.storage) for match in found)
    return directories


def checkpoint_of(directory: Directory) -> Checkpoint | None:
    """Returns the checkpoint of the store in a directory, None where there is none."""
    root = store_root(directory)
    if root is None or directory.size(f"{root}/{CHECKPOINT_FILE}") is None:
        return None
    fields = directory.read(f"{root}/{CHECKPOINT_FILE}", 0, 40).ljust(40, b"\0")
    numbers = [int.from_bytes(fields[at : at + 8], "big", signed=True) for at in range(0, 40, 8)]
    return Checkpoint(*numbers)


def flushed_before_ms(directory: Directory) -> int | None:
    """Returns the store time before which everything is flushed, None where all of it is.

    Only a store that was not closed has anything that is not. What was stored in the very
    millisecond may be flushed or not, and is left out.
    """
    root = store_root(directory)
    if root is None or directory.size(f"{root}/{ABORT_FILE}") is None:
        return None
    checkpoint = checkpoint_of(directory)
    return checkpoint.physic_ms if checkpoint else 0


def ranges_of(directory: Directory, options: StoreOptions, split_bytes: int) -> list[LogRange]:
    """Returns the ranges of one directory that are to be read, in the order of the log.

    Args:
        directory: Where a store, a log or a file of one is.
        options: What is to be read.
        split_bytes: The longest range.
    """
    segments = cut_at_log_end(directory, without_prepared(directory, segments_of(directory)))
    before_ms = flushed_before_ms(directory) if options.is_flushed_only else None
    ranges: list[LogRange] = []
    for segment in _in_time(directory, segments, options):
        start = max(segment.base, options.start_physical or 0)
        end = segment.end
        if options.end_physical is not None:
            end = min(end, options.end_physical)
        if start < end:
            whole = LogRange(directory, segment, start, end, before_ms)
            ranges.extend(_split(whole, split_bytes))
    return ranges


def _in_time(
    directory: Directory, segments: list[Segment], options: StoreOptions
) -> Iterator[Segment]:
    """Yields the files that can hold something stored in the time asked for."""
    if options.start_ms is None and options.end_ms is None:
        yield from segments
        return
    firsts = [first_store_ms(directory, segment) for segment in segments]
    for number, segment in enumerate(segments):
        first = firsts[number]
        # The next file begins with something that was stored later than all of this one.
        following = firsts[number + 1] if number + 1 < len(firsts) else None
        is_before = (
            options.start_ms is not None
            and following is not None
            and following + CLOCK_STEP_MS < options.start_ms
        )
        is_behind = (
            options.end_ms is not None
            and first is not None
            and first - CLOCK_STEP_MS >= options.end_ms
        )
        if not is_before and not is_behind:
            yield segment


def _split(whole: LogRange, split_bytes: int) -> Iterator[LogRange]:
    """Yields parts of about the same length, none longer than asked for."""
    len_bytes = whole.end - whole.start
    parts = -(-len_bytes // split_bytes)
    cuts = [whole.start + len_bytes * number // parts for number in range(parts + 1)]
    for start, end in pairwise(cuts):
        yield replace(whole, start=start, end=end)


def partitions_of(ranges: Iterable[LogRange], split_bytes: int) -> list[RangesPartition]:
    """Packs ranges into tasks, in their order; small files share one."""
    partitions: list[RangesPartition] = []
    packed: list[LogRange] = []
    packed_bytes = 0
    for each in ranges:
        len_bytes = each.end - each.start
        if packed and packed_bytes + len_bytes > split_bytes:
            partitions.append(RangesPartition(tuple(packed)))
            packed, packed_bytes = [], 0
        packed.append(each)
        packed_bytes += len_bytes
    if packed:
        partitions.append(RangesPartition(tuple(packed)))
    return partitions
