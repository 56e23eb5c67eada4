"""Writes Arrow batches as the Parquet files of an archive: one per topic and day, bounded memory.

Runs inside a task, where the rows are; what comes back is the list of files. The same batches in
the same order give the same files. Knows neither Spark nor where the batches come from.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mqcore.spark.directories import Directory
from mqcore.spark.pipelines.layout import date_text, part_path, stem_of
from mqcore.spark.pipelines.manifest import PartFile
from mqcore.spark.pipelines.spans import Span
from mqcore.spark.sink_files import Sink

__all__ = ["Bounds", "PartWriter", "by_topic_and_day", "write_parts"]

_US_PER_MS = 1_000
_US_PER_DAY = 86_400_000_000
# Columns whose values repeat: a dictionary is smaller and faster than zstd alone.
_REPEATED = (
    "brokerName",
    "queueId",
    "tags",
    "messageGroup",
    "flag",
    "sysFlag",
    "reconsumeTimes",
    "bornHost",
    "storeHost",
    "bodyLength",
)
# Columns that mostly rise by a little.
_RISING = ("queueOffset", "physicalOffset", "bornTimestamp", "storeTimestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a task may hold.

    Attributes:
        group_bytes: Arrow bytes of a row group: enough for readers and for zstd; larger ones leave
            the processor's caches (64 MiB was a quarter slower).
        held_bytes: Arrow bytes of all rows that are not written yet.
        open_files: Files open at once; beyond it the one that waited longest is finished.
    """

    group_bytes: int = 16 << 20
    held_bytes: int = 192 << 20
    open_files: int = 256


@dataclass(slots=True)
class _Part:
    """One file that is being written."""

    topic: str
    date: str
    path: str
    stack: ExitStack = field(default_factory=ExitStack)
    sink: Sink | None = None
    writer: Any = None
    held: list[pa.RecordBatch] = field(default_factory=list)
    held_bytes: int = 0
    rows: int = 0
    body_bytes: int = 0
    first_store_us: int | None = None
    last_store_us: int = 0

    def note(self, batch: pa.RecordBatch, size_bytes: int) -> None:
        """Takes rows to be written later."""
        self.held.append(batch)
        self.held_bytes += size_bytes
        self.rows += batch.num_rows
        self.body_bytes += pc.sum(batch.column("bodyLength")).as_py() or 0
        first_us, last_us = _bounds_of(batch.column("storeTimestamp").cast(pa.int64()))
        if self.first_store_us is None or first_us < self.first_store_us:
            self.first_store_us = first_us
        self.last_store_us = max(self.last_store_us, last_us)


