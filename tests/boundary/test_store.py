"""The store through its door: what goes in comes out, by every way there is to read it."""

import logging
from array import array
from pathlib import Path
from typing import Any

import pytest

import mqcore
from mqcore import Inspection, Store
from mqcore.native import BatchMessage, OffsetRange
from mqcore.native.errors import BodyTooLargeError
from small_store import SMALL, body_of, filled


def test_a_message_comes_back_with_everything_it_had(tmp_path: Path) -> None:
    with Store(tmp_path / "s", config=SMALL, store_host="10.0.0.1:10911") as store:
        appended = store.append(
            "topic",
            b"body",
            queue_id=3,
            tags="a",
            keys=["k1", "k2"],
            properties={"city": "上海"},
            flag=-7,
            born_timestamp_ms=1_234,
            born_host="[::1]:99",
        )
        store.wait_dispatched(appended.end)
        message = store.get("topic", 3, 0).messages[0]
        assert (message.topic, message.queue_id, message.queue_offset) == ("topic", 3, 0)
        assert (message.physical_offset, message.store_size_bytes) == (0, appended.len_bytes)
        assert (message.flag, message.born_timestamp_ms) == (-7, 1_234)
        assert (message.born_host, message.store_host) == ("[::1]:99", "10.0.0.1:10911")
        assert (message.tags, message.keys, message.uniq_key) == ("a", "k1 k2", None)
        assert message.properties == {"KEYS": "k1 k2", "TAGS": "a", "city": "上海"}
        assert message.body == message.stored_body == b"body"
        assert message.message_id == appended.message_id == "0A00000100002A9F0000000000000000"
        assert message.store_timestamp_ms == appended.store_timestamp_ms
        assert appended.status == "PUT_OK"


@pytest.mark.parametrize(
    "body", [b"abc", bytearray(b"abc"), memoryview(b"abc"), array("B", b"abc")]
)
def test_a_body_is_any_buffer(tmp_path: Path, body: bytes) -> None:
    with Store(tmp_path, config=SMALL) as store:
        appended = store.append("topic", body)
        assert store.message_at(appended.physical_offset).body == b"abc"


