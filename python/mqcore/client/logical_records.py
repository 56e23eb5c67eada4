"""Records of a physical queue as those of a logical one: its number, and its offsets.

As `PullAPIWrapper` does with the `offsetDelta` of an answer. Pure functions of bytes.
"""

import struct
from typing import Final

__all__ = ["logical_records"]

_SIZE: Final = struct.Struct(">i")
# Where a record has the number of its queue, and its offset there (store format, V1 and V2).
_QUEUE: Final = struct.Struct(">i")
_QUEUE_AT: Final = 12
_OFFSET: Final = struct.Struct(">q")
_OFFSET_AT: Final = 20
_HEAD_BYTES: Final = _OFFSET_AT + _OFFSET.size


def logical_records(body: bytes, queue_id: int, delta: int) -> bytes:
    """Returns records with the numbers of a logical queue; what is no whole record stays as it is.

    Args:
        body: Records side by side.
        queue_id: The logical queue.
        delta: What is added to their offsets.
    """
    records = bytearray(body)
    at = 0
    while at + _HEAD_BYTES <= len(records):
        (size,) = _SIZE.unpack_from(records, at)
        if size < _HEAD_BYTES:
            break
        (offset,) = _OFFSET.unpack_from(records, at + _OFFSET_AT)
        _QUEUE.pack_into(records, at + _QUEUE_AT, queue_id)
        _OFFSET.pack_into(records, at + _OFFSET_AT, offset + delta)
        at += size
    return bytes(records)
