"""The columns that both sources give, as one table, and what a reader's own schema asks of them.

Spark has no column pruning for Python sources, so a schema given to `.schema(...)` is the
projection: any of our columns in any order. The Arrow schema of what we send is made here and
nowhere else, because Spark compares it with its own exactly (from 4.2 on) or fails obscurely in the
JVM (before). Knows no record and no file, and imports no Spark: archives are written without.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from mqcore.model.parts import Part
from mqcore.spark.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
PROPERTIES: Final = pa.map_(pa.string(), pa.string())
PROPERTIES_NAME: Final = "properties"
BODY_NAME: Final = "body"
BODY_LENGTH_NAME: Final = "bodyLength"
# What the queues alone contain of a message, without its record.
_QUEUE_COLUMNS: Final = frozenset(
    ("topic", "brokerName", "queueId", "queueOffset", "physicalOffset")
)
# Why a row is none: only where damaged records are given out as rows.
CORRUPT_NAME: Final = "_corrupt"


class SchemaError(SparkError):
    """A schema asks for a column that is not there, or for one of another type.

    Attributes:
        column: The column as it was asked for.
    """

    column: str


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """One column that can be read.

    Attributes:
        name: Its name.
        ddl: Its type as Spark writes it in DDL.
        arrow: Its type in Arrow, as Spark converts it.
        may_be_null: Whether a whole record can have none.
        note: What it holds.
    """

    name: str
    ddl: str
    arrow: pa.DataType
    may_be_null: bool
    note: str


def _columns() -> Iterable[ReadColumn]:
    text, number, long = ("string", pa.string()), ("int", pa.int32()), ("bigint", pa.int64())
    time = ("timestamp", TIMESTAMP)
    rows: tuple[tuple[str, tuple[str, pa.DataType], bool, str], ...] = (
        ("topic", text, False, "topic as stored: for a half or delayed message the system topic"),
        ("brokerName", text, True, "broker that holds the queue; null in a scan that is not told"),
        ("queueId", number, False, "queue of the topic"),
        ("queueOffset", long, False, "place in the queue, in messages"),
        ("physicalOffset", long, False, "place in the broker's log, in bytes"),
        ("msgId", text, False, "the producer's id, or the offset id where it gave none"),
        ("keys", text, True, "keys, separated by spaces"),
        ("tags", text, True, "tag"),
        ("messageGroup", text, True, "the key that keeps messages in order (`__SHARDINGKEY`)"),
        (BODY_NAME, ("binary", pa.binary()), False, "body, inflated where it was compressed"),
        (BODY_LENGTH_NAME, number, False, "bytes of the body as stored, without reading it"),
        ("flag", number, False, "flag of the user"),
        ("sysFlag", number, False, "system flag as stored"),
        ("reconsumeTimes", number, False, "how often it was consumed before"),
        ("bornTimestamp", time, False, "time on the producer's clock"),
        ("storeTimestamp", time, False, "time on the broker's clock"),
        ("deliverTimestamp", time, True, "when a timed message is to be delivered"),
        ("bornHost", text, False, "address and port of the producer"),
        ("storeHost", text, False, "address and port of the broker"),
        (PROPERTIES_NAME, ("map<string,string>", PROPERTIES), False, "all properties"),
        (CORRUPT_NAME, text, True, "what is wrong with a damaged record; null for a whole one"),
    )
    for name, (ddl, arrow), may_be_null, note in rows:
        yield ReadColumn(name, ddl, arrow, may_be_null, note)


READ_COLUMNS: Final = tuple(_columns())


def read_ddl(
    *, has_properties: bool = False, has_body: bool = True, has_corrupt: bool = False
) -> str:
    """Returns the schema of a reader who gave none, as DDL.

    Args:
        has_properties: With the map of all properties, which costs some 40 % of the throughput.
        has_body: With the body.
        has_corrupt: With the column of damaged records.
    """
    left_out = {
        name
        for name, is_in in (
            (PROPERTIES_NAME, has_properties),
            (BODY_NAME, has_body),
            (CORRUPT_NAME, has_corrupt),
        )
        if not is_in
    }
    return ddl_of(column for column in READ_COLUMNS if column.name not in left_out)


def ddl_of(columns: Iterable[ReadColumn]) -> str:
    """Returns columns as Spark writes a schema in DDL."""
    return ", ".join(f"{column.name} {column.ddl}" for column in columns)


@dataclass(frozen=True, slots=True)
class Projection:
    """What a reader asked for.

    Attributes:
        columns: Names of our columns, in the order asked for.
        arrow: The Arrow schema of every batch sent to Spark: names and nullability as asked for.
    """

    columns: tuple[str, ...]
    arrow: pa.Schema

    @property
    def part(self) -> Part:
        """What of its messages the columns are made of."""
        if BODY_NAME in self.columns or BODY_LENGTH_NAME in self.columns:
            return Part.WHOLE
        return Part.OFFSETS if _QUEUE_COLUMNS.issuperset(self.columns) else Part.BODILESS

    def check(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the batch when its schema is the promised one, exactly.

        Raises:
            SchemaError: It is not: a fault of ours, named here rather than by the JVM.
        """
        if not batch.schema.equals(self.arrow):
            raise SchemaError(
                f"a batch has the schema {batch.schema}, Spark was promised {self.arrow}",
                column="",
            )
        return batch


def project(
    schema: "StructType",
    *,
    columns: Iterable[ReadColumn] = READ_COLUMNS,
    rows_may_be_damaged: bool = False,
) -> Projection:
    """Returns what a schema asks for.

    Names are found in any case, as Spark finds them, and come back as they were asked for.

    Args:
        schema: A subset of the columns in any order.
        columns: What there is.
        rows_may_be_damaged: Damaged records come as rows, so that only their location is surely
            there.

    Raises:
        SchemaError: A column is unknown (the nearest is named), asked for twice, has another type,
            or is to be never null and may be.
    """
    by_folded_name = {column.name.lower(): column for column in columns}
    found: list[ReadColumn] = []
    fields: list[pa.Field] = []
    for field in schema.fields:
        column = _column(field.name, by_folded_name)
        if column in found:
            raise SchemaError(f"the schema asks for {field.name} twice", column=field.name)
        _check_type(field, column)
        is_sure = not column.may_be_null
        if rows_may_be_damaged:
            is_sure = column.name == "physicalOffset"
        if not field.nullable and not is_sure:
            raise SchemaError(
                f"the schema asks for {field.name} NOT NULL, and there are rows without it; "
                "leave NOT NULL out",
                column=field.name,
            )
        found.append(column)
        fields.append(pa.field(field.name, column.arrow, nullable=field.nullable))
    return Projection(tuple(column.name for column in found), pa.schema(fields))


def _column(name: str, by_folded_name: dict[str, ReadColumn]) -> ReadColumn:
    column = by_folded_name.get(name.lower())
    if column is not None:
        return column
    near = difflib.get_close_matches(name.lower(), by_folded_name, n=1)
    if near:
        hint = f"did you mean {by_folded_name[near[0]].name}?"
    else:
        hint = f"there are {', '.join(column.name for column in by_folded_name.values())}"
    raise SchemaError(f"there is no column {name}; {hint}", column=name)


def _check_type(field: Any, column: ReadColumn) -> None:
    asked = field.dataType.simpleString()
    if asked != column.ddl or not getattr(field.dataType, "valueContainsNull", True):
        raise SchemaError(
            f"the column {field.name} is {column.ddl}, the schema asks for {asked}; "
            "read it as it is and cast it in the query",
            column=field.name,
        )
