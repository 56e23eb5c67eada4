"""What is decided before the first task runs: options, columns, topic. One clear error, or a plan.

Runs in Spark's planner on the driver's machine.
"""

import uuid
from collections.abc import Mapping

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from mqcore.errors import MQError
from mqcore.spark.errors import SinkError, SparkError
from mqcore.spark.topic_sink.columns import check_columns
from mqcore.spark.topic_sink.exactly_once import Epochs, exact_client
from mqcore.spark.topic_sink.options import SinkOptions, read_options
from mqcore.spark.topic_sink.sending import TopicClient
from mqcore.spark.topic_sink.writers import BatchWriter, Plan, StreamRowWriter

__all__ = ["batch_writer", "stream_writer"]

# What streams of this process write to.
_reached: set[SinkOptions] = set()


def batch_writer(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> DataSourceWriter:
    """Returns what writes a DataFrame.

    Args:
        given: The user's options.
        schema: The DataFrame's columns.
        overwrite: Whether the mode is `overwrite`.

    Raises:
        SparkError: Something cannot work; nothing was sent.
    """
    if overwrite:
        raise SparkError(
            "a topic cannot be overwritten: write with mode('append'), after deleting the topic "
            "where its messages should go"
        )
    options = read_options(given)
    if options.is_exact:
        raise SparkError(
            "option delivery is 'exactly-once', which a streaming query has: a batch write that is "
            "repeated with the same runId carries the same marks, and mqcore.spark.drop_repeats "
            "leaves one of each row"
        )
    column_indexes = check_columns(schema, has_topic=options.topic is not None)
    _check_reachable(options)
    run = options.run_id or uuid.uuid4().hex[:16]
    return BatchWriter(Plan(options, column_indexes, schema, run))


def stream_writer(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> DataSourceStreamWriter:
    """Returns what writes the batches of a streaming query.

    Args:
        given: The user's options.
        schema: The columns of the streaming DataFrame.
        overwrite: Whether the output mode is `complete`.

    Raises:
        SparkError: Something cannot work; nothing was sent.
    """
    if overwrite:
        raise SparkError(
            "outputMode('complete') writes the whole result again with each batch, and a topic "
            "only grows: use 'append' or 'update'"
        )
    options = read_options(given)
    if options.run_id is not None:
        raise SparkError(
            "option runId names a batch write; a streaming query is named by its checkpoint"
        )
    column_indexes = check_columns(schema, has_topic=options.topic is not None)
    if options.is_exact:
        _check_exact(column_indexes)
    # Spark plans every batch of a query anew: what was there once is looked after by the tasks.
    if options not in _reached:
        _check_reachable(options)
        _reached.add(options)
    plan = Plan(options, column_indexes, schema)
    if not hasattr(datasource, "DataSourceStreamArrowWriter"):
        # PySpark 4.0 gives streams row by row.
        return StreamRowWriter(plan)
    from mqcore.spark.topic_sink.stream_arrow import StreamArrowWriter

    return StreamArrowWriter(plan)


def _check_exact(column_indexes: Mapping[str, int]) -> None:
    """Checks that rows can be half messages.

    Raises:
        SparkError: They are delayed: brokers would ignore it.
    """
    delays = sorted({"delayLevel", "deliverTimestamp"} & column_indexes.keys())
    if delays:
        raise SparkError(
            f"the DataFrame has a column {delays[0]}, and with delivery 'exactly-once' rows cannot "
            "be delayed: drop it"
        )


def _check_reachable(options: SinkOptions) -> None:
    """Looks up the topic that all rows go to, so that a wrong address is one error, and early.

    Raises:
        SinkError: No name server answers, or no broker has the topic.
    """
    client = None
    try:
        if options.is_exact:
            Epochs(options, exact_client(options)).check_there()
        if options.topic is None:
            return
        client = TopicClient(options.client)
        client.target(options.topic)
    except MQError as error:
        where = options.topic or "topics"
        raise SinkError(f"writing to {where}: {error.message}") from None
    finally:
        if client is not None:
            client.close()
