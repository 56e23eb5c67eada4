"""What else a store holds, as tables: the content of the manifest and the files."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from golden_stores import TINY, V49_CLEAN, V53_CLEAN, GoldenStore
from mqcore import Store
from mqcore.spark.directories import PathError, RemoteDirectory
from mqcore.spark.schema import SchemaError
from small_store import SMALL, filled
from spark.store_engine import rows

Unpacked = Callable[[GoldenStore], Path]


def test_the_files_of_a_log_with_their_times(unpacked: Unpacked) -> None:
    root = unpacked(V49_CLEAN)
    lines = V49_CLEAN.messages()
    found = rows(root, view="segments")
    assert [row["startPhysical"] for row in found] == [0, 1 << 20, 2 << 20]
    for row in found:
        inside = [x for x in lines if x["physical_offset"] >> 20 == row["startPhysical"] >> 20]
        first, last = row["firstStoreTimestamp"], row["lastStoreTimestamp"]
        assert round(first.timestamp() * 1000) == inside[0]["store_timestamp"]
        assert round(last.timestamp() * 1000) == inside[-1]["store_timestamp"]


def test_the_units_of_the_queues_point_at_their_records(unpacked: Unpacked) -> None:
    lines = {line["physical_offset"]: line for line in V49_CLEAN.messages()}
    found = rows(unpacked(V49_CLEAN), view="consumequeue")
    assert len(found) == 3_682
    for row in found:
        line = lines[row["physicalOffset"]]
        assert (row["topic"], row["queueId"]) == (line["topic"], line["queue_id"])
        assert (row["queueOffset"], row["sizeBytes"]) == (line["queue_offset"], line["store_size"])


def test_tags_codes_that_are_beside_a_queue_are_those_in_it(tmp_path: Path) -> None:
    found = []
    for extended in (False, True):
        root = tmp_path / str(extended)
        sizes = {"mappedFileSizeConsumeQueueExt": 4_096}
        with Store(root, config={**SMALL, **sizes, "enableConsumeQueueExt": extended}) as store:
            filled(store, 1_000, queues=2)
        found.append(
            rows(root, "queueId int, queueOffset bigint, tagsCode bigint", view="consumequeue")
        )
        assert (root / "consumequeue_ext" / "topic" / "1" / f"{8_192:020}").exists() is extended
    assert found[0] == found[1]
    assert {row["tagsCode"] for row in found[1]} == {ord("a")}
    (root / "consumequeue_ext" / "topic" / "0" / f"{4_096:020}").unlink()
    lost = rows(root, "queueId int, queueOffset bigint, tagsCode bigint", view="consumequeue")
    # Units of 20 bytes; four bytes stay free at the end of a file.
    unknown = [row["queueOffset"] for row in lost if row["tagsCode"] is None]
    assert unknown == list(range(204, 408))


def test_small_state_and_index(unpacked: Unpacked) -> None:
    root = unpacked(V49_CLEAN)
    queues = Counter(row["topic"] for row in rows(root, view="topics"))
    assert queues["GoldenKeys"] == 1
    groups = {row["group"]: row for row in rows(root, view="groups")}
    assert groups["CG_created"]["retryMaxTimes"] == 5
    offsets = {(r["topic"], r["group"], r["queueId"]): r for r in rows(root, view="offsets")}
    assert offsets["GoldenKeys", "CG_partial", 0]["queueOffset"] == 20
    index = rows(root, view="index")
    assert [row["entries"] for row in index] == [3_999, 1_375]
    checkpoint = rows(root, view="checkpoint")
    last = V49_CLEAN.messages()[-1]["store_timestamp"]
    assert [round(r["physicTimestamp"].timestamp() * 1000) for r in checkpoint] == [last]


def test_the_generation_before_replaces_a_broken_state_file(unpacked: Unpacked) -> None:
    config = unpacked(V49_CLEAN) / "config"
    before = rows(config.parent, view="topics")
    config.joinpath("topics.json.bak").write_bytes(config.joinpath("topics.json").read_bytes())
    config.joinpath("topics.json").write_text("{broken", encoding="utf-8")
    assert rows(config.parent, view="topics") == before
    config.joinpath("topics.json.bak").write_text("{broken", encoding="utf-8")
    with pytest.raises(PathError, match=r"its \.bak cannot be read"):
        rows(config.parent, view="topics")


def test_findings_name_what_does_not_fit(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        filled(store, 50)
    assert [row for row in rows(tmp_path, verify="full") if row["severity"] == "problem"] == []
    unit = tmp_path / "consumequeue" / "topic" / "0" / f"{0:020}"
    with unit.open("r+b") as file:
        file.seek(7)
        file.write(b"\x09")
    found = rows(tmp_path, "part string, severity string, reason string", verify="full")
    problems = [row for row in found if row["severity"] == "problem"]
    assert problems
    assert {tuple(row) for row in problems} == {("part", "severity", "reason")}


def test_columns_of_a_view_are_chosen_as_those_of_messages(unpacked: Unpacked) -> None:
    root = unpacked(TINY)
    found = rows(root, "queueOffset bigint, TOPIC string", view="consumequeue")
    assert {tuple(row) for row in found} == {("queueOffset", "TOPIC")}
    with pytest.raises(SchemaError, match="did you mean topic"):
        rows(root, "topik string", view="topics")


@pytest.fixture
def remote() -> Iterator[Callable[[Path], str]]:
    """Returns what copies a directory into a file system that is not this machine's."""
    system: Any = fsspec.filesystem("memory")

    def copy(root: Path) -> str:
        system.put(str(root), f"/{root.name}", recursive=True)
        return f"memory://{root.name}"

    yield copy
    system.store.clear()
    system.pseudo_dirs.clear()


def test_a_store_somewhere_else_has_the_same_rows(
    remote: Callable[[Path], str], unpacked: Unpacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small pieces, so that records lie across them.
    monkeypatch.setattr("mqcore.spark.directories.REMOTE_PIECE_BYTES", 10_007)
    monkeypatch.setattr("mqcore.spark.directories.REMOTE_OVERRUN_BYTES", 101)
    for store in (V49_CLEAN, V53_CLEAN):
        root = unpacked(store)
        url = remote(root)
        assert rows(url, splitBytes="99k") == rows(root)
        for view in ("consumequeue", "topics", "groups", "offsets", "checkpoint"):
            assert rows(url, view=view) == rows(root, view=view)
    pattern = rows(f"{remote(root)}/commitlog/0*", "physicalOffset bigint")
    assert pattern == rows(root, "physicalOffset bigint")


def test_a_reading_behind_its_range_asks_for_little(
    remote: Callable[[Path], str], unpacked: Unpacked
) -> None:
    url = remote(unpacked(V49_CLEAN))
    directory = RemoteDirectory(url)
    path = directory.below("commitlog", f"{0:020}")
    sizes = [len(piece) for piece in directory.pieces(path, 0, 1 << 20, 1_000)]
    assert sizes[:3] == [1_000, 65_536, 131_072]
    assert sum(sizes) == 1 << 20


def test_a_url_that_cannot_be_opened_is_named() -> None:
    with pytest.raises(PathError, match="nowhere://"):
        rows("nowhere://store")
    with pytest.raises(PathError, match="is not there"):
        rows("memory://absent")
