"""The columns of an archive's files: those of the read schema; the topic is in the path.

Knows no Spark.
"""

import pyarrow as pa

from mqcore.spark.schema import CORRUPT_NAME, READ_COLUMNS

__all__ = ["ARCHIVE_COLUMNS", "archive_ddl", "batch_schema"]

# Everything a record holds, the topic included: the order of the batches that are archived.
ARCHIVE_COLUMNS = tuple(column for column in READ_COLUMNS if column.name != CORRUPT_NAME)


def batch_schema() -> pa.Schema:
    """Returns the schema of batches that can be archived."""
    return pa.schema(
        [
            pa.field(column.name, column.arrow, nullable=column.may_be_null)
            for column in ARCHIVE_COLUMNS
        ]
    )


def archive_ddl() -> str:
    """Returns the schema of an archive as Spark reads it: all columns, and the day `dt`."""
    columns = ", ".join(f"`{column.name}` {column.ddl}" for column in ARCHIVE_COLUMNS)
    return f"{columns}, dt date"
