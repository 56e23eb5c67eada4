"""What a task of `archive` reads of a topic: a range of a queue, pulled where the task runs.

Planned with what the brokers hold and what the manifest has. Imports Spark only because the source
of topics does.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from mqcore.spark.pipelines.archive_schema import ARCHIVE_COLUMNS, batch_schema
from mqcore.spark.pipelines.inputs import Input
from mqcore.spark.pipelines.manifest import Manifest
from mqcore.spark.pipelines.spans import Span, missing, stepped
from mqcore.spark.schema import Projection
from mqcore.spark.topic_source.batch_reader import wanted_of
from mqcore.spark.topic_source.cluster import Access, cluster_of
from mqcore.spark.topic_source.data_loss import LossRule
from mqcore.spark.topic_source.options import ReadOptions, read_options
from mqcore.spark.topic_source.planning import QueueRange
from mqcore.spark.topic_source.queue_json import key_of
from mqcore.spark.topic_source.range_reader import read_ranges
from mqcore.spark.topic_source.resolution import Topics
from mqcore.spark.topic_source.sizes import RowSizes

__all__ = ["TopicPlan", "TopicTask", "plan_topics"]


@dataclass(frozen=True, slots=True)
class TopicTask:
    """A range of a queue.

    Attributes:
        options: How the cluster is reached and read.
        part: The range.
    """

    options: ReadOptions
    part: QueueRange

    @property
    def spans(self) -> tuple[Span, ...]:
        """What it reads: messages of a queue."""
        return (Span(_source_of(self.part), self.part.start, self.part.end),)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the messages of the range.

        Raises:
            DataLossError: Retention took some of them meanwhile.
            RemotingError: A broker did not answer, after all tries.
        """
        cluster = cluster_of(Access.of(self.options))
        names = tuple(column.name for column in ARCHIVE_COLUMNS)
        projection = Projection(names, batch_schema())
        loss = LossRule(is_fatal=True)
        yield from read_ranges(cluster, [self.part], wanted_of(self.options), projection, loss)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What is to be archived of topics.

    Attributes:
        tasks: What is not archived yet.
        lost: Ranges that were never archived and are gone.
    """

    tasks: tuple[TopicTask, ...]
    lost: tuple[Span, ...]


def plan_topics(read: Input, manifest: Manifest, *, split_bytes: int) -> TopicPlan:
    """Returns what is to be archived of topics: up to what brokers have now.

    Args:
        read: The topics and the name servers.
        manifest: What is archived already.
        split_bytes: About how many bytes of messages one task reads.

    Raises:
        MQError: A topic or a broker is not there.
    """
    given = {"namesrv": str(read.namesrv), "subscribe": ",".join(read.topics)}
    options = read_options({**given, **read.options}, is_stream=False)
    cluster = cluster_of(Access.of(options))
    held = Topics(cluster, options).known_bounds()
    begins = {queue: bounds.min for queue, bounds in held.items()}
    ends = {queue: bounds.max for queue, bounds in held.items()}
    row_bytes = RowSizes(cluster).of(begins, ends)
    covered = manifest.covered()
    tasks, lost = [], []
    for queue in sorted(held):
        source = f"topic:{key_of(queue)}"
        known = covered.get(source, ())
        if known:
            gone = missing(known[0][0], begins[queue], known)
            lost += [Span(source, *one) for one in gone]
        rows = max(1, int(split_bytes / row_bytes[queue]))
        for gap in missing(begins[queue], ends[queue], known):
            for begin, end in stepped(*gap, rows):
                tasks.append(TopicTask(options, QueueRange(queue, begin, end, row_bytes[queue])))
    return TopicPlan(tuple(tasks), tuple(lost))


def _source_of(part: QueueRange) -> str:
    return f"topic:{key_of(part.queue)}"
