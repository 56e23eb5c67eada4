"""Batches of native columns as Arrow record batches, without copying. Knows no record."""

import pyarrow as pa

from mqcore.native.columns import ColumnBatch


def to_arrow(batch: ColumnBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the batch with a schema; the memory stays that of the batch.

    Args:
        batch: Rows by column.
        schema: One field per column of the batch, in its order, of its type: names and nullability
            are the reader's.
    """
    return pa.RecordBatch.from_arrays(pa.record_batch(batch).columns, schema=schema)
