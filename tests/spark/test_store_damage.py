"""Damaged logs: an error with the offset, rows left out, or rows with the reason."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mqcore import Store
from mqcore.spark.options import OptionError
from mqcore.spark.store_source.reading import DamagedLogError, FileGoneError
from small_store import SEGMENT_LEN_BYTES, SMALL, filled
from spark.store_engine import plan, rows

COUNT = 2_500
DDL = "physicalOffset bigint"


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, list[int]]:
    """Returns a store of three files and the physical offsets of its messages."""
    with Store(tmp_path, config=SMALL) as opened:
        offsets = [each.physical_offset for each in filled(opened, COUNT)]
    assert offsets[-1] > 2 * SEGMENT_LEN_BYTES
    return tmp_path, offsets


def overwrite(root: Path, physical_offset: int, junk: bytes) -> None:
    base = physical_offset - physical_offset % SEGMENT_LEN_BYTES
    with (root / "commitlog" / f"{base:020}").open("r+b") as file:
        file.seek(physical_offset - base)
        file.write(junk)


# What is damaged, from the start of a record: its magic, its length, its own offset.
@pytest.mark.parametrize("damaged_at", [4, 0, 28])
@pytest.mark.parametrize("split", ["128m", "70000"])
def test_a_damaged_record_fails_is_left_out_or_becomes_a_row(
    damaged_at: int, split: str, store: tuple[Path, list[int]]
) -> None:
    root, offsets = store
    bad = offsets[COUNT // 2]
    overwrite(root, bad + damaged_at, b"\x7f\xff")
    with pytest.raises(DamagedLogError, match=f"at {bad} of the log") as caught:
        rows(root, DDL, splitBytes=split)
    assert caught.value.physical_offset == bad
    good = [offset for offset in offsets if offset != bad]
    skipped = rows(root, DDL, badRecords="skip", splitBytes=split)
    assert [row["physicalOffset"] for row in skipped] == good
    emitted = rows(root, badRecords="emit", splitBytes=split)
    assert [row["physicalOffset"] for row in emitted] == offsets
    corrupt = [row for row in emitted if row["_corrupt"] is not None]
    assert [row["physicalOffset"] for row in corrupt] == [bad]
    assert {corrupt[0]["topic"], corrupt[0]["body"], corrupt[0]["queueId"]} == {None}


def test_a_foreign_body_is_damage_where_its_crc_is_asked_for(
    store: tuple[Path, list[int]],
) -> None:
    root, offsets = store
    bad = offsets[3]
    overwrite(root, bad + 200, b"other bytes")
    assert len(rows(root, DDL)) == COUNT
    with pytest.raises(DamagedLogError, match="CRC"):
        rows(root, DDL, verify="crc")
    emitted = rows(root, badRecords="emit", verify="crc")
    assert [r["physicalOffset"] for r in emitted if r["_corrupt"]] == [bad]
    assert len(emitted) == COUNT


def test_a_hole_of_zeros_inside_the_log_is_damage_and_its_end_is_none(
    store: tuple[Path, list[int]],
) -> None:
    root, offsets = store
    overwrite(root, offsets[10], bytes(offsets[12] - offsets[10]))
    with pytest.raises(DamagedLogError, match=f"at {offsets[10]} of the log"):
        rows(root, DDL)
    emitted = rows(root, "physicalOffset bigint, _corrupt string", badRecords="emit")
    corrupt = [row for row in emitted if row["_corrupt"]]
    assert [row["physicalOffset"] for row in corrupt] == [offsets[10]]
    assert corrupt[0]["_corrupt"].startswith(f"{offsets[12] - offsets[10]} bytes: ")


def test_a_torn_record_at_the_end_of_the_log_is_no_damage(
    store: tuple[Path, list[int]],
) -> None:
    root, offsets = store
    overwrite(root, offsets[-1] + 4, b"torn")
    assert [row["physicalOffset"] for row in rows(root, DDL)] == offsets[:-1]


def test_a_file_that_is_cut_off_in_the_middle_of_the_log_is_damage(
    store: tuple[Path, list[int]],
) -> None:
    root, offsets = store
    second = root / "commitlog" / f"{SEGMENT_LEN_BYTES:020}"
    with second.open("r+b") as file:
        file.truncate(SEGMENT_LEN_BYTES // 2)
    inside = [offset for offset in offsets if SEGMENT_LEN_BYTES <= offset < 2 * SEGMENT_LEN_BYTES]
    cut = max(offset for offset in inside if offset < SEGMENT_LEN_BYTES * 3 // 2)
    with pytest.raises(DamagedLogError, match=f"at {cut} of the log"):
        rows(root, DDL)
    left = [p for p in offsets if p < cut or p >= 2 * SEGMENT_LEN_BYTES]
    assert [row["physicalOffset"] for row in rows(root, DDL, badRecords="skip")] == left


def test_a_file_asked_for_alone_ends_the_log_only_where_no_next_one_is(
    store: tuple[Path, list[int]],
) -> None:
    root, offsets = store
    first = root / "commitlog" / f"{0:020}"
    bad = max(offset for offset in offsets if offset < SEGMENT_LEN_BYTES)
    overwrite(root, bad + 4, b"torn")
    with pytest.raises(DamagedLogError, match=f"at {bad} of the log"):
        rows(first, DDL)
    with pytest.raises(DamagedLogError, match=f"at {bad} of the log"):
        rows(root / "commitlog" / "0*", DDL)
    (root / "commitlog" / f"{SEGMENT_LEN_BYTES:020}").unlink()
    found = rows(first, DDL)
    assert [row["physicalOffset"] for row in found] == [
        offset for offset in offsets if offset < bad
    ]


@pytest.mark.parametrize("fails", [True, False])
def test_a_file_that_vanished_after_planning_follows_the_rule(
    fails: bool, store: tuple[Path, list[int]]
) -> None:
    root, offsets = store
    reader, partitions, _schema, _left = plan(
        root, DDL, failOnDataLoss=fails, splitBytes=SEGMENT_LEN_BYTES
    )
    (root / "commitlog" / f"{0:020}").unlink()
    if fails:
        with pytest.raises(FileGoneError, match="retention removed it"):
            list(reader.read(partitions[0]))
        return
    found = [
        offset
        for part in partitions
        for batch in reader.read(part)
        for offset in batch.column(0).to_pylist()
    ]
    assert found == [offset for offset in offsets if offset >= SEGMENT_LEN_BYTES]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"badRecord": "skip"}, "did you mean badRecords"),
        ({"badRecords": "drop"}, "fail, skip, emit"),
        ({"view": "mesages"}, "did you mean messages"),
        ({"startTimestamp": 5, "endTimestamp": 4}, "lies behind"),
        ({"startTimestamp": "noon"}, "milliseconds"),
        ({"startPhysical": 5, "endPhysical": 4}, "lies behind"),
        ({"splitBytes": "0"}, "number of bytes"),
        ({"verify": "full", "view": "index"}, "leave the view out"),
        ({"pushdown": True, "badRecords": "emit"}, "use one of them"),
    ],
)
def test_options_that_cannot_be_are_refused_in_words(
    options: dict[str, object], why: str, tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match=why):
        plan(tmp_path, **options)  # type: ignore[arg-type]


def test_a_compressed_body_comes_inflated_and_one_that_is_none_is_damage(
    tmp_path: Path, compressed: Callable[[Store], int]
) -> None:
    with Store(tmp_path, config=SMALL) as opened:
        bad = compressed(opened)
    found = rows(tmp_path, "physicalOffset bigint, body binary", badRecords="skip")
    assert [row["body"] for row in found] == [b"again " * 100]
    # Its physical offset is read without its body.
    assert [row["physicalOffset"] for row in rows(tmp_path, DDL)][-1] == bad


@pytest.fixture
def compressed() -> Callable[[Store], int]:
    """Returns what stores a compressed body, and one that is none and whose offset it returns."""
    from mqcore.native import Compression, compress

    def store_both(opened: Store) -> int:
        sys_flag = 1 | Compression.ZSTD << 8
        opened.append("topic", compress(b"again " * 100, Compression.ZSTD), sys_flag=sys_flag)
        return opened.append("topic", b"no zstd", sys_flag=sys_flag).physical_offset

    return store_both
