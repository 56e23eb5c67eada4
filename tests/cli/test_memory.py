"""`mqcore broker memory` finds the process of a store and prints what both occupy."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from mqcore.cli.memory import memory
from mqcore.errors import MQError
from mqcore.occupancy import holder_of, occupied, store_of
from mqcore.testing import Broker

LOG_FILE = "commitlog/00000000000000000000"
SEGMENT_BYTES = 64 << 20
# A process that holds a store until its input ends, with a pool of one buffer.
HOLDER = """
import sys, mqcore
config = {"mappedFileSizeCommitLog": "67108864"}
store = mqcore.Store(sys.argv[1], config=config)
appended = store.append("topic", b"x" * 100_000)
store.wait_dispatched(appended.end)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Yields the number of a process and the store it holds."""
    store = tmp_path / "store"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process.pid, store
    process.communicate("")


def test_a_store_and_its_process_find_each_other(holder: tuple[int, Path]) -> None:
    pid, store = holder
    assert holder_of(store) == pid
    assert store_of(pid) == store


def test_what_both_occupy_is_printed(holder: tuple[int, Path]) -> None:
    pid, store = holder
    result = CliRunner().invoke(memory, ["--json", str(store)], catch_exceptions=False)
    facts = json.loads(result.stdout)
    assert (facts["pid"], facts["store"]) == (pid, str(store))
    assert facts["threads"] > 1
    assert facts["process"]["VmRSS"] > 1 << 20
    assert facts["process"]["VmLck"] == 0
    [log] = [each for each in facts["store_files"] if each["name"] == LOG_FILE]
    assert log["mapped"] == SEGMENT_BYTES
    assert 100_000 <= log["resident"] <= SEGMENT_BYTES
    parts = {each["part"]: each for each in facts["page_cache"]}
    assert parts[LOG_FILE]["length"] == SEGMENT_BYTES
    assert {"Cached", "Dirty", "Writeback"} <= set(facts["machine"])


def test_people_read_the_same(holder: tuple[int, Path]) -> None:
    pid, _ = holder
    lines = CliRunner().invoke(memory, [str(pid)], catch_exceptions=False).stdout.splitlines()
    assert lines[0].startswith(f"process {pid}, ")
    [row] = [line for line in lines if line.strip().startswith(LOG_FILE) and "64.0 MiB" in line][:1]
    assert "64.0 MiB" in row
    assert any(line.strip().startswith("RssAnon") for line in lines)


def test_a_file_closed_during_the_search_hides_nothing(tmp_path: Path) -> None:
    lock = tmp_path / "store" / "lock"
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    lock.touch()
    descriptors = tmp_path / "proc" / "123456789" / "fd"
    descriptors.mkdir(parents=True)
    # No link: reading it fails as reading the link of a closed descriptor does.
    (descriptors / "3").touch()
    (descriptors / "4").symlink_to(lock)
    (descriptors / "5").touch()
    assert holder_of(tmp_path / "store", tmp_path) == 123456789
    assert store_of(123456789, tmp_path) == tmp_path / "store"


def test_nobody_holds_it(tmp_path: Path) -> None:
    with pytest.raises(MQError, match="no process of this user has it open"):
        holder_of(tmp_path)


def test_a_process_that_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with pytest.raises(MQError, match=f"no process {child.pid}"):
        occupied(child.pid, None)
    assert store_of(child.pid) is None


def test_a_process_without_a_store_has_memory_too() -> None:
    facts = occupied(os.getpid(), None)
    assert facts.store is None
    assert sum(each.resident for each in facts.heap) > 1 << 20
    assert facts.libraries.mapped > 1 << 20
    assert facts.page_cache == []


def test_numbers_of_a_made_process(tmp_path: Path) -> None:
    folder = tmp_path / "proc" / "7"
    folder.mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8 kB\nDirty: 1 kB\nHugePages_Total: 0\n")
    (folder / "status").write_text("Name:\tx\nVmLck:\t 4 kB\nThreads:\t3\n")
    (folder / "smaps").write_text(
        "1000-2000 rw-p 00000000 00:00 0 [heap]\nSize: 8 kB\nRss: 4 kB\nLocked: 4 kB\nVmFlags: rd\n"
        "3000-4000 rw-p 00000000 00:00 0 \nSize: 131072 kB\nRss: 131072 kB\nLocked: 131072 kB\n"
        "5000-6000 rw-s 00000000 08:01 9 /a b/lib (deleted)\nSize: 4 kB\nRss: 0 kB\nSwap: 4 kB\n"
    )
    facts = occupied(7, None, tmp_path)
    assert (facts.threads, facts.process) == (3, {"VmLck": 4096})
    assert [(each.name, each.resident) for each in facts.heap] == [
        ("heap", 4096),
        ("anonymous", 128 << 20),
    ]
    assert [(each.mapped, each.locked) for each in facts.large] == [(128 << 20, 128 << 20)]
    assert (facts.libraries.mapped, facts.libraries.swapped) == (4096, 4096)
    assert facts.machine == {"MemTotal": 8192, "Dirty": 1024}


def test_a_broker_is_asked_by_its_address_or_name() -> None:
    with Broker() as broker:
        for target in (broker.address, "broker-test"):
            line = ["--json", "-n", broker.namesrv, target]
            result = CliRunner().invoke(memory, line, catch_exceptions=False)
            facts = json.loads(result.stdout)
            owners = {each["owner"] for each in facts["held"]}
            assert {"Python objects", "connections", "held pulls"} <= owners
        text = CliRunner().invoke(memory, ["-n", broker.namesrv, broker.address]).stdout
        assert "what holds RssAnon" in text
        assert "accounted" in text
        assert "\u2588" in text
        wrong = CliRunner().invoke(memory, ["-n", broker.namesrv, "nobody"])
        assert wrong.exit_code == 2
        assert "they know: broker-test" in wrong.output


def test_a_kernel_without_groups_and_rollups_has_no_numbers_of_them(tmp_path: Path) -> None:
    folder = tmp_path / "proc" / "7"
    folder.mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8 kB\n")
    (folder / "status").write_text("Threads:\t3\n")
    (folder / "smaps").write_text("")
    facts = occupied(7, None, tmp_path)
    assert (facts.limit, facts.rollup, facts.faults) == ({}, {}, {})
    (folder / "stat").write_text("7 (a (b) c) S 1 1 1 0 -1 0 11 0 22 0 1 1\n")
    (folder / "cgroup").write_text("1:name=x:/y\n0::/a/b\n")
    group = tmp_path / "sys/fs/cgroup/a/b"
    group.mkdir(parents=True)
    (group / "memory.current").write_text("5\n")
    (group / "memory.max").write_text("max\n")
    (group / "memory.events").write_text("low 0\noom_kill 2\n")
    facts = occupied(7, None, tmp_path)
    assert facts.faults == {"minor": 11, "major": 22}
    assert facts.limit == {"max": 0, "current": 5, "low": 0, "oom_kill": 2}
