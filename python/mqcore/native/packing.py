"""Columns of rows as `RowPacker` takes them: buffers as Arrow lays them out. Values alone."""

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["MapColumn", "NumberColumn", "PackedColumn", "TextColumn"]


class TextColumn(NamedTuple):
    """A column of texts or bytes.

    Attributes:
        validity: A bit per row, None without a null.
        offsets: 32-bit offsets into `data`.
        data: The bytes.
        first: The row of the buffers that is the first one of the column.
    """

    validity: "Buffer | None"
    offsets: "Buffer"
    data: "Buffer"
    first: int


class NumberColumn(NamedTuple):
    """A column of whole numbers.

    Attributes:
        validity: A bit per row, None without a null.
        data: The numbers.
        width_bytes: Bytes of a number.
        first: The row of the buffers that is the first one of the column.
    """

    validity: "Buffer | None"
    data: "Buffer"
    width_bytes: int
    first: int


class MapColumn(NamedTuple):
    """A column of maps from text to text.

    Attributes:
        validity: A bit per row, None without a null.
        offsets: 32-bit offsets into names and values.
        names: The names of all maps of the buffers.
        values: Their values.
        first: The row of the buffers that is the first one of the column.
        pairs: How many names there are.
    """

    validity: "Buffer | None"
    offsets: "Buffer"
    names: TextColumn
    values: TextColumn
    first: int
    pairs: int


PackedColumn: TypeAlias = TextColumn | NumberColumn | MapColumn
