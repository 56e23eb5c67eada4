"""Reading topics as a batch: ranges are fixed when the query is planned, tasks read them.

The classes that Spark calls; everything they decide is in the files beside them. After
`DataSourceReader` of PySpark, and Kafka's `KafkaBatch`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from mqcore.model.queues import MessageQueue
from mqcore.spark.schema import Projection, project
from mqcore.spark.topic_source.cluster import Access, Cluster, cluster_of
from mqcore.spark.topic_source.data_loss import Loss, LossRule, mended
from mqcore.spark.topic_source.options import ReadOptions
from mqcore.spark.topic_source.planning import QueueRange, plan
from mqcore.spark.topic_source.range_reader import TOOLS_GROUP, Wanted, read_ranges
from mqcore.spark.topic_source.resolution import Topics, ends, starts
from mqcore.spark.topic_source.sizes import RowSizes
from mqcore.spark.worker_memory import set_apart

__all__ = ["RangesPartition", "TopicBatchReader", "plan_ranges", "read_partition", "wanted_of"]

QueueOffsets = dict[MessageQueue, int]


@dataclass
class RangesPartition(InputPartition):
    """What one task reads; crosses to it.

    Attributes:
        ranges: Parts of queues of one broker.
    """

    ranges: tuple[QueueRange, ...]


def wanted_of(options: ReadOptions) -> Wanted:
    """Returns what tasks want of their ranges."""
    return Wanted(
        group=options.group or TOOLS_GROUP,
        tags=options.tags,
        sql=options.sql,
        fetch_bytes=options.fetch_bytes,
        fetch_timeout_s=options.fetch_timeout_ms / 1000,
        pull_rows=options.pull_rows,
        batch_rows=options.batch_rows,
    )


def plan_ranges(
    options: ReadOptions, start: QueueOffsets, end: QueueOffsets, sizes: RowSizes
) -> list[RangesPartition]:
    """Returns the tasks that read from `start` to `end`."""
    row_bytes = sizes.of(start, end)
    ranges = [
        QueueRange(queue, start[queue], high, row_bytes[queue])
        for queue, high in end.items()
        if queue in start
    ]
    tasks = plan(
        ranges,
        min_tasks=options.min_partitions,
        rows_max=options.rows_per_partition,
        bytes_max=options.bytes_per_partition,
    )
    return [RangesPartition(tuple(task)) for task in tasks]


def read_partition(
    options: ReadOptions, wanted: Wanted, projection: Projection, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a task, in the task's process."""
    set_apart()
    ranges: Any = getattr(partition, "ranges", ())
    loss = LossRule(is_fatal=options.fails_on_data_loss)
    # Spark takes an iterator, and asks a plan without tasks for one empty one.
    yield from read_ranges(cluster_of(Access.of(options)), ranges, wanted, projection, loss)


class TopicBatchReader(DataSourceReader):
    """Reads topics once, from where to where the options define."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Takes the options and the columns.

        Raises:
            SchemaError: A column is unknown, or of another type.
        """
        self.options = options
        self.projection = project(schema)
        self.wanted = wanted_of(options)

    def partitions(self) -> Sequence[InputPartition]:
        """Asks brokers for offsets, and plans.

        Raises:
            MQError: A topic, a broker or an offset is not there.
        """
        cluster = cluster_of(Access.of(self.options))
        start, end = self.bounds(cluster)
        sizes = RowSizes(cluster, part=self.wanted.part_of(self.projection))
        return plan_ranges(self.options, start, end, sizes)

    def bounds(self, cluster: Cluster) -> tuple[QueueOffsets, QueueOffsets]:
        """Returns where each queue begins and ends."""
        options = self.options
        topics = Topics(cluster, options)
        held = topics.known_bounds()
        if options.sql is not None:
            cluster.check_filter(topics.names(), self.wanted.group, options.sql)
        loss = LossRule(is_fatal=options.fails_on_data_loss)
        start, lost = mended(starts(cluster, options, held, is_stream=False), held)
        loss.report(*lost)
        end = ends(cluster, options, held)
        beyond = [queue for queue, offset in end.items() if offset > held[queue].max]
        loss.report(*(Loss.truncated(each, end[each], held[each].max) for each in beyond))
        end |= {queue: held[queue].max for queue in beyond}
        if options.ending_ms is None and options.ending_times is None:
            back = [queue for queue, offset in end.items() if offset < start[queue]]
            loss.report(*(Loss.backwards(each, start[each], end[each]) for each in back))
        return start, {queue: max(offset, start[queue]) for queue, offset in end.items()}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task."""
        return read_partition(self.options, self.wanted, self.projection, partition)
