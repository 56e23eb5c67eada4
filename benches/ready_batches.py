"""What Spark itself takes of rows from Python: the limit of every scan.

A source that decodes one batch of each task of a store scan and gives it again and again: same
tasks, same columns, same bytes, no work but Spark's. Knows no goal.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark import cloudpickle

from mqcore.spark.schema import project
from mqcore.spark.store_source.options import parse
from mqcore.spark.store_source.store_format import MessageReader, StoreFormat

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceReader, InputPartition
    from pyspark.sql.types import StructType

FORMAT = "ready-batches"


class ReadyReader(MessageReader):
    """Reads a batch of each task and repeats it."""

    rows_per_task = 0

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yields about the rows of a task."""
        batch = next(super().read(partition), None)
        if batch is not None:
            for _ in range(max(1, self.rows_per_task // batch.num_rows)):
                yield batch


class ReadyFormat(StoreFormat):
    """The batches as rows; `rows` is how many there are in all."""

    @classmethod
    def name(cls) -> str:
        """Returns what it is called here."""
        return FORMAT

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader of a schema."""
        rows = int(self.options["rows"])
        reader = ReadyReader(parse({"path": self.options["path"]}), project(schema))
        reader.rows_per_task = rows // len(reader.partitions())
        return reader


def register(spark: SparkSession) -> None:
    """Makes the format known."""
    # Workers cannot import what is beside a script.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(ReadyFormat)
