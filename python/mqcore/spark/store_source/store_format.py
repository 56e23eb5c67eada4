"""`format("mqcore-store")`: a store directory, or an archive of one, as rows; no broker is needed.

Spark makes these objects in its planner and sends the reader to every task.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from mqcore.model.parts import Part
from mqcore.spark.directories import Directory
from mqcore.spark.options import contradiction
from mqcore.spark.schema import Projection, ddl_of, project, read_ddl
from mqcore.spark.store_source import reading
from mqcore.spark.store_source.options import (
    BODILESS_SPLIT_BYTES,
    SPLIT_BYTES,
    StoreOptions,
    parse,
)
from mqcore.spark.store_source.planning import (
    RangesPartition,
    directories_of,
    partitions_of,
    ranges_of,
)
from mqcore.spark.store_source.pushed import Pushed
from mqcore.spark.store_source.segments import segments_of
from mqcore.spark.store_source.views import VIEW_TABLES
from mqcore.spark.worker_memory import set_apart

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


class StoreFormat(DataSource):
    """Stores as rows."""

    @classmethod
    def name(cls) -> str:
        """Returns what users call it."""
        return "mqcore-store"

    def schema(self) -> str:
        """Returns the columns where no schema is given.

        Raises:
            OptionError: The options cannot be.
            PathError: There is no store at the path.
        """
        options = parse(self.options)
        for directory in directories_of(options):
            segments_of(directory)
        if options.view in VIEW_TABLES:
            return ddl_of(VIEW_TABLES[options.view].columns)
        return read_ddl(
            has_properties=options.has_properties,
            has_body=options.has_body,
            has_corrupt=options.bad_records == "emit",
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader of a schema; it takes filters only where that was asked for.

        Raises:
            OptionError: The options cannot be.
            SchemaError: The schema asks for what is not there.
        """
        options = parse(self.options)
        if options.view in VIEW_TABLES:
            columns = VIEW_TABLES[options.view].columns
            return ViewReader(options, project(schema, columns=columns))
        projection = project(schema, rows_may_be_damaged=options.bad_records == "emit")
        if options.pushdown and not hasattr(datasource, "Filter"):
            raise contradiction("pushdown", "pushdown needs PySpark 4.1: this one has no filters")
        # Spark refuses a reader that takes filters unless its own setting allows it.
        reader = FilteringReader if options.pushdown else MessageReader
        return reader(options, projection)


class DirectoryPartition(InputPartition):
    """One directory, read by one task.

    Attributes:
        directory: The directory.
    """

    def __init__(self, directory: Directory) -> None:
        """Takes the directory."""
        super().__init__(directory)
        self.directory = directory


class MessageReader(DataSourceReader):
    """Reads the messages of logs."""

    def __init__(self, options: StoreOptions, projection: Projection) -> None:
        """Keeps what is asked.

        Args:
            options: What is to be read.
            projection: The columns.
        """
        self._options = options
        self._projection = projection
        self._pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        """Returns what the tasks read.

        Raises:
            PathError: There is no store at a path.
        """
        options = self._options
        pushed = self._pushed
        if pushed.wants_nothing:
            return []
        starts = [at for at in (options.start_physical, pushed.start_physical) if at is not None]
        ends = [at for at in (options.end_physical, pushed.end_physical) if at is not None]
        options = replace(
            options, start_physical=max(starts, default=None), end_physical=min(ends, default=None)
        )
        fit_bytes = SPLIT_BYTES if self._projection.part is Part.WHOLE else BODILESS_SPLIT_BYTES
        split_bytes = options.split_bytes or fit_bytes
        ranges = chain.from_iterable(
            ranges_of(directory, options, split_bytes) for directory in directories_of(options)
        )
        return list(partitions_of(ranges, split_bytes))

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yields the records of a task, as Arrow batches.

        Args:
            partition: What to read; Spark asks once with None where there is nothing.
        """
        set_apart()
        if not isinstance(partition, RangesPartition):
            return
        for each in partition.ranges:
            yield from reading.batches(each, self._projection, self._options, self._pushed)


class FilteringReader(MessageReader):
    """Reads the messages of logs, and does what it can of the query's filters itself."""

    def pushFilters(self, filters: "list[Filter]") -> "Iterable[Filter]":
        """Takes filters and returns those that are left to Spark."""
        from mqcore.spark.store_source.filters import push

        self._pushed, left = push(filters, self._pushed)
        return left


class ViewReader(DataSourceReader):
    """Reads what else a store holds."""

    def __init__(self, options: StoreOptions, projection: Projection) -> None:
        """Keeps what is asked.

        Args:
            options: What is to be read.
            projection: The columns.
        """
        self._options = options
        self._projection = projection

    def partitions(self) -> list[InputPartition]:
        """Returns the directories: one task each."""
        return [DirectoryPartition(directory) for directory in directories_of(self._options)]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        """Yields the rows of a directory, as Arrow batches."""
        if not isinstance(partition, DirectoryPartition):
            return
        view = VIEW_TABLES[self._options.view]
        yield from view.batches(partition.directory, self._projection)
