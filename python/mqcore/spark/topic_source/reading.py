"""Makes the reader that fits the options and the Spark that is installed."""

from collections.abc import Mapping
from importlib import util

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from mqcore.spark.errors import SparkError
from mqcore.spark.schema import read_ddl
from mqcore.spark.topic_source.batch_reader import TopicBatchReader
from mqcore.spark.topic_source.options import read_options

__all__ = ["batch_reader", "default_schema", "stream_reader"]


def default_schema(given: Mapping[str, str]) -> str:
    """Returns the columns of a reader who named none, as DDL."""
    folded = {name.lower(): value.strip().lower() for name, value in given.items()}
    return read_ddl(
        has_properties="true" in (folded.get("includeproperties"), folded.get("includeheaders")),
        has_body=folded.get("includebody") != "false",
    )


def batch_reader(given: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """Returns what reads topics once.

    Raises:
        OptionError: The options cannot work.
        SchemaError: The columns cannot.
        SparkError: Filters are to be pushed down, and this Spark cannot.
    """
    options = read_options(given, is_stream=False)
    if not options.pushes_down:
        return TopicBatchReader(options, schema)
    if not hasattr(DataSourceReader, "pushFilters"):
        raise SparkError("pushdown=true needs Spark 4.1 or newer: leave the option out")
    from mqcore.spark.topic_source.pushdown import PushdownBatchReader

    return PushdownBatchReader(options, schema)


def stream_reader(given: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """Returns what reads topics as they grow.

    Raises:
        OptionError: The options cannot work.
        SchemaError: The columns cannot.
    """
    options = read_options(given, is_stream=True)
    # From 4.2 on Spark has limits per trigger for sources in Python.
    if util.find_spec("pyspark.sql.streaming.datasource") is None:
        from mqcore.spark.topic_source.legacy_stream_reader import LegacyTopicStreamReader

        return LegacyTopicStreamReader(options, schema)
    from mqcore.spark.topic_source.stream_reader import TopicStreamReader

    return TopicStreamReader(options, schema)
