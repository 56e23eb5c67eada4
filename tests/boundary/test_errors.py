"""Every error of the engine has its class, and the class carries the facts."""

import errno
import pickle
import re
from pathlib import Path

import pytest

import mqcore.errors
import mqcore.native.errors
import mqcore.native.refused
import mqcore.native.wire_errors
from mqcore import MQError, RecordError, Store, StoreError
from mqcore.errors import StoreReason
from mqcore.native import OffsetRange
from small_store import SMALL, filled

ROOT = Path(__file__).resolve().parents[2]
# Roots of families: nothing raises them as such.
ROOTS = {"MQError", "StoreError", "RecordError", "FrameError"}
FAMILIES = (
    StoreError,
    mqcore.native.refused.RefusedError,
    mqcore.errors.FrameError,
    mqcore.native.wire_errors.JsonTextError,
    mqcore.native.wire_errors.RowError,
)


def raised_by_the_extension() -> set[str]:
    text = (ROOT / "rust/bindings/src/errors.rs").read_text(encoding="utf-8")
    return set(re.findall(r'"(\w+Error)"', text))


def test_every_class_the_extension_raises_is_in_the_tree_and_the_other_way_round() -> None:
    names = raised_by_the_extension()
    assert len(names) > 30
    of_extension = {
        name: found
        for module in (mqcore.native.errors, mqcore.native.refused, mqcore.native.wire_errors)
        for name, found in vars(module).items()
        if isinstance(found, type) and issubclass(found, MQError)
    }
    assert names | ROOTS == set(of_extension)
    for name in names:
        assert issubclass(of_extension[name], FAMILIES)


def test_every_engine_error_is_mapped_without_a_wildcard() -> None:
    text = (ROOT / "rust/bindings/src/errors.rs").read_text(encoding="utf-8")
    assert not re.search(r"^\s*_ =>", text, re.MULTILINE)


def test_every_class_of_the_store_has_a_reason_of_its_own() -> None:
    for name in sorted(raised_by_the_extension()):
        kind = getattr(mqcore.native.errors, name, None)
        if kind is None or not issubclass(kind, StoreError):
            continue
        own = [each for each in kind.__mro__ if "reason" in vars(each)]
        assert isinstance(kind.reason, StoreReason), name
        # The root's is that of system calls.
        assert (own[0] is StoreError) == (name == "StoreIOError"), name


def test_a_full_disk_has_another_reason_than_other_failures_of_the_system() -> None:
    of = mqcore.native.errors.StoreIOError
    facts = {"action": "write", "path": "/s", "errno": errno.ENOSPC}
    full = of("no space", **facts, is_no_space=True)
    assert full.reason is pickle.loads(pickle.dumps(full)).reason is StoreReason.DISK_FULL
    assert of("broken", **facts, is_no_space=False).reason is StoreReason.IO


def test_a_failure_that_lasts_has_its_cause_beside_the_reason() -> None:
    for name in ("PoisonedError", "NotWritableError", "NoSegmentError"):
        assert "why" in getattr(mqcore.native.errors, name).__annotations__


def test_errors_cross_processes() -> None:
    error = mqcore.native.errors.LimitError("too many", what="queues", limit=5)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.message, again.what, again.limit) == (
        mqcore.native.errors.LimitError,
        "too many",
        "queues",
        5,
    )


def test_a_store_is_open_once(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL):
        with pytest.raises(mqcore.native.errors.StoreLockedError) as caught:
            Store(tmp_path, config=SMALL)
        assert caught.value.path == str(tmp_path / "lock")
        assert caught.value.reason is StoreReason.LOCKED
    Store(tmp_path, config=SMALL).close()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mappedFileSizeCommitLog", "2147483648"),
        ("mappedFileSizeCommitLog", "1048577"),
        ("mappedFileSizeCommitLog", "4096"),
        ("flushDiskType", "SOMETIMES"),
        ("messageIndexEnable", "yes"),
        ("messageDelayLevel", "1s 5x"),
    ],
)
def test_a_bad_setting_is_named_and_nothing_is_made(tmp_path: Path, key: str, value: str) -> None:
    root = tmp_path / "new"
    with pytest.raises(mqcore.native.errors.SettingError) as caught:
        Store(root, config={**SMALL, key: value})
    assert (caught.value.key, caught.value.value) == (key, value)
    assert caught.value.why
    assert not root.exists()


