"""What a task of `archive` reads: a piece of a store's log, record by record into Arrow batches.

Planned on one machine, run on another: everything here travels. Knows neither Spark nor the files
that are written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from mqcore.model.topics import SYSTEM_PREFIX, UNSENDABLE_TOPICS
from mqcore.native.columns import RecordColumns
from mqcore.native.columns import Span as Part
from mqcore.native.errors import NoRecordError
from mqcore.spark.arrow import to_arrow
from mqcore.spark.directories import Directory, directory_of
from mqcore.spark.locations import Location
from mqcore.spark.pipelines.archive_schema import ARCHIVE_COLUMNS, batch_schema
from mqcore.spark.pipelines.errors import ArchiveError, PipelineError, PipelineSettingError
from mqcore.spark.pipelines.manifest import Manifest
from mqcore.spark.pipelines.spans import Span, missing, stepped
from mqcore.spark.store_source.segments import (
    ABORT_FILE,
    CHECKPOINT_FILE,
    Segment,
    cut_at_log_end,
    flushed_part,
    last_store_ms,
    segments_of,
    store_root,
    without_prepared,
)

__all__ = ["ArchiveTask", "StorePlan", "StoreTask", "plan_store", "source_of"]

# The checkpoint's first number: what was stored before it has been flushed.
_FLUSHED_BYTES = 8


class ArchiveTask(Protocol):
    """One task: all rows of some spans."""

    @property
    def spans(self) -> tuple[Span, ...]:
        """What it reads."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields its rows with `batch_schema`, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTask:
    """A range of one file of a log.

    Attributes:
        source: What the manifest calls the log.
        directory: Where the store is.
        segment: The file.
        begin: The first physical offset; a record that begins before it is another task's.
        end: Records that begin here or behind are another task's.
        topics: Only these; all but the broker's own where it is empty.
        broker_name: The value of the column `brokerName`.
    """

    source: str
    directory: Directory
    segment: Segment
    begin: int
    end: int
    topics: tuple[str, ...] = ()
    broker_name: str | None = None

    @property
    def spans(self) -> tuple[Span, ...]:
        """What it reads: bytes of the log."""
        return (Span(self.source, self.begin, self.end),)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the records of the range.

        Raises:
            ArchiveError: Retention removed the file meanwhile.
            PipelineError: There is no whole record where one must be.
        """
        schema = batch_schema()
        columns = RecordColumns(
            [column.name for column in ARCHIVE_COLUMNS],
            topics=self.topics or None,
            hidden_topics=sorted(UNSENDABLE_TOPICS),
            hidden_prefixes=(SYSTEM_PREFIX,),
            is_queued_only=True,
            broker_name=self.broker_name,
            # An archive outlives what it was made of: what is damaged must not get into it.
            verify_crc=True,
            span=Part(
                start=self.begin,
                end=self.end,
                limit=self.segment.end,
                is_inside=self.begin != self.segment.base,
                is_log_end=self.segment.is_log_end,
            ),
        )
        segment = self.segment
        try:
            pieces = self.directory.pieces(
                segment.path, self.begin - segment.base, segment.len_bytes
            )
            for piece in pieces:
                for batch in columns.feed(piece, columns.next_position):
                    yield to_arrow(batch, schema)
                if columns.is_done:
                    break
            for batch in columns.finish():
                yield to_arrow(batch, schema)
        except FileNotFoundError as error:
            raise ArchiveError(
                f"{segment.path} was removed by retention before it was archived: run the pipeline "
                "again for what is there, and archive more often than the store forgets",
                path=segment.path,
            ) from error
        except NoRecordError as error:
            raise PipelineError(
                f"{segment.path}: at {error.physical_offset} of the log: {error.why}; nothing of "
                "this part was archived: `mqcore store verify` tells what is damaged"
            ) from error


@dataclass(frozen=True, slots=True)
class StorePlan:
    """What is to be archived of a store.

    Attributes:
        source: What the manifest calls its log.
        begin: The first physical offset that is there.
        end: Behind the last one that may be archived.
        tasks: What is not archived yet.
        lost: Ranges that were never archived and are gone.
        held: Why a part of the store is not taken, one sentence; empty where nothing is left out.
    """

    source: str
    begin: int
    end: int
    tasks: tuple[StoreTask, ...]
    lost: tuple[Span, ...]
    held: str = ""


def source_of(name: str, topics: Sequence[str]) -> str:
    """Returns what a manifest calls a log: its name, and the topics where not all were taken."""
    return f"store:{name}" + (f"#{','.join(sorted(topics))}" if topics else "")


def plan_store(
    path: str,
    manifest: Manifest,
    *,
    name: str | None = None,
    topics: Sequence[str] = (),
    broker_name: str | None = None,
    split_bytes: int,
    flushed: bool = False,
) -> StorePlan:
    """Returns what is to be archived of a store.

    A store that was closed is taken whole. Of one that is open (or was killed) only files that are
    full and flushed: what power loss could take back must not be in an archive.

    Args:
        path: The store's directory; its `commitlog`; or any fsspec path of one.
        manifest: What is archived already.
        name: What the manifest calls the store, so that a copy elsewhere is the same one; the
            directory's name where not given.
        topics: Only these; all but the broker's own where not given.
        broker_name: The value of the column `brokerName`.
        split_bytes: Bytes of the log that one task reads.
        flushed: Whether to take the flushed part of files that are not full, too.

    Raises:
        PathError: There is no store.
        PipelineSettingError: The archive has the same store with other topics.
    """
    directory = directory_of(Location.of(path), {})
    root = store_root(directory) or directory.root
    name = name or root.rstrip("/").rpartition("/")[2] or "store"
    source = source_of(name, topics)
    covered = manifest.covered()
    other = next((one for one in covered if _is_same_store(one, name) and one != source), None)
    if other is not None:
        raise PipelineSettingError(
            f"the archive has this store with another choice of topics ({other}): archive {source} "
            "into a directory of its own, or give the same topics",
            setting="topics",
        )
    segments, held = _archivable(directory, root, flushed=flushed)
    tasks = []
    for segment in segments:
        for gap in missing(segment.base, segment.end, covered.get(source, ())):
            for begin, end in stepped(*gap, split_bytes):
                tasks.append(
                    StoreTask(
                        source=source,
                        directory=directory,
                        segment=segment,
                        begin=begin,
                        end=end,
                        topics=tuple(topics),
                        broker_name=broker_name,
                    )
                )
    begin = segments[0].base if segments else 0
    end = segments[-1].end if segments else 0
    known = covered.get(source)
    # What was there before the first commit nobody promised to archive.
    lost = missing(known[0][0], begin, known) if known else []
    gone = tuple(Span(source, *one) for one in lost)
    return StorePlan(source, begin, end, tuple(tasks), gone, held)


def _is_same_store(source: str, name: str) -> bool:
    return source == f"store:{name}" or source.startswith(f"store:{name}#")


def _archivable(directory: Directory, root: str, *, flushed: bool) -> tuple[list[Segment], str]:
    """Returns what may be taken of a log, and why not all of it; empty where it is all."""
    segments = without_prepared(directory, segments_of(directory))
    if directory.size(f"{root}/{ABORT_FILE}") is None:
        return cut_at_log_end(directory, segments), ""
    checkpoint = f"{root}/{CHECKPOINT_FILE}"
    flushed_ms = 0
    if directory.size(checkpoint) is not None:
        flushed_ms = int.from_bytes(
            directory.read(checkpoint, 0, _FLUSHED_BYTES), "big", signed=True
        )
    full = segments[:-1]
    while full and (last_store_ms(directory, full[-1]) or 0) >= flushed_ms:
        full.pop()
    if len(full) == len(segments):
        return full, ""
    first = segments[len(full)]
    if not flushed:
        return full, (
            f"the store is open, or was killed: {first.path.rpartition('/')[2]} and what is behind "
            "it is not full and flushed (close the store, or take what is flushed: --flushed, "
            "in a pipeline flushed=true)"
        )
    part = flushed_part(directory, first, flushed_ms)
    taken = [*full, part] if part.len_bytes else full
    return taken, f"what the log has from {part.end} on is not known to be flushed"
