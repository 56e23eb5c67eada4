"""Rows become files: by topic and day, bounded, whole or not there, always the same names."""

import zlib
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from mqcore.spark.directories import UNFINISHED, LocalDirectory, PathError, directory_of
from mqcore.spark.locations import Location
from mqcore.spark.pipelines.archive_directory import ArchiveDirectory
from mqcore.spark.pipelines.manifest import PartFile
from mqcore.spark.pipelines.part_writer import Bounds, PartWriter, by_topic_and_day, write_parts
from mqcore.spark.pipelines.spans import Span
from spark.pipelines.rows import BEGIN, batch, row

SPANS = [Span("store:a", 0, 1_000)]


def read(root: Path, part: PartFile) -> list[dict[str, Any]]:
    found = pq.ParquetFile(root / part.path).read().to_pylist()
    return [{"topic": part.topic, **one} for one in found]


def fail_after(writer: PartWriter, rows: pa.RecordBatch) -> None:
    with writer:
        writer.write(rows)
        raise ZeroDivisionError


def test_a_batch_is_split_by_topic_and_day_in_order() -> None:
    rows = [row(n, topic="ab"[n % 2], storeTimestamp=BEGIN + timedelta(hours=n)) for n in range(4)]
    found = list(by_topic_and_day(batch(rows)))
    assert [(topic, day, part["physicalOffset"].to_pylist()) for topic, day, part in found] == [
        ("a", 20_779, [0]),
        ("a", 20_780, [600]),
        ("b", 20_780, [300, 900]),
    ]
    assert all("topic" not in part.schema.names for _, _, part in found)


def test_a_batch_of_one_topic_and_day_is_not_copied() -> None:
    made = batch(row(n) for n in range(3))
    ((_, _, rest),) = by_topic_and_day(made)
    assert rest["body"].buffers()[2].address == made["body"].buffers()[2].address


def test_no_rows_give_no_files(tmp_path: Path) -> None:
    assert write_parts(LocalDirectory(str(tmp_path)), SPANS, [batch([])]) == []
    assert list(tmp_path.rglob("*.parquet")) == []


def test_every_row_comes_back_as_it_was(tmp_path: Path) -> None:
    rows = [row(n, topic=f"topic {n % 3}") for n in range(100)]
    batches = [batch(rows[at : at + 7]) for at in range(0, 100, 7)]
    parts = write_parts(LocalDirectory(str(tmp_path)), SPANS, batches)
    assert [part.topic for part in parts] == ["topic 0", "topic 1", "topic 2"]
    found = [one for part in parts for one in read(tmp_path, part)]
    assert sorted(found, key=lambda one: str(one["msgId"])) == rows
    for part in parts:
        content = (tmp_path / part.path).read_bytes()
        assert (part.size_bytes, part.crc32) == (len(content), zlib.crc32(content))
        assert part.rows == len(read(tmp_path, part))
        assert part.body_bytes == sum(len(bytes(one["body"])) for one in read(tmp_path, part))
    assert (parts[0].first_store_ms, parts[0].last_store_ms) == (
        int(BEGIN.timestamp() * 1_000) + 7,
        int(BEGIN.timestamp() * 1_000) + 99_007,
    )


def test_the_same_rows_give_the_same_files(tmp_path: Path) -> None:
    batches = [batch(row(n) for n in range(50))]
    first = write_parts(LocalDirectory(str(tmp_path / "1")), SPANS, batches)
    assert write_parts(LocalDirectory(str(tmp_path / "2")), SPANS, batches) == first
    # Once more over what is there, as a task that is tried again.
    assert write_parts(LocalDirectory(str(tmp_path / "1")), SPANS, batches) == first
    assert len(list((tmp_path / "1").rglob("*.parquet"))) == len(first)


