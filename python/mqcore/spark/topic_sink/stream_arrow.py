"""The writer of streams by Arrow batches, which Spark has from 4.1 on: import it only there."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from mqcore.spark.topic_sink.writers import StreamEnd, mark_of_stream, written

__all__ = ["StreamArrowWriter"]


class StreamArrowWriter(StreamEnd, DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of a task; returns when all are acknowledged."""
        return written(self._plan, mark_of_stream(), iterator)