def test_reads_by_queue_return_where_they_ended(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        assert store.get("topic", 0, 0).status == "NO_MATCHED_LOGIC_QUEUE"
        filled(store, 50)
        found = store.get("topic", 0, 10, 5)
        assert found.status == "FOUND"
        assert [message.queue_offset for message in found.messages] == [10, 11, 12, 13, 14]
        assert (found.next_offset, found.min_offset, found.max_offset) == (15, 0, 50)
        assert store.get("topic", 0, 50).status == "OFFSET_OVERFLOW_ONE"
        assert store.get("topic", 0, 51).status == "OFFSET_OVERFLOW_BADLY"
        assert store.get("topic", 0, 0, tags="b||c").status == "NO_MATCHED_MESSAGE"
        assert len(store.get("topic", 0, 0, tags="b || a").messages) == 32
        assert store.bounds("topic", 0) == OffsetRange(0, 50)
        assert store.bounds("topic", 1) is None


def test_messages_are_found_by_key_and_by_time(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        appended = filled(store, 20)
        found = store.query("topic", "k-7")
        assert [message.queue_offset for message in found] == [7]
        assert store.query("topic", "k-77") == []
        assert store.offset_by_time("topic", 0, appended[0].store_timestamp_ms) == 0
        assert store.offset_by_time("topic", 9, 0) is None


def test_many_messages_from_one_buffer(tmp_path: Path) -> None:
    bodies = [body_of(number, 8 * (number + 1)) for number in range(100)]
    texts = [mqcore.encode_properties(tags=f"t{number}") for number in range(100)]
    with Store(tmp_path, config=SMALL) as store:
        many = store.append_many(
            "topic",
            b"".join(bodies),
            array("I", [len(body) for body in bodies]),
            queue_ids=array("i", [number % 4 for number in range(100)]),
            properties=b"".join(texts),
            properties_lens=array("I", [len(text) for text in texts]),
        )
        assert (many.count, len(many), many.status) == (100, 100, "PUT_OK")
        assert list(many.queue_offsets[:9]) == [0, 0, 0, 0, 1, 1, 1, 1, 2]
        store.wait_dispatched(many.end)
        for number, physical_offset in enumerate(many.physical_offsets):
            message = store.message_at(physical_offset)
            assert (message.body, message.tags) == (bodies[number], f"t{number}")
            assert message.queue_id == number % 4


def test_columns_that_do_not_fit_store_nothing(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        with pytest.raises(ValueError, match="add up to 6"):
            store.append_many("topic", b"body", array("I", [3, 3]))
        with pytest.raises(ValueError, match="2 queue ids for 1 bodies"):
            store.append_many("topic", b"body", array("I", [4]), queue_ids=array("i", [1, 2]))
        lens = array("I", [0, 0])
        with pytest.raises(ValueError, match="2 lengths of properties for 1 bodies"):
            store.append_many("topic", b"body", array("I", [4]), properties_lens=lens)
        assert store.stats().appended == 0


def test_the_error_of_many_has_how_many_are_stored(tmp_path: Path) -> None:
    lens = array("I", [10, 10, 70_000, 10])
    with Store(tmp_path, config=SMALL) as store:
        with pytest.raises(BodyTooLargeError) as caught:
            store.append_many("topic", bytes(sum(lens)), lens)
        assert caught.value.stored == 2
        assert caught.value.status == "MESSAGE_ILLEGAL"
        assert store.bounds("topic", 0) in (None, OffsetRange(0, 1), OffsetRange(0, 2))


def test_a_batch_is_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        appended = store.append_batch(
            "topic", [BatchMessage(b"a"), BatchMessage(b"b", {"x": "y"})], queue_id=2
        )
        assert [each.queue_offset for each in appended] == [0, 1]
        parts = [BatchMessage(b"a"), BatchMessage(bytes(70_000))]
        with pytest.raises(BodyTooLargeError):
            store.append_batch("topic", parts, queue_id=2)
        assert store.stats().appended == appended[-1].end


def test_a_scan_gives_all_in_log_order_as_columns_and_one_by_one(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        # More than two files, so that the scan meets their ends.
        appended = filled(store, 2_500, queues=3)
        rows: list[tuple[str, int, int, int, int, bytes]] = []
        blanks = 0
        for batch in store.scan(batch_bytes=100_000):
            columns = zip(
                batch.topics,
                batch.queue_ids,
                batch.queue_offsets,
                batch.physical_offsets,
                batch.store_timestamps_ms,
                batch.stored_bodies,
                strict=True,
            )
            one_by_one = [
                (
                    m.topic,
                    m.queue_id,
                    m.queue_offset,
                    m.physical_offset,
                    m.store_timestamp_ms,
                    m.body,
                )
                for m in batch
            ]
            assert list(columns) == one_by_one
            assert list(batch.stored_body_lens_bytes) == [len(row[5]) for row in one_by_one]
            rows.extend(one_by_one)
            blanks += len(batch.blanks)
        assert [row[3] for row in rows] == [each.physical_offset for each in appended]
        assert [row[5] for row in rows] == [body_of(number) for number in range(2_500)]
        assert blanks == 2


def test_a_scan_can_begin_and_end_anywhere_and_pick_topics(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        first = filled(store, 10)
        filled(store, 5, topic="other")
        third = first[3].physical_offset
        scan = store.scan(third, first[6].end)
        assert [message.queue_offset for batch in scan for message in batch] == [3, 4, 5, 6]
        assert scan.position == first[6].end
        picked = store.scan(topics=["other"])
        assert [message.topic for batch in picked for message in batch] == ["other"] * 5


@pytest.mark.parametrize("batch_bytes", [1, 700, 1_337, 1 << 22])
def test_a_scan_gives_the_same_in_batches_of_any_size(tmp_path: Path, batch_bytes: int) -> None:
    with Store(tmp_path, config=SMALL) as store:
        appended = [store.append("topic", bytes(number * 97)) for number in range(600)]
        offsets = [
            physical_offset
            for batch in store.scan(batch_bytes=batch_bytes)
            for physical_offset in batch.physical_offsets
        ]
        assert offsets == [each.physical_offset for each in appended]
    inspection = Inspection(tmp_path)
    assert [message.physical_offset for message in inspection.messages()] == offsets
    for each in appended[::50]:
        message = inspection.message_at(each.physical_offset)
        assert message is not None
        assert message.queue_offset == each.queue_offset
    assert inspection.message_at(appended[-1].physical_offset + 1) is None
    assert inspection.last_message()[1] == appended[-1].end


def test_what_was_stored_is_there_after_a_clean_stop(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        filled(store, 2_000, queues=4)
    with Store(tmp_path, config=SMALL) as store:
        report = store.open_report()
        assert report.was_clean
        assert report.kept_aside_bytes == 0
        assert [bounds.max_offset for bounds in store.queues()] == [500] * 4
        assert store.append("topic", b"next", queue_id=1).queue_offset == 500


def test_the_numbers_add_up(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        filled(store, 100)
        assert store.flush() == store.stats().appended
        stats = store.stats()
        assert stats.flush_lag_bytes == stats.dispatch_lag_bytes == stats.commit_lag_bytes == 0
        assert stats.follower_lag_bytes["queues"] == 0
        assert (stats.queues, stats.records_dispatched, stats.syncs >= 1) == (1, 100, True)
        assert stats.mapped_bytes >= stats.resident_bytes > 0
        assert stats.minor_faults > 0
        assert stats.segments[0].len_bytes == SMALL["mappedFileSizeCommitLog"]
        assert (stats.refused, stats.poisoned) == ([], None)


def test_settings_of_others_are_ignored_with_a_note(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="mqcore.store")
    with Store(tmp_path, config={**SMALL, "brokerName": "a"}) as store:
        assert store.unknown_settings == ["brokerName"]
    assert any("brokerName" in record.getMessage() for record in caplog.records)


def test_sizes_that_are_not_given_are_those_of_the_files(tmp_path: Path) -> None:
    log_file = {"mappedFileSizeCommitLog": 8 << 20, "maxMessageSize": 4 << 20}
    with Store(tmp_path, config={**SMALL, **log_file}) as store:
        filled(store, 3)
    with Store(tmp_path) as store:
        assert len(store.get("topic", 0, 0).messages) == 3
    with pytest.raises(mqcore.StoreError, match="set mappedFileSizeCommitLog to the size"):
        Store(tmp_path, config={"mappedFileSizeCommitLog": 1 << 30})


@pytest.mark.parametrize("path", [5, None])
def test_what_is_no_directory_makes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match=r"not (int|NoneType)"):
        Store(path)
    assert list(tmp_path.iterdir()) == []