def test_a_task_that_fails_leaves_no_file(tmp_path: Path) -> None:
    bounds = Bounds(group_bytes=1)
    with pytest.raises(ZeroDivisionError):
        fail_after(
            PartWriter(LocalDirectory(str(tmp_path)), SPANS, bounds),
            batch([row(1), row(2, topic="other")]),
        )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_memory_is_bounded(tmp_path: Path) -> None:
    one = batch(row(n) for n in range(10))
    bounds = Bounds(group_bytes=one.nbytes * 100, held_bytes=one.nbytes * 3)
    with PartWriter(LocalDirectory(str(tmp_path)), SPANS, bounds) as writer:
        for _ in range(20):
            writer.write(one)
            assert writer._held_bytes <= bounds.held_bytes
        (part,) = writer.close()
    assert part.rows == 200
    assert pq.ParquetFile(tmp_path / part.path).num_row_groups > 1


def test_open_files_are_bounded_and_no_row_is_lost(tmp_path: Path) -> None:
    rows = [row(n, topic=f"t{n % 5}") for n in range(40)]
    bounds = Bounds(open_files=2)
    parts = write_parts(
        LocalDirectory(str(tmp_path)), SPANS, [batch([one]) for one in rows], bounds
    )
    assert sum(part.rows for part in parts) == 40
    assert len({part.path for part in parts}) == len(parts) == 40
    found = [one for part in parts for one in read(tmp_path, part)]
    assert sorted(found, key=lambda one: str(one["msgId"])) == rows


def test_what_broken_tasks_left_is_cleared(tmp_path: Path) -> None:
    directory = LocalDirectory(str(tmp_path))
    (tmp_path / UNFINISHED).mkdir(parents=True)
    (tmp_path / UNFINISHED / "left").write_bytes(b"x")
    assert directory.clear() == 1
    assert directory.clear() == 0


@pytest.mark.parametrize("kind", ["memory", "pyarrow", "object store"])
def test_another_file_system_does_the_same(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"memory:/{tmp_path}/r" if kind != "pyarrow" else f"s3://{tmp_path}/r"
    if kind == "pyarrow":
        # As where the package of a scheme is not installed and PyArrow knows the scheme.
        not_installed = Mock(side_effect=ImportError("install something"))
        monkeypatch.setattr("fsspec.core.url_to_fs", not_installed)
        found = Mock(from_uri=lambda _url: (fs.LocalFileSystem(), str(tmp_path / "r")))
        monkeypatch.setattr(fs, "FileSystem", found)
    elif kind == "object store":
        monkeypatch.setattr("mqcore.spark.directories._OBJECT_STORES", {"memory"})
    remote = directory_of(Location.of(url))
    batches = [batch(row(n) for n in range(50))]
    parts = write_parts(remote, SPANS, batches)
    assert parts == write_parts(LocalDirectory(str(tmp_path / "l")), SPANS, batches)
    for part in parts:
        content = remote.read(remote.below(part.path))
        assert content == (tmp_path / "l" / part.path).read_bytes()
    one = remote.below("x", "1")
    assert remote.create(one, b"a")
    assert not remote.create(one, b"b")
    assert [file.name for file in remote.files(remote.below("x"))] == ["1"]
    assert (remote.read(one), remote.files(remote.below("none"))) == (b"a", [])
    with pytest.raises(ZeroDivisionError):
        fail_after(PartWriter(remote, SPANS, Bounds(group_bytes=1)), batch([row(1, topic="other")]))
    days = [
        remote.below("topic=other", day) for day in remote.directories(remote.below("topic=other"))
    ]
    folders = [remote.below("topic=other"), *days]
    assert [file for folder in folders for file in remote.files(folder)] == []
    assert remote.clear() == 0


def test_a_file_system_that_nobody_knows_is_named() -> None:
    with pytest.raises(PathError, match="nowhere://x cannot be opened"):
        ArchiveDirectory("nowhere://x").manifest()


def test_archives_are_where_they_were_asked_for_in_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ArchiveDirectory("a").files == LocalDirectory(str(tmp_path / "a"))
    assert ArchiveDirectory(f"file://{tmp_path}").files == LocalDirectory(str(tmp_path))
    assert ArchiveDirectory(tmp_path).uri == f"file://{tmp_path}"