def by_topic_and_day(batch: pa.RecordBatch) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    """Splits a batch by topic and day of storing (UTC), rows in their order, topic left out.

    Args:
        batch: Has `topic` and `storeTimestamp` without nulls.

    Yields:
        Topic, days since 1970, and the rows.
    """
    if batch.num_rows == 0:
        return
    topics = batch.column("topic")
    days = pc.divide(batch.column("storeTimestamp").cast(pa.int64()), _US_PER_DAY)
    first_day, last_day = _bounds_of(days)
    rest = batch.drop_columns(["topic"])
    codes = topics.dictionary_encode()
    names = codes.dictionary.to_pylist()
    if len(names) == 1 and first_day == last_day:
        yield names[0], first_day, rest
        return
    span = last_day - first_day + 1
    groups = pc.add(pc.multiply(codes.indices.cast(pa.int64()), span), pc.subtract(days, first_day))
    # Stable: rows of one group keep their order.
    order = pc.sort_indices(groups)
    runs = pc.run_end_encode(groups.take(order))
    ordered = rest.take(order)
    begin = 0
    for end, group in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
        yield (
            names[group // span],
            first_day + group % span,
            ordered.slice(begin, end - begin),
        )
        begin = end


class PartWriter:
    """The files of one task. Use it in a `with`: what is not closed is left out."""

    def __init__(
        self, directory: Directory, spans: Sequence[Span], bounds: Bounds | None = None
    ) -> None:
        """Writes nothing yet.

        Args:
            directory: The archive's directory.
            spans: What the rows are the rows of; file names come from it.
            bounds: What may be held.
        """
        self._directory = directory
        self._stem = stem_of(spans)
        self._bounds = bounds or Bounds()
        self._open: OrderedDict[tuple[str, int], _Part] = OrderedDict()
        self._numbers: dict[tuple[str, int], int] = {}
        self._held_bytes = 0
        self._done: list[PartFile] = []

    def __enter__(self) -> "PartWriter":
        """Returns itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        """Leaves out every file that is open still."""
        failed = RuntimeError("the task ended before its files")
        for part in self._open.values():
            part.held.clear()
            # A writer that is dropped open would write to a closed file.
            if part.writer is not None:
                part.writer.close()
            # The directory unlinks the file of a block that raises.
            part.stack.__exit__(type(failed), failed, None)
        self._open.clear()

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes rows of the read schema, in order."""
        for topic, day, rows in by_topic_and_day(batch):
            key = (topic, day)
            part = self._open.get(key) or self._opened(key)
            self._open.move_to_end(key)
            # What a slice refers to counts in part; the bound is about memory, not a promise.
            size_bytes = rows.nbytes
            part.note(rows, size_bytes)
            self._held_bytes += size_bytes
            if part.held_bytes >= self._bounds.group_bytes:
                self._write_group(part)
        while self._held_bytes > self._bounds.held_bytes:
            self._write_group(max(self._open.values(), key=lambda part: part.held_bytes))

    def close(self) -> list[PartFile]:
        """Finishes all files; from then on they have their names. Returns them by path."""
        while self._open:
            self._finish(next(iter(self._open)))
        return sorted(self._done)

    def _opened(self, key: tuple[str, int]) -> _Part:
        if len(self._open) >= self._bounds.open_files:
            self._finish(next(iter(self._open)))
        topic, day = key
        number = self._numbers.get(key, 0)
        self._numbers[key] = number + 1
        date = date_text(day)
        part = _Part(topic=topic, date=date, path=part_path(topic, date, self._stem, number))
        self._open[key] = part
        return part

    def _write_group(self, part: _Part) -> None:
        """Writes what a part holds as one row group."""
        table = pa.Table.from_batches(part.held)
        if part.writer is None:
            part.sink = part.stack.enter_context(
                self._directory.writing(self._directory.below(part.path))
            )
            part.writer = _parquet_writer(part.sink, table.schema)
        part.writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._held_bytes -= part.held_bytes
        part.held.clear()
        part.held_bytes = 0

    def _finish(self, key: tuple[str, int]) -> None:
        part = self._open[key]
        if part.held:
            self._write_group(part)
        part.writer.close()
        part.stack.close()
        del self._open[key]
        sink = part.sink
        first_us = part.first_store_us
        if sink is None or first_us is None:  # A part is made for its first rows.
            return
        self._done.append(
            PartFile(
                path=part.path,
                topic=part.topic,
                date=part.date,
                rows=part.rows,
                size_bytes=sink.size_bytes,
                crc32=sink.crc32,
                first_store_ms=first_us // _US_PER_MS,
                last_store_ms=part.last_store_us // _US_PER_MS,
                body_bytes=part.body_bytes,
            )
        )


def write_parts(
    directory: Directory,
    spans: Sequence[Span],
    batches: Iterable[pa.RecordBatch],
    bounds: Bounds | None = None,
) -> list[PartFile]:
    """Writes all batches of some spans and returns the files.

    Args:
        directory: The archive's directory.
        spans: What the batches are all rows of.
        batches: Rows of the read schema, in order.
        bounds: What may be held.
    """
    with PartWriter(directory, spans, bounds) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.close()


def _bounds_of(values: Any) -> tuple[int, int]:
    found = pc.min_max(values).as_py()
    return found["min"], found["max"]


def _parquet_writer(sink: Sink, schema: pa.Schema) -> Any:
    names = set(schema.names)
    rising = {name: "DELTA_BINARY_PACKED" for name in _RISING if name in names}
    return pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        use_dictionary=[name for name in _REPEATED if name in names],
        column_encoding=rising or None,
        # Bodies are no numbers to compare, and bounds of long ones would fill the footer.
        write_statistics=[name for name in schema.names if name not in ("body", "properties")],
        store_schema=True,
    )
