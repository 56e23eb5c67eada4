"""The columns that can be written: checked when a query is planned, and given to Rust.

Columns that only a read gives (offsets, times, hosts) are passed over, so that rows that were read
can be written; a name that is none of ours is an error. Knows no topic.
"""

import difflib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import StructType

from mqcore.spark.errors import SparkError
from mqcore.spark.schema import READ_COLUMNS

__all__ = ["BODY", "TOPIC", "WRITE_COLUMNS", "check_columns", "packed_columns", "row_batches"]

BODY: Final = "body"
TOPIC: Final = "topic"
_TEXT: Final = ("string",)
_NUMBER: Final = ("int", "bigint")
# Name and the Spark types that it may have.
WRITE_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    BODY: ("binary", "string"),
    TOPIC: _TEXT,
    "tags": _TEXT,
    "keys": _TEXT,
    "messageGroup": _TEXT,
    "properties": ("map<string,string>",),
    "delayLevel": _NUMBER,
    "deliverTimestamp": ("timestamp",),
    "queueId": _NUMBER,
    "brokerName": _TEXT,
}
# What Kafka's sink calls them.
_KAFKA_NAMES: Final = {
    "value": BODY,
    "key": "keys",
    "headers": "properties",
    "partition": "queueId",
    "timestamp": "deliverTimestamp",
}
_READ_ONLY: Final = frozenset(
    column.name.lower() for column in READ_COLUMNS if column.name not in WRITE_COLUMNS
)
_BY_FOLDED_NAME: Final = {name.lower(): name for name in WRITE_COLUMNS}
_BYTES_TYPE: Final = pa.binary()
_NUMBER_TYPE: Final = pa.int64()
_MAP_TYPE: Final = pa.map_(_BYTES_TYPE, _BYTES_TYPE)
_TIME_TYPE: Final = pa.timestamp("us", tz="UTC")


def check_columns(schema: StructType, *, has_topic: bool) -> dict[str, int]:
    """Returns the index of each column that is written.

    Args:
        schema: The DataFrame's columns.
        has_topic: Whether an option names the topic of all rows.

    Raises:
        SparkError: A column is missing, unknown, there twice, or of another type.
    """
    found: dict[str, int] = {}
    for at, field in enumerate(schema.fields):
        name = _BY_FOLDED_NAME.get(field.name.lower())
        if name is None:
            if field.name.lower() not in _READ_ONLY:
                raise _unknown(field.name)
            continue
        if name in found:
            raise SparkError(f"the DataFrame has the column {name} twice; select one of them")
        given, may = field.dataType.simpleString(), WRITE_COLUMNS[name]
        if given not in may:
            raise SparkError(
                f"the column {field.name} is {given}, and {' or '.join(may)} can be written: "
                "cast it before"
            )
        found[name] = at
    if BODY not in found:
        raise SparkError(
            f"the DataFrame has no column {BODY}, which holds what is sent: make one, for example "
            "selectExpr('to_json(struct(*)) AS body')"
        )
    if TOPIC not in found and not has_topic:
        raise SparkError("nothing says where rows go: give option('topic', ...), or a column topic")
    if "brokerName" in found and "queueId" not in found:
        raise SparkError(
            "the DataFrame has a column brokerName and none of queueId: a queue is named by both"
        )
    return found


def _unknown(name: str) -> SparkError:
    folded = name.lower()
    near = difflib.get_close_matches(folded, _BY_FOLDED_NAME, n=1)
    better = _KAFKA_NAMES.get(folded) or (_BY_FOLDED_NAME[near[0]] if near else None)
    hint = f"did you mean {better}?" if better else f"there are {', '.join(WRITE_COLUMNS)}"
    return SparkError(f"the DataFrame has a column {name}, which no message has; {hint}")


def packed_columns(batch: pa.RecordBatch, column_indexes: dict[str, int]) -> pa.RecordBatch:
    """Returns the columns of a batch as `mqcore.native.RowPacker` takes them; copies no text.

    Args:
        batch: Rows, their columns in the order of the schema that was checked.
        column_indexes: The index of each column, as `check_columns` found it.

    Raises:
        pyarrow.ArrowInvalid: Lengths and offsets of the batch do not fit its data.
    """
    arrays = [_packed(name, batch.column(at)) for name, at in column_indexes.items()]
    # It validates, which `RowPacker` relies on: no buffer is shorter than its last offset.
    return pa.RecordBatch.from_arrays(arrays, names=list(column_indexes))


def _packed(name: str, array: pa.Array) -> pa.Array:
    """Returns a column in the type that Rust reads; Spark may be set to send wider offsets."""
    if WRITE_COLUMNS[name] is _NUMBER:
        return _as(array, _NUMBER_TYPE)
    if name == "deliverTimestamp":
        return _as(_as(array, _TIME_TYPE), _NUMBER_TYPE)
    return _as(array, _MAP_TYPE if name == "properties" else _BYTES_TYPE)


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type.equals(kind) else array.cast(kind)


# As many as Spark puts into a batch of its own.
_ROWS_OF_BATCH: Final = 10_000


def row_batches(rows: Iterable[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yields rows as Arrow batches, for a Spark that gives rows only.

    Args:
        rows: Rows with the columns of `schema`.
        schema: Their columns.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema)
    left = iter(rows)
    while taken := list(islice(left, _ROWS_OF_BATCH)):
        columns = [
            pa.array([_value(row[at]) for row in taken], field.type)
            for at, field in enumerate(arrow)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow)


def _value(value: Any) -> Any:
    """Returns a value as Arrow takes it: maps as pairs, bytes as bytes."""
    if isinstance(value, dict):
        return list(value.items())
    return bytes(value) if isinstance(value, bytearray) else value
