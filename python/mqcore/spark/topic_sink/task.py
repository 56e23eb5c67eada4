"""One task of a write: rows come as Arrow batches, leave as requests, and all are acknowledged.

The last request of each topic leaves when all others are acknowledged, and carries how many rows
there were: what an attempt reports of its rows, it has.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from mqcore.client.identity import unique_ids
from mqcore.client.outgoing import SEND, SEND_BATCH, TRANSACTION_PREPARED, Outgoing
from mqcore.client.properties import RESERVED, UNIQ_KEY, properties_text
from mqcore.client.results import QueueRef
from mqcore.client.topics import Target
from mqcore.client.transactions import HALF_BATCH, half_properties
from mqcore.clock import wall_ms
from mqcore.errors import MQError
from mqcore.model.message_ids import parse_offset_id
from mqcore.model.topics import topic_fault
from mqcore.native import PackedRows, RowPacker
from mqcore.native.wire_errors import RowError
from mqcore.spark.errors import RowRefusedError, SinkError, SparkError
from mqcore.spark.topic_sink.columns import TOPIC, packed_columns
from mqcore.spark.topic_sink.epochs import HalfLocation
from mqcore.spark.topic_sink.marks import LAST_RESERVE_BYTES, ROW_OF, ROWS, TASK, TaskMark
from mqcore.spark.topic_sink.options import SinkOptions
from mqcore.spark.topic_sink.sending import Request, Stored, TopicClient, Window

__all__ = ["TaskReport", "WriteTask", "new_attempt"]

# All requests of a task that wait for rows; a task has some hundred MiB.
_OPEN_BYTES_MAX: Final = 64 << 20
_LEVEL: Final = 5
# What the marks are called is ours as well.
_SYSTEM_NAMES: Final = sorted(RESERVED | {TASK, ROW_OF, ROWS, HALF_BATCH})
# What a broker adds to a half message: topic, queue, cluster, ids and counts of checks.
_OF_HALF_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What became of a task.

    Attributes:
        mark: Which part of the result it made, and as which attempt.
        rows: How many rows.
        topic_rows: How many of them went to each topic.
        halves: The half messages that they are in, where they are in such.
    """

    mark: TaskMark
    rows: int
    topic_rows: dict[str, int] = field(default_factory=dict)
    halves: tuple[HalfLocation, ...] = ()


def new_attempt(number: int) -> str:
    """Returns what distinguishes an attempt, also from those of a driver that started again.

    Args:
        number: The number that Spark gives it.
    """
    return f"{number}-{os.urandom(4).hex()}"


@dataclass(slots=True)
class _Topic:
    """A topic of the task: its queues stay those that rows are packed for."""

    target: Target
    queues: tuple[QueueRef, ...]
    rows: int = 0
    is_timed: bool = False


