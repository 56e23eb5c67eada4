"""`format("mqcore")`: which class reads, and which writes. Each is imported when it is asked for.

Spark loads this in its planner and in every task: it must import fast.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

__all__ = ["TopicFormat"]


class TopicFormat(DataSource):
    """Topics of a cluster as rows."""

    @classmethod
    def name(cls) -> str:
        """Returns what users call it."""
        return "mqcore"

    def schema(self) -> str:
        """Returns the columns of a reader who named none."""
        from mqcore.spark.topic_source.reading import default_schema

        return default_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns what reads topics once.

        Args:
            schema: The columns that are wanted.

        Raises:
            SparkError: The columns or the options cannot work.
        """
        from mqcore.spark.topic_source.reading import batch_reader

        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Returns what reads topics as they grow.

        Args:
            schema: The columns that are wanted.

        Raises:
            SparkError: The columns or the options cannot work.
        """
        from mqcore.spark.topic_source.reading import stream_reader

        return stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Returns what writes a DataFrame.

        Args:
            schema: The DataFrame's columns.
            overwrite: Whether what is there should go: a topic cannot do that.

        Raises:
            SparkError: The columns or the options cannot work.
        """
        from mqcore.spark.topic_sink.planning import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Returns what writes the batches of a streaming query.

        Args:
            schema: The columns of the streaming DataFrame.
            overwrite: Whether the query's output mode is `complete`.

        Raises:
            SparkError: The columns or the options cannot work.
        """
        from mqcore.spark.topic_sink.planning import stream_writer

        return stream_writer(self.options, schema, overwrite=overwrite)
