"""Columns of Arrow through the door into requests: what fits is packed, the rest refused."""

import struct
from typing import Any

import pyarrow as pa
import pytest

from mqcore.model.queues import MessageQueue
from mqcore.native import RowPacker
from mqcore.native.wire_errors import RowError

MAP = pa.map_(pa.binary(), pa.binary())


@pytest.fixture
def packer() -> RowPacker:
    """Returns a packer that knows one topic of two queues."""
    made = RowPacker(
        batch_bytes=1 << 16,
        message_bytes_max=1 << 20,
        open_bytes_max=1 << 20,
        compression_kind=None,
        compression_level=5,
        compress_above_bytes=4096,
        shared_len_bytes=0,
        is_marked=False,
        system_names=[],
    )
    made.topic("topic", [MessageQueue("topic", "broker", number) for number in range(2)])
    return made


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def bodies_of(offsets: list[int], data: bytes) -> pa.RecordBatch:
    """Returns rows with any offsets: PyArrow checks them only while a batch is made."""
    ends = bytearray(4 * len(offsets))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers, null_count=0)
    made = batch(body=array)
    struct.pack_into(f"{len(offsets)}i", ends, 0, *offsets)
    return made


def test_rows_are_packed_out_of_the_middle_of_their_arrays(packer: RowPacker) -> None:
    rows = batch(
        body=pa.array([b"before", b"one", b"two", b"behind"]),
        tags=pa.array([None, None, b"red", None], pa.binary()),
        queueId=pa.array([0, 1, 1, 0], pa.int64()),
        properties=pa.array([[(b"a", b"x")], None, [(b"k", b"v"), (b"n", None)], []], MAP),
    )
    assert packer.pack(rows.slice(1, 2), "ID", 0, 0) == []
    del rows
    (request,) = packer.finish()
    assert (request.rows, request.queue, request.topic_rows, packer.rows) == (2, 1, 2, 2)
    for text in (b"one", b"two", b"k\x01v\x02", b"TAGS\x01red\x02", b"UNIQ_KEY\x01ID0001\x02"):
        assert text in request.body
    assert b"before" not in request.body
    assert b"behind" not in request.body


def test_offsets_that_lead_out_of_their_data_are_refused(packer: RowPacker) -> None:
    for offsets in ([0, 5, 3], [-1, 1, 3], [0, 9, 3]):
        rows = bodies_of(offsets, b"abc")
        with pytest.raises(ValueError, match=r"[Oo]ffset"):
            packer.pack(rows, "ID", 0, 0)
    assert packer.rows == 0


def test_columns_of_other_types_are_refused(packer: RowPacker) -> None:
    with pytest.raises(ValueError, match="column queueId cannot be packed: it is Int32"):
        packer.pack(batch(body=[b"a"], queueId=pa.array([0], pa.int32())), "ID", 0, 0)
    with pytest.raises(ValueError, match="column colour cannot be packed"):
        packer.pack(batch(colour=[b"a"]), "ID", 0, 0)
    with pytest.raises(ValueError, match="is not columns"):
        packer.pack(pa.array([b"a"]), "ID", 0, 0)
    with pytest.raises(AttributeError, match="__arrow_c_array__"):
        packer.pack({"body": [b"a"]}, "ID", 0, 0)  # type: ignore[arg-type]


def test_a_row_that_cannot_go_is_named(packer: RowPacker) -> None:
    with pytest.raises(RowError) as caught:
        packer.pack(batch(body=[b"a", None]), "ID", 0, 0)
    assert caught.value.row == 1
