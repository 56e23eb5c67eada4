"""Drives one task of the sink without Spark: plays the calls that its engine makes of a writer."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from mqcore.spark.topic_sink.columns import check_columns
from mqcore.spark.topic_sink.marks import TaskMark
from mqcore.spark.topic_sink.options import read_options
from mqcore.spark.topic_sink.sending import TopicClient
from mqcore.spark.topic_sink.task import TaskReport, WriteTask, new_attempt

TIME = pa.timestamp("us", tz="UTC")
MAP = pa.map_(pa.string(), pa.string())
TYPES = {
    "queueId": pa.int32(),
    "delayLevel": pa.int32(),
    "deliverTimestamp": TIME,
    "properties": MAP,
}


class Served(Protocol):
    """A cluster that can be reached."""

    @property
    def namesrv(self) -> str:
        """The address of its name server."""
        ...


def batch_of(columns: Mapping[str, Sequence[Any]]) -> pa.RecordBatch:
    """Returns a batch with the types that Spark would send."""
    arrays = {
        name: pa.array(
            values,
            TYPES.get(name) or (pa.binary() if isinstance(values[0], bytes) else pa.string()),
        )
        for name, values in columns.items()
    }
    return pa.RecordBatch.from_pydict(arrays)


def mark_of(partition: int = 0, *, batch: int = 0, query: str = "q", number: int = 0) -> TaskMark:
    """Returns the mark of a new attempt."""
    return TaskMark(query, batch, partition, new_attempt(number))


def write_rows(
    served: Served,
    batches: Iterable[pa.RecordBatch],
    mark: TaskMark | None = None,
    **options: str,
) -> TaskReport:
    """Runs a task to its end and returns what it reports to the driver."""
    made = read_options({"namesrv": served.namesrv, **options})
    listed = iter(batches)
    first = next(listed)
    columns_of = check_columns(from_arrow_schema(first.schema), has_topic=made.topic is not None)
    client = TopicClient(made.client)

    def all_of_them() -> Iterable[pa.RecordBatch]:
        yield first
        yield from listed

    try:
        return WriteTask(made, mark or mark_of(), client).write(all_of_them(), columns_of)
    finally:
        client.close()
