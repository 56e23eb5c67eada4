"""What of queues and index lies behind the end of a snapshot's log (docs/formats.md).

A file is read after the log's end was fixed, and may name what came since. An open of ours takes
that back; official brokers leave such units in the file, where they look like a log that is gone.
"""

import struct
from pathlib import Path
from typing import Final

__all__ = ["cut_units", "index_end", "unit_bytes"]

# The physical offset is first in both.
_UNIT_BYTES: Final = {"consumequeue": 20, "batchconsumequeue": 46}
_PHYSICAL: Final = struct.Struct(">q")
# Of the header of an index file: times of the first and last record, then their physical offsets.
_INDEX_HEADER: Final = struct.Struct(">qqqq")


def unit_bytes(path: str) -> int:
    """Returns the length of a unit of a queue's file; 0 of other files."""
    return _UNIT_BYTES.get(path.partition("/")[0], 0)


def cut_units(content: bytes, unit_len: int, end: int) -> bytes:
    """Returns the units of a queue's file that name records before `end`.

    Args:
        content: The file without the zeros at its end.
        unit_len: Bytes of a unit.
        end: A physical offset.
    """
    # The last unit may end with zeros of its own.
    whole = content + bytes(-len(content) % unit_len)
    low, high = 0, len(whole) // unit_len
    # Units lie in the order of their records.
    while low < high:
        middle = (low + high) // 2
        if _PHYSICAL.unpack_from(whole, middle * unit_len)[0] < end:
            low = middle + 1
        else:
            high = middle
    return whole[: low * unit_len]


def index_end(file: Path) -> int:
    """Returns the physical offset of the last record of an index file; 0 of an empty file."""
    with file.open("rb") as opened:
        header = opened.read(_INDEX_HEADER.size)
    return int(_INDEX_HEADER.unpack(header)[3]) if len(header) == _INDEX_HEADER.size else 0
