"""`mqcore doctor` checks the numbers that a machine gives, and reads a real one."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from mqcore.cli.findings import (
    clock_findings,
    disk_findings,
    kernel_findings,
    sync_finding,
    sync_times,
)
from mqcore.cli.main import commands
from mqcore.model.findings import Finding

WELL = {
    "overcommit_memory": "0",
    "max_map_count": "65530",
    "swappiness": "1",
    "dirty_background_ratio": "10",
    "dirty_ratio": "20",
    "min_free_kbytes": "67584",
    "zone_reclaim_mode": "0",
    "nr_hugepages": "0",
}
HUGE = "sys/kernel/mm/transparent_hugepage/enabled"
CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"


def machine(root: Path, **settings: str) -> Path:
    """Makes `proc` and `sys` of a machine that is well but for some settings."""
    folder = root / "proc/sys/vm"
    folder.mkdir(parents=True)
    for name, value in (WELL | settings).items():
        (folder / name).write_text(value + "\n")
    return root


def wrote(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def advised(root: Path) -> dict[str, Finding]:
    found = [each for each in kernel_findings(root) if each.name != "kernel"]
    return {each.name: each for each in found if each.advice}


def test_a_well_machine_gets_no_advice(tmp_path: Path) -> None:
    wrote(tmp_path, HUGE, "always [madvise] never\n")
    assert advised(machine(tmp_path)) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("overcommit_memory", "2"),
        ("max_map_count", "1000"),
        ("swappiness", "60"),
        ("dirty_background_ratio", "20"),
        ("dirty_ratio", "5"),
        ("min_free_kbytes", "1024"),
        ("zone_reclaim_mode", "1"),
        ("nr_hugepages", "512"),
    ],
)
def test_each_bad_setting_gets_advice_and_a_reason(tmp_path: Path, name: str, value: str) -> None:
    found = advised(machine(tmp_path, **{name: value}))[f"vm.{name}"]
    assert found.value == value
    assert "sysctl vm." in found.advice
    assert found.why


def test_huge_pages_for_everybody_get_advice(tmp_path: Path) -> None:
    wrote(tmp_path, HUGE, "[always] madvise never\n")
    assert advised(machine(tmp_path))["transparent_hugepage"].value == "always"


def test_what_the_system_does_not_report_is_unknown_and_no_fault(tmp_path: Path) -> None:
    found = [each for each in kernel_findings(tmp_path) if each.name != "kernel"]
    assert {each.value for each in found} == {"unknown"}
    assert [each for each in found if each.advice] == []


def disk(tmp_path: Path, mounts: str) -> dict[str, Finding]:
    wrote(tmp_path, "proc/self/mountinfo", mounts)
    store = tmp_path / "a store"
    store.mkdir()
    return {each.name: each for each in disk_findings(store, tmp_path)}


def test_the_file_system_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    mount_point = str(tmp_path / "a store").replace(" ", "\\040")
    found = disk(
        tmp_path,
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        f"23 22 8:2 / {mount_point} rw,noatime shared:2 - xfs /dev/sda2 rw,nobarrier\n"
        "24 22 8:3 / /elsewhere rw - btrfs /dev/sda3 rw\n",
    )
    assert found["file system"].value.startswith("xfs at ")
    assert found["file system"].advice == ""
    assert found["mount options"].value == "rw,noatime,nobarrier"
    assert "nobarrier" in found["mount options"].advice
    assert "% used" in found["disk space"].value


@pytest.mark.parametrize("kind", ["tmpfs", "overlay", "nfs4"])
def test_other_file_systems_get_advice(tmp_path: Path, kind: str) -> None:
    found = disk(tmp_path, f"22 1 0:1 / / rw - {kind} none rw\n")
    assert found["file system"].advice


@pytest.mark.parametrize(
    ("scheduler", "chosen", "is_well"),
    [("[none] mq-deadline", "none", True), ("mq-deadline [bfq] none", "bfq", False)],
)
def test_the_scheduler_is_the_devices(
    tmp_path: Path, scheduler: str, chosen: str, is_well: bool
) -> None:
    device = tmp_path.stat().st_dev
    name = f"sys/dev/block/{os.major(device)}:{os.minor(device)}/queue/scheduler"
    wrote(tmp_path, name, scheduler)
    found = disk(tmp_path, "")["I/O scheduler"]
    assert found.value == chosen
    assert (found.advice == "") is is_well


@pytest.mark.parametrize(
    ("times", "is_well"), [([90.0, 100.0, 9000.0], True), ([20000.0], False), ([2.0], False)]
)
def test_times_of_a_sync_are_checked(times: list[float], is_well: bool) -> None:
    assert (sync_finding(times).advice == "") is is_well


def test_times_are_measured_and_nothing_is_left(tmp_path: Path) -> None:
    times = sync_times(tmp_path, rounds=3)
    assert len(times) == 3
    assert min(times) >= 0
    assert list(tmp_path.iterdir()) == []


def test_a_slow_clock_gets_advice(tmp_path: Path) -> None:
    wrote(tmp_path, CLOCK, "hpet\n")
    source, offset = clock_findings(tmp_path)
    assert (source.value, bool(source.advice)) == ("hpet", True)
    assert "synchronised" in offset.value


def test_the_command_prints_all_of_this_machine(tmp_path: Path) -> None:
    result = CliRunner().invoke(commands, ["doctor", "--json", str(tmp_path / "not" / "yet")])
    assert result.exit_code in (0, 1), result.output
    found = {each["name"]: each for each in json.loads(result.stdout)}
    assert {
        "vm.swappiness",
        "memlock",
        "nofile",
        "fdatasync",
        "file system",
        "clock source",
    } <= set(found)
    assert found["fdatasync"]["value"].startswith("median")
    assert all(set(each) == {"name", "value", "advice", "why"} for each in found.values())
    table = CliRunner().invoke(commands, ["doctor", str(tmp_path)])
    assert table.exit_code == int(any(each["advice"] for each in found.values()))
    assert "vm.max_map_count" in table.stdout
    assert list(tmp_path.iterdir()) == []
