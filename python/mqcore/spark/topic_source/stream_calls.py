"""What both stream readers do alike: plan a batch of a course, and read a task of it.

The reader crosses to each task, the course does not: it belongs to the planner's process.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from mqcore.model.parts import Part
from mqcore.spark.schema import project
from mqcore.spark.topic_source.batch_reader import plan_ranges, read_partition, wanted_of
from mqcore.spark.topic_source.cluster import Access, cluster_of
from mqcore.spark.topic_source.options import ReadOptions
from mqcore.spark.topic_source.sizes import RowSizes
from mqcore.spark.topic_source.stream_course import StreamCourse
from mqcore.spark.topic_source.stream_offsets import StreamOffset

__all__ = ["StreamCalls"]


class StreamCalls:
    """A stream in the planner's process, and its tasks in theirs.

    Attributes:
        options: What the user gave.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Takes the options and the columns.

        Raises:
            SchemaError: A column is unknown, or of another type.
        """
        self.options = options
        self._projection = project(schema)
        self._wanted = wanted_of(options)
        self._course: StreamCourse | None = None
        self._sizes: RowSizes | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Crosses to tasks without what holds connections."""
        return self.__dict__ | {"_course": None, "_sizes": None}

    @property
    def course(self) -> StreamCourse:
        """The course of the stream."""
        if self._course is None:
            self._course = StreamCourse(self.options, cluster_of(Access.of(self.options)))
        return self._course

    @property
    def sizes(self) -> RowSizes:
        """What tasks read of a message; limits of triggers count whole messages."""
        part = self._wanted.part_of(self._projection)
        if part is Part.WHOLE:
            return self.course.sizes
        if self._sizes is None:
            self._sizes = RowSizes(cluster_of(Access.of(self.options)), part=part)
        return self._sizes

    def partitions(self, start: StreamOffset, end: StreamOffset) -> Sequence[InputPartition]:
        """Plans a batch."""
        begun, ends = self.course.between(start, end)
        return plan_ranges(self.options, begun, ends, self.sizes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task."""
        return read_partition(self.options, self._wanted, self._projection, partition)
