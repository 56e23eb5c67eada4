"""The class that Spark 4.0 and 4.1 calls for a stream: `latestOffset` knows no start and no limit.

It is asked before where the query begins, and after a restart each batch of the checkpoint is
planned first, from its end to its end: both show how far the stream has come.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from mqcore.spark.options import OptionError
from mqcore.spark.topic_source.options import ReadOptions
from mqcore.spark.topic_source.stream_calls import StreamCalls
from mqcore.spark.topic_source.stream_offsets import StreamOffset

__all__ = ["LegacyTopicStreamReader"]


class LegacyTopicStreamReader(DataSourceStreamReader):
    """Reads topics as they grow."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Takes the options and the columns.

        Raises:
            OptionError: There are limits per trigger, which this Spark does not know.
            SchemaError: A column is unknown, or of another type.
        """
        limits = (
            options.rows_per_trigger,
            options.bytes_per_trigger,
            options.min_rows_per_trigger,
        )
        if any(limit is not None for limit in limits) and not options.is_legacy_limited:
            raise OptionError(
                "limits per trigger need Spark 4.2: with this version Trigger.AvailableNow ends "
                "after one of them. Set legacyRateLimit to true to have them all the same",
                option="maxOffsetsPerTrigger",
            )
        self._calls = StreamCalls(options, schema)
        self._reached: StreamOffset | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Returns where a new query begins."""
        return self._calls.course.initial().to_json()

    # The signature is the old one: Spark looks at it.
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """Returns how far the next batch comes."""
        course = self._calls.course
        begun = self._reached if self._reached is not None else course.initial()
        self._reached = course.latest(begun, is_limited=self._calls.options.is_legacy_limited)
        return self._reached.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plans a batch."""
        done = StreamOffset.of_json(end)
        if self._reached is None:
            self._reached = done
        return self._calls.partitions(StreamOffset.of_json(start), done)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task."""
        return self._calls.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Commits to the group how far it is done."""
        self._calls.course.commit_to_group(StreamOffset.of_json(end))
