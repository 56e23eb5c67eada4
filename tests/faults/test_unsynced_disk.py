"""The disk that forgets: what power loss leaves of its files, and what a program sees of it."""

import errno
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faults.disk.files import PAGE_BYTES, SECTOR_BYTES, DiskError, File, Files
from faults.disk.unsynced_disk import UnsyncedDisk, unsynced_disk

LIMIT_BYTES = 1 << 20


def files() -> Files:
    return Files(LIMIT_BYTES)


def synced_file(all_: Files, name: str, content: bytes) -> File:
    made = all_.create(all_.root, name)
    made.write(content, 0)
    made.sync()
    all_.sync_directory(all_.root)
    return made


def names(all_: Files) -> set[str]:
    return set(all_.root.names)


def test_power_loss_leaves_what_was_synced() -> None:
    all_ = files()
    log = synced_file(all_, "log", b"a" * 10_000)
    log.write(b"b" * 10_000, 5_000)
    all_.lose_power(random.Random(1), loses_all=True)
    assert log.read(0, 20_000) == b"a" * 10_000


def test_power_loss_takes_sectors_of_what_was_not_synced() -> None:
    all_ = files()
    log = synced_file(all_, "log", b"a" * PAGE_BYTES)
    log.write(b"b" * PAGE_BYTES, 0)
    all_.lose_power(random.Random(1), loses_all=False)
    content = log.read(0, PAGE_BYTES)
    sectors = {content[at : at + SECTOR_BYTES] for at in range(0, PAGE_BYTES, SECTOR_BYTES)}
    assert sectors == {b"a" * SECTOR_BYTES, b"b" * SECTOR_BYTES}


def test_what_power_loss_cut_off_is_blank_when_the_file_grows_again() -> None:
    all_ = files()
    log = synced_file(all_, "log", b"a" * 100)
    log.write(b"b" * 9_000, 0)
    all_.lose_power(random.Random(1), loses_all=True)
    log.set_length(9_000)
    assert log.read(0, 9_000) == b"a" * 100 + bytes(8_900)


def test_a_name_is_durable_once_its_directory_is_synced() -> None:
    all_ = files()
    synced_file(all_, "kept", b"")
    all_.create(all_.root, "lost")
    all_.remove(all_.root, "kept")
    all_.lose_power(random.Random(1), loses_all=True)
    assert names(all_) == {"kept"}


def test_a_rename_between_directories_needs_both_synced() -> None:
    all_ = files()
    other = all_.make_directory(all_.root, "other")
    moved = synced_file(all_, "old", b"x")
    all_.rename(all_.root, "old", other, "new")
    all_.sync_directory(other)
    all_.lose_power(random.Random(1), loses_all=True)
    assert names(all_) == {"other", "old"}
    all_.rename(all_.root, "old", other, "new")
    all_.sync_directory(other)
    all_.sync_directory(all_.root)
    all_.lose_power(random.Random(1), loses_all=True)
    assert other.names == {"new": moved}


def test_power_loss_may_keep_each_unsynced_name_by_itself() -> None:
    seen = set()
    for seed in range(40):
        all_ = files()
        all_.create(all_.root, "a")
        all_.create(all_.root, "b")
        all_.lose_power(random.Random(seed), loses_all=False)
        seen.add(frozenset(names(all_)))
    assert seen == {frozenset(each) for each in ("", "a", "b", "ab")}


def test_a_full_disk_refuses_what_is_new_and_takes_what_has_space() -> None:
    all_ = files()
    log = all_.create(all_.root, "log")
    all_.take(log.new_bytes(0, LIMIT_BYTES))
    log.allocated = LIMIT_BYTES
    all_.take(log.new_bytes(0, LIMIT_BYTES))
    with pytest.raises(DiskError, match="ENOSPC"):
        all_.take(log.new_bytes(LIMIT_BYTES, 1))
    all_.remove(all_.root, "log")
    all_.take(LIMIT_BYTES)


_PROGRAM = """
import errno, json, mmap, os, sys
root, seen = sys.argv[1], {}
seen["boot"] = open("/proc/sys/kernel/random/boot_id").read()
file = os.open(root + "/log", os.O_RDWR | os.O_CREAT)
seen["before"] = os.pread(file, 6, 0).decode()
try:
    os.posix_fallocate(file, 0, 1 << 16)
    with mmap.mmap(file, 1 << 16) as pages:
        pages[:6] = b"synced"
        pages.flush()
        directory = os.open(root, os.O_RDONLY)
        os.fsync(directory)
        os.pwrite(file, b"unsync", 0)
except OSError as error:
    seen["error"] = errno.errorcode[error.errno]
print(json.dumps(seen))
"""


def run_within(disk: UnsyncedDisk, root: Path) -> dict[str, Any]:
    """Runs a program that writes, and syncs some of it, on the disk."""
    holder = str(disk.process.pid)
    enter = ["nsenter", "--target", holder, "--user", "--mount", "--preserve-credentials", "--"]
    done = subprocess.run(
        [*enter, sys.executable, "-c", _PROGRAM, str(root)],
        capture_output=True,
        text=True,
        check=True,
    )
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def test_a_program_on_the_disk_meets_power_loss_errors_and_no_space(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    with unsynced_disk(root) as disk:
        if disk is None:
            pytest.skip("no FUSE in a user namespace here")
        first = run_within(disk, root)
        assert (disk.seen / "log").read_bytes()[:6] == b"unsync"
        disk.lose_power()
        disk.restore(1, loses_all=True)
        second = run_within(disk, root)
        assert [first["before"], second["before"]] == ["", "synced"]
        assert first["boot"] != second["boot"]
        disk.fail("FSYNC", "/log", errno.EIO, 1)
        assert run_within(disk, root)["error"] == "EIO"
        assert disk.counts() == {"FSYNC failed": 1}
        assert "error" not in run_within(disk, root)
        disk.fill()
        (disk.seen / "log").unlink()
        disk.fill()
        assert run_within(disk, root)["error"] == "ENOSPC"
        disk.heal()
        assert "error" not in run_within(disk, root)
