"""Commits as files, and an archive as the sum of them."""

import json
from pathlib import Path

import pytest

from mqcore.spark.directories import LocalDirectory
from mqcore.spark.pipelines.archive_directory import ArchiveDirectory
from mqcore.spark.pipelines.errors import ArchiveError, ManifestConflictError
from mqcore.spark.pipelines.layout import COMMITS
from mqcore.spark.pipelines.manifest import Commit, PartFile, decode_commit, encode_commit
from mqcore.spark.pipelines.spans import Span


def part(name: str, topic: str = "orders", rows: int = 3) -> PartFile:
    return PartFile(
        path=f"topic={topic}/dt=2026-11-22/{name}",
        topic=topic,
        date="2026-11-22",
        rows=rows,
        size_bytes=100,
        crc32=7,
        first_store_ms=1,
        last_store_ms=2,
        body_bytes=30,
    )


def test_a_commit_comes_back_as_it_was() -> None:
    commit = Commit(
        spans=(Span("store:a", 0, 9),), files=(part("1"), part("2")), committed_ms=5, number=4
    )
    assert decode_commit(encode_commit(commit), "x") == commit
    assert commit.rows == 6


@pytest.mark.parametrize("broken", [b"", b"[]", b"{}", b'{"version": 1}', b"\xff"])
def test_what_is_no_commit_is_refused_with_its_path(broken: bytes) -> None:
    with pytest.raises(ArchiveError, match="commits/7"):
        decode_commit(broken, "commits/7")


def test_a_later_version_and_a_false_sum_are_refused() -> None:
    content = json.loads(encode_commit(Commit(spans=(), files=(part("1"),), committed_ms=1)))
    with pytest.raises(ArchiveError, match="version 2"):
        decode_commit(json.dumps(content | {"version": 2}).encode(), "x")
    with pytest.raises(ArchiveError, match="3 rows and says 4"):
        decode_commit(json.dumps(content | {"rows": 4}).encode(), "x")


def test_an_archive_is_the_sum_of_its_commits(tmp_path: Path) -> None:
    archive = ArchiveDirectory(tmp_path / "a")
    assert archive.manifest().covered() == {}
    archive.commit([Span("s", 0, 10)], [part("1")], now_ms=1)
    archive.commit([Span("s", 10, 20), Span("t", 5, 6)], [part("2", "bills")], now_ms=2)
    manifest = ArchiveDirectory(str(tmp_path / "a")).required_manifest()
    assert manifest.covered() == {"s": [(0, 20)], "t": [(5, 6)]}
    assert [found.topic for found in manifest.files()] == ["orders", "bills"]
    assert [found.topic for found in manifest.files(["bills"])] == ["bills"]


def test_nothing_is_archived_twice(tmp_path: Path) -> None:
    archive = ArchiveDirectory(tmp_path)
    archive.commit([Span("s", 0, 10)], [part("1")], now_ms=1)
    with pytest.raises(ManifestConflictError, match="s from 9 to 12"):
        archive.commit([Span("s", 9, 12)], [part("2")], now_ms=2)
    assert len(archive.manifest().commits) == 1


def test_of_two_that_commit_at_once_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = ArchiveDirectory(tmp_path)
    create = LocalDirectory.create

    def late(directory: LocalDirectory, path: str, content: bytes) -> bool:
        other = encode_commit(Commit(spans=(), files=(), committed_ms=1, number=1))
        assert create(directory, path, other)
        return create(directory, path, content)

    monkeypatch.setattr(LocalDirectory, "create", late)
    with pytest.raises(ManifestConflictError, match="commit 1"):
        archive.commit([Span("s", 0, 10)], [part("1")], now_ms=1)
    assert archive.manifest().covered() == {}


def test_a_commit_that_is_gone_is_reported(tmp_path: Path) -> None:
    archive = ArchiveDirectory(tmp_path)
    for begin in (0, 10, 20):
        archive.commit([Span("s", begin, begin + 10)], [], now_ms=1)
    first, *_ = sorted((tmp_path / COMMITS).iterdir())
    first.unlink()
    with pytest.raises(ArchiveError, match="expected 1"):
        archive.manifest()


def test_a_directory_that_is_no_archive_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="is no archive"):
        ArchiveDirectory(tmp_path).required_manifest()
