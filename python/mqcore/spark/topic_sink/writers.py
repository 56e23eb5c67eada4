"""The classes that Spark calls to write DataFrames and streams of rows. They only pass on.

They travel to every task pickled, and hold nothing but what was planned.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from mqcore.spark.errors import SinkError
from mqcore.spark.topic_sink.columns import row_batches
from mqcore.spark.topic_sink.exactly_once import Epochs, exact_client
from mqcore.spark.topic_sink.marks import TaskMark, query_mark
from mqcore.spark.topic_sink.options import SinkOptions
from mqcore.spark.topic_sink.sending import topic_client
from mqcore.spark.topic_sink.task import TaskReport, WriteTask, new_attempt
from mqcore.spark.worker_memory import set_apart

__all__ = ["BatchWriter", "Plan", "StreamEnd", "StreamRowWriter", "mark_of_stream", "written"]

_log = logging.getLogger(__name__)

# What a streaming query hands to its tasks: `StreamExecution.QUERY_ID_KEY` and
# `MicroBatchExecution.BATCH_ID_KEY`.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class Plan:
    """What was decided when the query was planned.

    Attributes:
        options: How rows are written.
        column_indexes: The index of each column.
        schema: The DataFrame's columns.
        run: What names a batch write; empty for a stream, which has its query.
    """

    options: SinkOptions
    column_indexes: dict[str, int]
    schema: StructType
    run: str = ""


@dataclass(frozen=True, slots=True)
class SinkCommit(WriterCommitMessage):
    """What a task reports to the driver."""

    report: TaskReport


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise SinkError("a writer runs in a task of Spark only")
    return context


def _property(context: TaskContext, name: str) -> str:
    value = context.getLocalProperty(name)
    if value is None:
        raise SinkError(f"this task belongs to no batch of a streaming query: it has no {name}")
    return value


def written(plan: Plan, mark: TaskMark, batches: Iterator[pa.RecordBatch]) -> SinkCommit:
    """Writes the rows of a task; returns when all are acknowledged.

    Args:
        plan: What was planned.
        mark: Which part of which result the task makes.
        batches: The rows.

    Raises:
        SinkError: They are not all acknowledged.
    """
    set_apart()
    options = plan.options
    client = exact_client(options) if options.is_exact else topic_client(options.client)
    task = WriteTask(options, mark, client)
    return SinkCommit(task.write(batches, plan.column_indexes))


def mark_of_stream() -> TaskMark:
    """Returns which part of which batch the running task makes.

    Raises:
        SinkError: It belongs to no streaming query.
    """
    context = _context()
    return TaskMark(
        query_mark(_property(context, _QUERY_ID)),
        int(_property(context, _BATCH_ID)),
        context.partitionId(),
        new_attempt(context.attemptNumber()),
    )


def _reports(messages: Sequence[WriterCommitMessage | None]) -> list[TaskReport]:
    """Returns what tasks reported; of one that failed there is nothing."""
    return [message.report for message in messages if isinstance(message, SinkCommit)]


def _log_written(what: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Logs what was written."""
    reports = _reports(messages)
    rows = sum(report.rows for report in reports)
    topics: dict[str, int] = {}
    for report in reports:
        for topic, count in report.topic_rows.items():
            topics[topic] = topics.get(topic, 0) + count
    named = ", ".join(f"{count} to {topic}" for topic, count in sorted(topics.items()))
    _log.info("%s: %d rows of %d tasks acknowledged: %s", what, rows, len(reports), named)


def _aborted(what: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    done = sum(isinstance(message, SinkCommit) for message in messages)
    _log.warning(
        "%s was given up: %d of %d tasks wrote all their rows, and others some of theirs; topics "
        "take nothing back, and mqcore.spark.drop_repeats leaves one of each when it runs again",
        what,
        done,
        len(messages),
    )


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame."""

    def __init__(self, plan: Plan) -> None:
        """Takes what was planned."""
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of a task; returns when all are acknowledged."""
        context = _context()
        attempt = new_attempt(context.attemptNumber())
        mark = TaskMark(self._plan.run, 0, context.partitionId(), attempt)
        return written(self._plan, mark, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Logs what was written."""
        _log_written(f"write {self._plan.run}", messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Logs what was given up."""
        _aborted(f"write {self._plan.run}", messages)


class StreamEnd:
    """What streaming writers have in common on the driver."""

    def __init__(self, plan: Plan) -> None:
        """Takes what was planned."""
        self._plan = plan

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Logs what was written, or commits it; once more of the same batch does no harm.

        Raises:
            SinkError: With delivery 'exactly-once': not all of it can be read yet.
        """
        if self._plan.options.is_exact:
            self._epochs().commit(_reports(messages), batchId)
        _log_written(f"batch {batchId}", messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Logs what was given up, or rolls it back."""
        if self._plan.options.is_exact:
            reports = _reports(messages)
            self._epochs().abort(reports, batchId, is_whole=len(reports) == len(messages))
            return
        _aborted(f"batch {batchId}", messages)

    def _epochs(self) -> Epochs:
        options = self._plan.options
        return Epochs(options, exact_client(options))


class StreamRowWriter(StreamEnd, DataSourceStreamWriter):
    """Writes the batches of a streaming query where Spark gives rows only: 4.0."""

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Writes the rows of a task; returns when all are acknowledged."""
        batches = row_batches(iterator, self._plan.schema)
        return written(self._plan, mark_of_stream(), batches)