def test_a_file_of_another_size_is_named(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        filled(store, 10)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(mqcore.native.errors.FileSizeError) as caught:
        Store(tmp_path, config={**SMALL, "mappedFileSizeCommitLog": 2 << 20})
    assert caught.value.path.endswith("commitlog/" + "0" * 20)
    assert (caught.value.len_bytes, caught.value.expected_bytes) == (1 << 20, 2 << 20)
    assert caught.value.key == "mappedFileSizeCommitLog"
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before


def test_a_foreign_file_in_the_log_is_named(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / "notes.txt").write_text("mine")
    with pytest.raises(mqcore.native.errors.ForeignFileError) as caught:
        Store(tmp_path, config=SMALL)
    assert caught.value.path.endswith("notes.txt")


def test_a_directory_that_cannot_be_made_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError) as caught:
        Store(tmp_path / "file" / "store", config=SMALL)
    assert isinstance(caught.value, mqcore.native.errors.StoreIOError)
    assert caught.value.errno == errno.ENOTDIR
    assert not caught.value.is_no_space
    assert caught.value.reason is StoreReason.IO


def test_messages_that_cannot_be_stored_are_refused_with_the_reason(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        refusals: list[tuple[type[RecordError], str, bytes, dict[str, str], str]] = [
            (mqcore.native.errors.TopicEmptyError, "", b"", {}, "MESSAGE_ILLEGAL"),
            (mqcore.native.errors.TopicIllegalError, "../x", b"", {}, "MESSAGE_ILLEGAL"),
            (mqcore.native.errors.BodyTooLargeError, "t", bytes(65_537), {}, "MESSAGE_ILLEGAL"),
            (
                mqcore.native.errors.IllegalPropertyError,
                "t",
                b"",
                {"a\x01": "b"},
                "MESSAGE_ILLEGAL",
            ),
            (
                mqcore.native.errors.PropertiesTooLongError,
                "t",
                b"",
                {"a": "b" * 32_768},
                "PROPERTIES_SIZE_EXCEEDED",
            ),
        ]
        for kind, topic, body, properties, status in refusals:
            with pytest.raises(kind) as caught:
                store.append(topic, body, properties=properties)
            assert type(caught.value) is kind
            assert caught.value.status == status
        with pytest.raises(mqcore.native.errors.BodyTooLargeError) as too_large:
            store.append("t", bytes(65_537))
        assert (too_large.value.len_bytes, too_large.value.max_bytes) == (65_537, 65_536)
        assert too_large.value.reason is StoreReason.TOO_LARGE
        assert store.stats().appended == 0


def test_a_physical_offset_without_a_record_is_named(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        appended = store.append("topic", b"body")
        for offset in (appended.physical_offset + 1, appended.end, 1 << 40):
            with pytest.raises(mqcore.native.errors.NoRecordError) as caught:
                store.message_at(offset)
            assert caught.value.physical_offset == offset


def test_a_closed_store_refuses_every_call(tmp_path: Path) -> None:
    store = Store(tmp_path, config=SMALL)
    store.append("topic", b"body")
    scan = store.scan()
    assert store.close()
    assert not store.close()
    assert store.is_closed
    for call in (
        lambda: store.append("topic", b"body"),
        lambda: store.get("topic", 0, 0),
        store.flush,
        store.stats,
        lambda: next(scan),
    ):
        with pytest.raises(mqcore.native.errors.StoreClosedError):
            call()


def test_a_wait_that_ends_early_is_an_error(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        with pytest.raises(mqcore.native.errors.StoreTimeoutError) as caught:
            store.wait_dispatched(1 << 40, timeout_ms=5)
        assert (caught.value.what, caught.value.waited_ms) == ("dispatch", 5)


def test_damage_is_reported_and_cut_on_request(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        appended = filled(store, 2_000)
    # Killed, by its looks; the body of a record long before the end is not what it was.
    (tmp_path / "abort").touch()
    bad = appended[300]
    log = tmp_path / "commitlog" / ("0" * 20)
    with log.open("r+b") as file:
        file.seek(bad.physical_offset + 200)
        file.write(b"\xff" * 16)
    (tmp_path / "checkpoint").write_bytes(b"\x7f" + bytes(4_095))
    with pytest.raises(mqcore.errors.DamagedError) as caught:
        Store(tmp_path, config=SMALL)
    assert (caught.value.path, caught.value.position) == (str(log), bad.physical_offset)
    assert caught.value.physical_offset == bad.physical_offset
    with Store(tmp_path, config=SMALL, on_damage="cut") as store:
        report = store.open_report()
        assert report.end == bad.physical_offset
        assert report.kept_aside_bytes > 0
        assert all(Path(path).is_file() for path in report.kept_in)
        assert store.bounds("topic", 0) == OffsetRange(0, 300)


def test_everything_descends_from_one_root() -> None:
    assert issubclass(StoreError, MQError)
    assert issubclass(RecordError, StoreError)
