"""What a task does: the records of its ranges as Arrow batches. Knows no planning."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from mqcore.model.topics import SYSTEM_PREFIX, UNSENDABLE_TOPICS
from mqcore.native.columns import RecordColumns, Span
from mqcore.native.errors import NoRecordError
from mqcore.spark.arrow import to_arrow
from mqcore.spark.errors import SparkError
from mqcore.spark.schema import Projection
from mqcore.spark.store_source.options import StoreOptions
from mqcore.spark.store_source.planning import LogRange
from mqcore.spark.store_source.pushed import Pushed


class DamagedLogError(SparkError):
    """Bytes of a log are no record, and damage is to be an error.

    Attributes:
        path: The file.
        physical_offset: Where: bytes of the log.
        why: What is wrong.
    """

    path: str
    physical_offset: int
    why: str


class FileGoneError(SparkError):
    """A file of the log vanished between planning and reading.

    Attributes:
        path: The file.
    """

    path: str


def is_hidden(topic: str) -> bool:
    """Returns whether a topic is the broker's own, read only when asked for."""
    return topic in UNSENDABLE_TOPICS or topic.startswith(SYSTEM_PREFIX)


def batches(
    each: LogRange, projection: Projection, options: StoreOptions, pushed: Pushed
) -> Iterator[pa.RecordBatch]:
    """Yields the records of a range.

    Raises:
        DamagedLogError: There is damage, and `badRecords` is `fail`.
        FileGoneError: The file is gone, and `failOnDataLoss` is true.
    """
    segment = each.segment
    span = Span(
        start=each.start,
        end=each.end,
        limit=segment.end,
        is_inside=each.start != segment.base,
        is_log_end=segment.is_log_end,
    )
    columns = RecordColumns(
        projection.columns,
        **_wanted(options, pushed, each.before_ms),
        broker_name=options.broker_name,
        batch_rows=options.batch_rows,
        batch_bytes=options.batch_bytes,
        bad_records=options.bad_records,
        verify_crc=options.verify_crc,
        span=span,
    )
    start, likely_end = each.start - segment.base, each.end - segment.base
    pieces = each.directory.pieces(segment.path, start, segment.len_bytes, likely_end)
    try:
        for piece in pieces:
            for batch in columns.feed(piece, columns.next_position):
                yield to_arrow(batch, projection.arrow)
            if columns.is_done:
                break
        for batch in columns.finish():
            yield to_arrow(batch, projection.arrow)
    except FileNotFoundError as error:
        if not options.fails_on_data_loss:
            return
        raise FileGoneError(
            f"{segment.path} was there when the reading was planned and is gone: retention removed "
            "it; read again, or set failOnDataLoss=false to go on without it",
            path=segment.path,
        ) from error
    except NoRecordError as error:
        raise DamagedLogError(
            f"{segment.path}: at {error.physical_offset} of the log: {error.why}; badRecords=skip "
            "leaves such places out, badRecords=emit gives them as rows",
            path=segment.path,
            physical_offset=error.physical_offset,
            why=error.why,
        ) from error


def _wanted(options: StoreOptions, pushed: Pushed, before_ms: int | None) -> dict[str, Any]:
    """Returns what the options, Spark's filters and the plan want together."""
    topics = None if options.topics is None else frozenset(options.topics)
    if pushed.topics is not None:
        # A filter of Spark narrows what would be there: it does not bring hidden topics back.
        may_be_hidden = options.has_uncommitted or topics is not None
        found = {topic for topic in pushed.topics if may_be_hidden or not is_hidden(topic)}
        topics = frozenset(found if topics is None else topics & found)
    tags = None if options.tags is None else frozenset(options.tags)
    if pushed.tags is not None:
        tags = pushed.tags if tags is None else tags & pushed.tags
    starts = [ms for ms in (options.start_ms, pushed.start_ms) if ms is not None]
    ends = [ms for ms in (options.end_ms, pushed.end_ms, before_ms) if ms is not None]
    return {
        "topics": None if topics is None else sorted(topics),
        "tags": None if tags is None else sorted(tags),
        "queue_ids": None if pushed.queue_ids is None else sorted(pushed.queue_ids),
        "start_ms": max(starts, default=None),
        "end_ms": min(ends, default=None),
        "start_queue_offset": pushed.start_queue_offset,
        "end_queue_offset": pushed.end_queue_offset,
        "hidden_topics": () if options.has_uncommitted else sorted(UNSENDABLE_TOPICS),
        "hidden_prefixes": () if options.has_uncommitted else (SYSTEM_PREFIX,),
        "is_queued_only": not options.has_uncommitted,
    }
