"""Batches of native columns as Arrow record batches, without copying. Knows no record."""

from typing import Any

import pyarrow as pa

from mqcore.native.columns import ColumnBatch, ColumnBuffers

# Buffers of a map before those of its values: validity, offsets, and two of the names.
_MAP_NAMES_AT = 2
_MAP_VALUES_AT = 4


def to_arrow(batch: ColumnBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the batch with a schema; the memory stays that of the batch's buffers.

    Args:
        batch: Rows by column.
        schema: One field per column of the batch, in its order, of the type it is laid out as.
    """
    arrays = [
        _array(field.type, batch.rows, batch.column(index)) for index, field in enumerate(schema)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(kind: pa.DataType, rows: int, column: ColumnBuffers) -> pa.Array:
    parts: list[Any] = list(column.buffers)
    buffers: list[Any] = [None if part is None else pa.py_buffer(part) for part in parts]
    if not pa.types.is_map(kind):
        return pa.Array.from_buffers(kind, rows, buffers, column.nulls)
    # The offsets of the names are one more than names, four bytes each.
    pairs = buffers[_MAP_NAMES_AT].size // 4 - 1
    names = pa.Array.from_buffers(
        kind.key_type, pairs, [None, *buffers[_MAP_NAMES_AT:_MAP_VALUES_AT]], 0
    )
    values = pa.Array.from_buffers(kind.item_type, pairs, [None, *buffers[_MAP_VALUES_AT:]], 0)
    entries = pa.StructArray.from_arrays([names, values], fields=[kind.key_field, kind.item_field])
    return pa.Array.from_buffers(
        kind, rows, buffers[:_MAP_NAMES_AT], column.nulls, children=[entries]
    )