class WriteTask:
    """Writes the rows of one task."""

    def __init__(self, options: SinkOptions, mark: TaskMark, client: TopicClient) -> None:
        """Begins.

        Args:
            options: How rows are written.
            mark: Which part of which result it makes.
            client: What sends.
        """
        self._options = options
        self._mark = mark
        self._client = client
        self._window = Window(client, options)
        self._shared = mark.shared_text if options.is_marked else ""
        self._half_text = properties_text(half_properties(client.group)) if options.is_exact else ""
        of_half_bytes = len(self._half_text) + _OF_HALF_BYTES if options.is_exact else 0
        self._numbers: dict[str, int] = {}
        self._topics: list[_Topic] = []
        kind = options.compression
        self._packer = RowPacker(
            batch_bytes=options.batch_bytes,
            message_bytes_max=options.message_bytes_max,
            open_bytes_max=_OPEN_BYTES_MAX,
            compression_kind=None if kind is None else int(kind),
            compression_level=_LEVEL,
            compress_above_bytes=options.compress_above_bytes,
            shared_len_bytes=len(self._shared) + LAST_RESERVE_BYTES + of_half_bytes,
            is_marked=options.is_marked,
            system_names=_SYSTEM_NAMES,
        )

    def write(
        self, batches: Iterable[pa.RecordBatch], column_indexes: dict[str, int]
    ) -> TaskReport:
        """Sends all rows; returns when all are acknowledged.

        Args:
            batches: The rows.
            column_indexes: The index of each column.

        Raises:
            RowRefusedError: A row cannot be sent; rows before it may be stored.
            SinkError: A request was not acknowledged, or a topic is not there.
        """
        try:
            for batch in batches:
                if batch.num_rows:
                    self._take(batch, column_indexes)
            self._finish()
        except RowError as error:
            raise self._refused(error.row, error.why) from None
        except SparkError:
            raise
        except MQError as error:
            raise SinkError(f"{self._attempt_name}: {error.message}") from error
        return self._report()

    @property
    def _attempt_name(self) -> str:
        mark = self._mark
        return f"partition {mark.partition}, attempt {mark.attempt.partition('-')[0]}"

    def _refused(self, row: int, why: str) -> RowRefusedError:
        return RowRefusedError(
            f"{self._attempt_name}, row {row} of its input cannot be sent: {why}",
            partition=self._mark.partition,
            row=row,
            why=why,
        )

    def _take(self, batch: pa.RecordBatch, column_indexes: dict[str, int]) -> None:
        number = None
        columns = packed_columns(batch, column_indexes)
        if self._options.topic is not None:
            number = self._number(self._options.topic)
        else:
            self._look_up(batch.column(column_indexes[TOPIC]))
        if "deliverTimestamp" in column_indexes and batch.column(
            column_indexes["deliverTimestamp"]
        ).null_count < (batch.num_rows):
            self._need_timers()
        lead, first = unique_ids().take(batch.num_rows, wall_ms())
        packed = self._packer.pack(columns, lead, first, number)
        for one in packed:
            self._send(one)

    def _look_up(self, topics: pa.Array) -> None:
        """Finds the queues of every topic that rows name, before the first of them is packed."""
        for name in topics.unique().to_pylist():
            if name is None or name in self._numbers:
                continue
            fault = topic_fault(name)
            if fault is not None:
                row = self._packer.rows + topics.index(name).as_py()
                raise self._refused(row, f"topic {name[:200]!r}: {fault}")
            self._number(name)

    def _number(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            target = self._client.target(name)
            if self._options.is_exact:
                self._client.need_half_batches(target)
            queues = target.queues
            number = self._numbers[name] = self._packer.topic(name, queues)
            self._topics.append(_Topic(target, queues))
        return number

    def _need_timers(self) -> None:
        for topic in self._topics:
            if not topic.is_timed:
                self._client.need_timers(topic.target)
                topic.is_timed = True

    def _finish(self) -> None:
        packed = self._packer.finish()
        for one in packed:
            if one.topic_rows is None:
                self._send(one)
        self._window.drain()
        for one in packed:
            if one.topic_rows is not None:
                self._topics[one.topic].rows = one.topic_rows
                self._send(one)
        self._window.drain()

    def _send(self, packed: PackedRows) -> None:
        topic = self._topics[packed.topic]
        properties = packed.properties + self._shared
        if packed.topic_rows is not None and self._shared:
            properties += TaskMark.last_text(packed.topic_rows)
        what = f"rows {packed.first_row} to {packed.last_row}"
        if self._options.is_exact:
            outgoing = self._half(topic.target.topic, packed, properties, what)
        else:
            outgoing = Outgoing(
                topic.target.topic,
                packed.body,
                properties,
                what,
                wall_ms(),
                code=SEND_BATCH if packed.is_batch else SEND,
                sys_flag=packed.sys_flag,
                is_batch=packed.is_batch,
            )
        queue = None if packed.queue is None else topic.queues[packed.queue]
        request = Request(
            outgoing, topic.target, queue, packed.rows, packed.first_row, packed.last_row
        )
        self._window.send(request)

    def _half(self, topic: str, packed: PackedRows, properties: str, what: str) -> Outgoing:
        """Returns rows as a half message; of many rows one that represents all of them."""
        text, sys_flag = properties + self._half_text, TRANSACTION_PREPARED
        if packed.is_batch:
            lead, number = unique_ids().take(1, wall_ms())
            more = {HALF_BATCH: str(packed.sys_flag), UNIQ_KEY: f"{lead}{number:04X}"}
            text += properties_text(more)
        else:
            sys_flag |= packed.sys_flag
        return Outgoing(topic, packed.body, text, what, wall_ms(), sys_flag=sys_flag)

    def _report(self) -> TaskReport:
        rows = {topic.target.topic: topic.rows for topic in self._topics if topic.rows}
        halves = tuple(map(self._location_of, self._window.stored))
        return TaskReport(self._mark, self._packer.rows, rows, halves)

    def _location_of(self, stored: Stored) -> HalfLocation:
        request, ext = stored.request, stored.answer.ext
        offset_id = parse_offset_id(ext.get("msgId", ""))
        if offset_id is None or "queueOffset" not in ext:
            raise SinkError(
                f"{self._attempt_name}: a broker acknowledged rows and does not say where"
            )
        return HalfLocation(
            stored.queue,
            int(ext["queueOffset"]),
            offset_id.physical_offset,
            str(self._mark),
            request.first_row,
            request.last_row,
            request.rows,
        )
