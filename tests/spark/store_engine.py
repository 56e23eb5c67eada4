"""Plays Spark's calls on `format("mqcore-store")` without Spark: plan here, read elsewhere.

What Spark sends from the driver to a task is pickled, so it is here; every batch is checked against
the schema that Spark would expect.
"""

import pickle
from collections.abc import Iterable
from inspect import signature
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict, Filter
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from mqcore.spark.store_source.store_format import FilteringReader, StoreFormat

# Before Spark 4.2 there is no other.
_IN_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
)

Row = dict[str, Any]
TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(),
    "map<string,string>": MapType(StringType(), StringType()),
}


def struct(ddl: str) -> StructType:
    """Returns the schema of a DDL text; Spark's own parser needs a JVM."""
    schema = StructType()
    for column in ddl.split(", "):
        name, kind, *rest = column.split(" ")
        schema.add(name, TYPES[kind], nullable=not rest)
    return schema


def options_of(path: Path | str, options: dict[str, object]) -> CaseInsensitiveDict:
    """Returns options as Spark gives them: all of them text."""
    texts = {name: _text(value) for name, value in options.items()}
    return CaseInsensitiveDict({"path": str(path), **texts})


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def plan(
    path: Path | str, ddl: str | None = None, filters: Iterable[Filter] = (), **options: object
) -> tuple[Any, list[Any], StructType, list[Filter]]:
    """Returns what the driver sends to tasks: reader, partitions, schema, filters left to Spark."""
    made = StoreFormat(options_of(path, options))
    schema = struct(ddl or made.schema())
    reader = made.reader(schema)
    left: list[Filter] = list(filters)
    if isinstance(reader, FilteringReader):
        left = list(reader.pushFilters(left))
    partitions: list[Any] = list(reader.partitions()) or [None]
    return pickle.loads(pickle.dumps(reader)), partitions, schema, left


def batches(path: Path | str, ddl: str | None = None, **options: object) -> list[pa.RecordBatch]:
    """Returns everything that the tasks yield."""
    reader, partitions, schema, _left = plan(path, ddl, **options)  # type: ignore[arg-type]
    expected = to_arrow_schema(schema, **_IN_UTC)
    found = []
    for partition in partitions:
        for batch in reader.read(pickle.loads(pickle.dumps(partition))):
            batch.validate(full=True)
            assert batch.schema.equals(expected), (batch.schema, expected)
            assert batch.num_rows > 0
            found.append(batch)
    return found


def rows(path: Path | str, ddl: str | None = None, **options: object) -> list[Row]:
    """Returns the rows that Spark would get, in the order of partitions."""
    return [row for batch in batches(path, ddl, **options) for row in batch.to_pylist()]
