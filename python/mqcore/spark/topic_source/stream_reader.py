"""The class that Spark 4.2 and newer calls for a stream: `latestOffset` with a limit, AvailableNow.

Only passes on; `legacy_stream_reader` is its twin for 4.0 and 4.1.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from mqcore.spark.topic_source.options import ReadOptions
from mqcore.spark.topic_source.stream_calls import StreamCalls
from mqcore.spark.topic_source.stream_offsets import StreamOffset

__all__ = ["TopicStreamReader"]


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as they grow."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Takes the options and the columns.

        Raises:
            SchemaError: A column is unknown, or of another type.
        """
        self._calls = StreamCalls(options, schema)

    def initialOffset(self) -> dict[str, Any]:
        """Returns where a new query begins."""
        return self._calls.course.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns the limit that represents the options; all of them count."""
        options = self._calls.options
        if options.rows_per_trigger is not None:
            return ReadMaxRows(options.rows_per_trigger)
        if options.bytes_per_trigger is not None:
            return ReadMaxBytes(options.bytes_per_trigger)
        if options.min_rows_per_trigger is not None:
            return ReadMinRows(options.min_rows_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Returns how far the next batch comes.

        Args:
            start: How far the stream has come.
            limit: Ours, or all that is there (`Trigger.Once`).
        """
        is_limited = not isinstance(limit, ReadAllAvailable)
        begun = StreamOffset.of_json(start)
        return self._calls.course.latest(begun, is_limited=is_limited).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Returns how far it could come, for Spark's figures of backlog."""
        found = self._calls.course.report()
        return None if found is None else found.to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes the end: what is there now."""
        self._calls.course.aim()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plans a batch."""
        return self._calls.partitions(StreamOffset.of_json(start), StreamOffset.of_json(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task."""
        return self._calls.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Commits to the group how far it is done."""
        self._calls.course.commit_to_group(StreamOffset.of_json(end))
