"""Records out of the body of an answer: what lies in a log, side by side, without the log."""

from pathlib import Path

import pytest

from mqcore import Store
from mqcore.errors import NoRecordError
from mqcore.native import decode_records
from small_store import SMALL, body_of, filled


def test_records_side_by_side_are_messages(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        filled(store, 5)
        found = store.get("topic", 0, 1).messages
        data = b"".join(message.record for message in found)
    batch = decode_records(data)
    assert [message.body for message in batch] == [body_of(number) for number in range(1, 5)]
    assert list(batch.queue_offsets) == [1, 2, 3, 4]
    assert batch[0].keys == "k-1"
    assert len(decode_records(b"")) == 0


@pytest.mark.parametrize("cut", [1, 4, 100, 1_100])
def test_half_a_record_is_an_error_that_says_where(tmp_path: Path, cut: int) -> None:
    with Store(tmp_path, config=SMALL) as store:
        filled(store, 2)
        first, second = (message.record for message in store.get("topic", 0, 0).messages)
    with pytest.raises(NoRecordError, match=f"byte {len(first)} "):
        decode_records(first + second[:cut])


def test_a_body_that_changed_on_the_way_is_no_record(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        filled(store, 1)
        record = bytearray(store.get("topic", 0, 0).messages[0].record)
    record[200] ^= 1
    with pytest.raises(NoRecordError, match="byte 0 "):
        decode_records(bytes(record))
