"""Records as columns: pieces of a log, or answers of a broker, into Arrow arrays.

`RecordColumns` is fed in order and gives batches, which `pyarrow.record_batch` takes without
copying. Read-only bytes are read where they lie; those of a buffer that can be written are copied.
Knows no file, and imports no Arrow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, Self, TypeAlias

from mqcore.native._native import (
    ColumnBatch,
    NativeRecordColumns,
    queue_units,
)

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

__all__ = [
    "BATCH_BYTES",
    "BATCH_ROWS",
    "INFLATED_BYTES",
    "ArrowCapsules",
    "ArrowColumns",
    "Asked",
    "BadRecords",
    "ColumnBatch",
    "RecordColumns",
    "Span",
    "queue_units",
]

# Batches of 2,048 to 8,192 rows go best through Spark's pipe from Python to the JVM.
BATCH_ROWS: Final = 4096
BATCH_BYTES: Final = 4 * 1024 * 1024
# Longest inflated body: those of clients are below 4 MiB by default; beyond this bound some bytes
# were made to blow up a reader.
INFLATED_BYTES: Final = 128 * 1024 * 1024
_END: Final = 2**64 - 1

BadRecords = Literal["fail", "skip", "emit"]


# What Arrow's C interface has: the schema, and the array.
ArrowCapsules: TypeAlias = "tuple[CapsuleType, CapsuleType]"


class ArrowColumns(Protocol):
    """Columns by name, as a `pyarrow.RecordBatch` and others give them by Arrow's C interface."""

    def __arrow_c_array__(self, requested_schema: "CapsuleType | None" = None) -> "ArrowCapsules":
        """Returns the schema and the array of a struct."""
        ...


@dataclass(frozen=True, slots=True)
class Span:
    """The part of a file of the log that one reading takes: physical offsets, bytes of the log.

    Attributes:
        start: Where it begins.
        end: Records that begin here or behind are another reading's.
        limit: Where the file ends, or what is to be read of it: no record reaches beyond.
        is_inside: Whether `start` may lie inside a record, which then is another reading's.
        is_log_end: Whether the log ends in this file: what is no record at its end is no damage.
    """

    start: int = 0
    end: int = _END
    limit: int = _END
    is_inside: bool = False
    is_log_end: bool = True


@dataclass(frozen=True, slots=True)
class Asked:
    """What is wanted of the records; the arguments of `RecordColumns` for the extension."""

    columns: Sequence[str]
    topics: Sequence[str] | None
    hidden_topics: Sequence[str]
    hidden_prefixes: Sequence[str]
    tags: Sequence[str] | None
    queue_ids: Sequence[int] | None
    start_ms: int | None
    end_ms: int | None
    start_queue_offset: int | None
    end_queue_offset: int | None
    is_queued_only: bool
    broker_name: str | None
    batch_rows: int
    batch_bytes: int
    inflated_bytes: int
    bad_records: str
    verify_crc: bool
    start: int
    end: int
    limit: int
    is_inside: bool
    is_log_end: bool


class RecordColumns(NativeRecordColumns):
    """Reads records into columns.

    For a log give a span and feed pieces with their physical offsets, from `span.start` on without
    a gap, of any length, until `is_done` or the file ends; then `finish`. For answers of a broker
    feed each body without an offset; batches that are one record are taken apart there, as a client
    does. `flush` gives what waits for a full batch.

    Args:
        columns: Names of `mqcore.spark.schema.READ_COLUMNS`, in the order wanted. Bodies that are
            not among them are not touched.
        topics: Only these topics.
        hidden_topics: Not these, unless `topics` is given.
        hidden_prefixes: No topic that begins so, unless `topics` is given.
        tags: Only messages with one of these tags, compared in full.
        queue_ids: Only these queues.
        start_ms: Only messages stored then or later.
        end_ms: Only messages stored before.
        start_queue_offset: Only messages at this queue offset or behind.
        end_queue_offset: Only messages before this queue offset.
        is_queued_only: No prepared and no rolled back records of old transactions.
        broker_name: Content of the column `brokerName`.
        batch_rows: Rows of a batch at the most.
        batch_bytes: Bytes of texts after which a batch is done.
        inflated_bytes: Longest inflated body; a longer one is a damaged record.
        bad_records: What is done where there is no whole record: `fail`, `skip` (see `tally`), or
            `emit` a row with `physicalOffset` and `_corrupt` alone.
        verify_crc: Whether the CRC of each body is compared. For answers it always is.
        span: The part of the log.

    Raises:
        ValueError: A column is unknown.
    """

    def __new__(
        cls,
        columns: Sequence[str],
        *,
        topics: Sequence[str] | None = None,
        hidden_topics: Sequence[str] = (),
        hidden_prefixes: Sequence[str] = (),
        tags: Sequence[str] | None = None,
        queue_ids: Sequence[int] | None = None,
        start_ms: int | None = None,
        end_ms: int | None = None,
        start_queue_offset: int | None = None,
        end_queue_offset: int | None = None,
        is_queued_only: bool = False,
        broker_name: str | None = None,
        batch_rows: int = BATCH_ROWS,
        batch_bytes: int = BATCH_BYTES,
        inflated_bytes: int = INFLATED_BYTES,
        bad_records: BadRecords = "fail",
        verify_crc: bool = False,
        span: Span | None = None,
    ) -> Self:
        """Makes a reading that has seen nothing."""
        span = span or Span()
        asked = Asked(
            columns=columns,
            topics=topics,
            hidden_topics=hidden_topics,
            hidden_prefixes=hidden_prefixes,
            tags=tags,
            queue_ids=queue_ids,
            start_ms=start_ms,
            end_ms=end_ms,
            start_queue_offset=start_queue_offset,
            end_queue_offset=end_queue_offset,
            is_queued_only=is_queued_only,
            broker_name=broker_name,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            inflated_bytes=inflated_bytes,
            bad_records=bad_records,
            verify_crc=verify_crc,
            start=span.start,
            end=span.end,
            limit=span.limit,
            is_inside=span.is_inside,
            is_log_end=span.is_log_end,
        )
        return super().__new__(cls, asked)
