"""The part of the extension for many rows at once, in and out; the module itself is `_native`."""

from collections.abc import Iterator, Sequence
from typing import Any, Self, final

from typing_extensions import Buffer, disjoint_base

from mqcore.model.queues import MessageQueue
from mqcore.native._native import Message, NativeStore
from mqcore.native._received import ReceivedMessage
from mqcore.native.columns import Asked

def queue_units(data: Buffer, first_queue_offset: int) -> ColumnBatch:
    """Returns the units in a piece of a queue file: offset, place, size, tags code."""

def stored_units(
    store: NativeStore, topic: str, queue_id: int, first: int, count: int
) -> list[tuple[int, int, int, int, bool, tuple[int, bytes] | None]]:
    """Returns the units of a queue. See `mqcore.native.Store.units`."""

@final
class ColumnBytes:
    """One buffer of a column; a buffer, as this Python cannot say."""

@final
class ColumnBatch:
    """Rows by column: `column` gives the number of nulls and the buffers in Arrow's order.

    The first buffer is the validity, None without a null. Then numbers; or 32-bit offsets and
    bytes; or, for a map, its offsets, those and the bytes of the names, those and of the values.
    """

    def __len__(self) -> int: ...
    @property
    def rows(self) -> int: ...
    def column(self, index: int) -> tuple[int, list[ColumnBytes | None]]: ...

@disjoint_base
class NativeRecordColumns:
    """A reading. See `mqcore.native.columns.RecordColumns`."""

    def __new__(cls, asked: Asked) -> Self: ...
    def feed(self, data: Buffer, physical_offset: int | None = None) -> list[ColumnBatch]:
        """Takes the next piece of the log, or the body of an answer where no place is given."""

    def flush(self) -> list[ColumnBatch]:
        """Gives the rows that wait for a full batch."""

    def finish(self) -> list[ColumnBatch]:
        """Ends the reading and gives the rest."""

    @property
    def next_position(self) -> int: ...
    @property
    def is_done(self) -> bool: ...
    @property
    def good_end(self) -> int: ...
    @property
    def tally(self) -> tuple[int, int, int]: ...

@final
class RecordBatch(Sequence[Message]):
    """Records that lie side by side in the log: a sequence of messages, and columns of all.

    `blanks`: ends of files (physical offset, length in bytes); `wrapped`: batches left as they are.
    """

    def __len__(self) -> int: ...
    def received(self, queue: MessageQueue, topic: str) -> list[ReceivedMessage]: ...
    def __getitem__(self, key: int, /) -> Message: ...  # type: ignore[override]
    @property
    def topics(self) -> list[str]: ...
    @property
    def queue_ids(self) -> memoryview[int]: ...
    @property
    def queue_offsets(self) -> memoryview[int]: ...
    @property
    def physical_offsets(self) -> memoryview[int]: ...
    @property
    def store_timestamps_ms(self) -> memoryview[int]: ...
    @property
    def stored_body_lens_bytes(self) -> memoryview[int]: ...
    @property
    def stored_bodies(self) -> list[bytes]: ...
    @property
    def wrapped(self) -> int: ...
    @property
    def blanks(self) -> list[tuple[int, int]]: ...

@final
class Scan(Iterator[RecordBatch]):
    """Batches in log order; `end_why`: what ended them, unless that is the limit or zeros."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> RecordBatch: ...
    @property
    def position(self) -> int: ...
    @property
    def end_why(self) -> str | None: ...

@final
class PackedRows:
    """What one request carries. See `mqcore.spark.topic_sink`."""

    @property
    def topic(self) -> int: ...
    @property
    def queue(self) -> int | None: ...
    @property
    def sys_flag(self) -> int: ...
    @property
    def is_batch(self) -> bool: ...
    @property
    def body(self) -> bytes: ...
    @property
    def properties(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def first_row(self) -> int: ...
    @property
    def last_row(self) -> int: ...
    @property
    def topic_rows(self) -> int | None: ...
    def __len__(self) -> int: ...

@final
class RowPacker:
    """The open requests of a task: rows of Arrow's columns in, bodies of requests out."""

    def __new__(
        cls,
        *,
        batch_bytes: int,
        message_bytes_max: int,
        open_bytes_max: int,
        compression_kind: int | None,
        compression_level: int,
        compress_above_bytes: int,
        shared_len_bytes: int,
        is_marked: bool,
        system_names: Sequence[str],
    ) -> Self: ...
    @property
    def rows(self) -> int: ...
    def topic(self, name: str, queues: Sequence[tuple[str, int]]) -> int:
        """Takes a topic and its queues; returns its number."""

    def pack(
        self,
        columns: dict[str, tuple[Any, ...]],
        count: int,
        id_lead: str,
        id_first: int,
        topic_number: int | None = None,
    ) -> list[PackedRows]:
        """Takes rows; returns the requests that are full. `RowError` names a row that cannot go."""

    def finish(self) -> list[PackedRows]:
        """Closes what is open; the last request of each topic comes behind all others."""
