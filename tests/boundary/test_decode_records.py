"""Records out of the body of an answer: records that follow one another, without the log."""

import json
import zlib
from pathlib import Path

import pytest

from golden_stores import GOLDEN_CONFIG, V53_CLEAN, Record, golden_file
from mqcore import Inspection, Store
from mqcore.native import decode_records
from mqcore.native.errors import NoRecordError
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
def test_half_a_record_is_an_error_with_its_position(tmp_path: Path, cut: int) -> None:
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


def inner_batch() -> tuple[bytes, Record]:
    """Returns a batch of two messages as a broker of 5.3.3 keeps it, and what is known of it."""
    lines = golden_file("vectors/v53.manifest.jsonl").read_text(encoding="utf-8").splitlines()
    known = [json.loads(line) for line in lines]
    start = sum(each["store_size"] for each in known[:4])
    data = golden_file("vectors/v53.commitlog").read_bytes()
    return data[start : start + known[4]["store_size"]], known[4]


def test_a_batch_that_is_one_record_comes_as_messages_to_who_asks() -> None:
    record, known = inner_batch()
    (whole,) = decode_records(record)
    assert whole.properties["INNER_NUM"] == "2"
    batch = decode_records(record, unwraps=True)
    assert batch.wrapped == 0
    assert list(batch.queue_offsets) == [known["queue_offset"], known["queue_offset"] + 1]
    for index, message in enumerate(batch):
        assert (message.keys, message.properties["pos"]) == (f"batch-1000-{index}", str(index))
        assert (message.flag, len(message.body)) == (index, 1 + 53 * index)
        assert (message.topic, message.queue_id) == (known["topic"], known["queue_id"])
        assert message.physical_offset == known["physical_offset"]
        assert message.store_timestamp_ms == known["store_timestamp"]
        assert (message.born_host, message.store_host) == (known["born_host"], known["store_host"])
        assert message.sys_flag == 0
        assert message.message_id == known["msg_id"]
    assert batch[0].uniq_key != batch[1].uniq_key
    assert all(message.body in whole.body for message in batch)


def test_batches_of_the_official_broker_fill_their_queues(tmp_path: Path) -> None:
    topic = "GoldenBcq"
    walked = Inspection(V53_CLEAN.unpack(tmp_path), config=GOLDEN_CONFIG).scan(topics=[topic])
    records = [message for batch in walked for message in batch]
    batch = decode_records(b"".join(message.record for message in records), unwraps=True)
    assert sum("INNER_NUM" in message.properties for message in records) == 12
    offsets: dict[int, list[int]] = {}
    for message in batch:
        offsets.setdefault(message.queue_id, []).append(message.queue_offset)
    queues = V53_CLEAN.answers("official")["queues"]
    assert {number: list(range(len(found))) for number, found in offsets.items()} == offsets
    assert {number: len(found) for number, found in offsets.items()} == {
        queue["queue_id"]: queue["max_offset"] for queue in queues if queue["topic"] == topic
    }


def test_a_batch_that_is_cut_short_stays_one_record() -> None:
    record, _ = inner_batch()
    (whole,) = decode_records(record)
    # The first message's body claims more than there is; the record's CRC is made to fit.
    body = bytearray(whole.body)
    body[16:20] = (1 << 20).to_bytes(4)
    broken = bytearray(record)
    broken[88 : 88 + len(body)] = body
    broken[8:12] = (zlib.crc32(body) & 0x7FFFFFFF).to_bytes(4)
    batch = decode_records(bytes(broken), unwraps=True)
    assert batch.wrapped == 1
    assert [message.body for message in batch] == [bytes(body)]
