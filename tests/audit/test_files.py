"""Files of an audit: modes, names, crashes, full disks, pages."""

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from mqcore.audit import AuditReader, Wanted
from mqcore.audit.files import AuditFiles

_SIZE = 4_096


def files(directory: Path, *, files_max: int = 4, is_synced: bool = False) -> AuditFiles:
    return AuditFiles(
        directory / "audit" / "audit.log",
        file_bytes_max=_SIZE,
        files_max=files_max,
        is_synced=is_synced,
    )


def row(number: int) -> dict[str, Any]:
    return {
        "time": "2026-05-01T10:00:00.000Z",
        "server": "b",
        "event": "change",
        "user": f"u{number}",
    }


def write(to: AuditFiles, count: int, *, first: int = 1) -> None:
    for number in range(first, first + count):
        to.append([row(number)])


@pytest.mark.parametrize("is_synced", [False, True])
def test_only_the_owner_reads_what_is_written(tmp_path: Path, is_synced: bool) -> None:
    to = files(tmp_path, is_synced=is_synced)
    write(to, 3)
    assert stat.S_IMODE(to.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(to.path.parent.stat().st_mode) == 0o700
    assert AuditReader(to.path).check().is_whole


def test_a_file_that_others_may_read_becomes_private(tmp_path: Path) -> None:
    to = files(tmp_path)
    to.path.parent.mkdir()
    to.path.touch(0o644)
    write(to, 1)
    assert stat.S_IMODE(to.path.stat().st_mode) == 0o600


def test_a_link_that_has_the_name_of_the_file_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("kept")
    to = files(tmp_path)
    to.path.parent.mkdir()
    to.path.symlink_to(other)
    with pytest.raises(OSError, match=r"audit\.log"):
        write(to, 1)
    assert other.read_text() == "kept"


def test_full_files_get_names_and_the_oldest_go(tmp_path: Path) -> None:
    to = files(tmp_path)
    write(to, 500)
    reader = AuditReader(to.path)
    assert len(reader.files) == 4
    found = reader.check()
    assert found.is_whole
    assert found.ending == to.ending
    assert found.first > 1
    assert found.first + found.lines - 1 == 500
    assert reader.files[0].name == f"audit.log.{found.first:020d}"


def test_a_start_goes_on_with_the_chain(tmp_path: Path) -> None:
    for life in range(5):
        write(files(tmp_path), 60, first=60 * life + 1)
    found = AuditReader(files(tmp_path).path).check()
    assert found.is_whole
    assert found.ending.number == 300


def test_a_start_behind_a_rename_without_a_new_file_goes_on(tmp_path: Path) -> None:
    to = files(tmp_path)
    write(to, 3)
    to.path.rename(to.path.with_name(f"audit.log.{1:020d}"))
    write(files(tmp_path), 3, first=4)
    assert AuditReader(to.path).check().lines == 6
    assert AuditReader(to.path).check().is_whole


@pytest.mark.parametrize("kept", range(1, 60, 7))
def test_a_line_that_a_crash_has_cut_short_is_ended_and_noted(tmp_path: Path, kept: int) -> None:
    to = files(tmp_path)
    write(to, 3)
    whole = to.path.read_bytes()
    last = whole.rfind(b"\n", 0, -1) + 1
    to.path.write_bytes(whole[: last + kept])
    write(files(tmp_path), 2, first=4)
    found = AuditReader(to.path).check()
    assert found.is_whole, found
    assert found.torn == 1, found
    assert [each["user"] for each in AuditReader(to.path).page(Wanted(), rows_max=2).rows] == [
        "u5",
        "u4",
    ]


def test_zeros_at_the_end_are_a_line_that_was_cut_short(tmp_path: Path) -> None:
    to = files(tmp_path)
    write(to, 3)
    with to.path.open("ab") as file:
        file.write(bytes(1_000))
    write(files(tmp_path), 1, first=4)
    found = AuditReader(to.path).check()
    assert found.is_whole
    assert found.torn == 1


def test_what_cannot_be_written_is_taken_back_and_noted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = files(tmp_path)
    write(to, 2)
    real, fails = os.write, [True]

    def half(descriptor: int, data: Any) -> int:
        if not fails:
            return real(descriptor, data)
        if len(data) > 30:
            return real(descriptor, bytes(data[:30]))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space"):
        to.append([row(3), row(4)])
    fails.clear()
    write(to, 1, first=5)
    found = AuditReader(to.path).check()
    assert found.is_whole
    assert found.missed == 2
    assert found.torn == 0


def test_pages_go_back_to_the_first_line(tmp_path: Path) -> None:
    to = files(tmp_path, files_max=100)
    write(to, 300)
    reader = AuditReader(to.path)
    users: list[str] = []
    before = 0
    while True:
        page = reader.page(Wanted(), rows_max=37, before=before)
        users += [each["user"] for each in page.rows]
        before = page.before
        if not before:
            break
    assert users == [f"u{number}" for number in range(300, 0, -1)]
    found = reader.page(Wanted(user="u7"), rows_max=10)
    assert [each["n"] for each in found.rows] == [7]
    bounded = AuditReader(to.path, 1_000).page(Wanted(user="u7"), rows_max=10)
    assert not bounded.rows
    assert 0 < bounded.before < 300


def test_there_may_be_no_file(tmp_path: Path) -> None:
    reader = AuditReader(tmp_path / "audit.log")
    assert reader.page(Wanted(), rows_max=10).rows == ()
    assert reader.check().is_whole
