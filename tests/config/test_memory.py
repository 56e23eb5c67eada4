"""Memory and processors that the process may use are found wherever the kernel bounds them."""

import resource
from pathlib import Path

import pytest

from mqcore.config import Layer, Program, resolved
from mqcore.config.allowed import available_memory_bytes, available_processors
from mqcore.config.budget import check_budget, derived_windows, memory_plan
from mqcore.errors import ConfigurationError

MIB = 1 << 20
GIB = 1 << 30
UNBOUNDED = resource.RLIM_INFINITY


def machine(root: Path, groups: str, files: dict[str, str]) -> Path:
    """Makes what the kernel reports of a machine with 8 GiB."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: {8 << 20} kB\nMemFree: 1 kB\n")
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("groups", "files", "allowed"),
    [
        ("0::/\n", {}, 8 * GIB),
        ("0::/\n", {"memory.max": "max"}, 8 * GIB),
        ("0::/\n", {"memory.max": str(160 * MIB)}, 160 * MIB),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": str(GIB)}, GIB),
        ("0::/a/b\n", {"a/b/memory.max": str(GIB), "a/memory.max": str(2 * GIB)}, GIB),
        (
            "9:cpu:/x\n4:memory:/a/b\n0::/\n",
            {
                "memory/memory.limit_in_bytes": str((1 << 63) - 4096),
                "memory/a/b/memory.limit_in_bytes": str(GIB),
            },
            GIB,
        ),
        ("4:cpu,memory:/a\n", {"memory/memory.limit_in_bytes": str(3 * GIB)}, 3 * GIB),
        ("4:memory:/../..\n", {"memory/memory.limit_in_bytes": str(3 * GIB)}, 3 * GIB),
        ("0::/a\n", {"unified/a/memory.max": str(GIB)}, GIB),
    ],
)
def test_the_least_of_all_limits_counts(
    tmp_path: Path, groups: str, files: dict[str, str], allowed: int
) -> None:
    root = machine(tmp_path, groups, files)
    assert available_memory_bytes(root, address_space=UNBOUNDED) == allowed
    assert available_memory_bytes(root, address_space=100 * MIB) == 100 * MIB


@pytest.mark.parametrize(
    ("groups", "files", "allowed"),
    [
        ("0::/\n", {}, 8),
        ("0::/\n", {"cpu.max": "max 100000"}, 8),
        ("0::/\n", {"cpu.max": "250000 100000"}, 2),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000"}, 1),
        ("0::/a\n", {"a/cpu.max": "1600000 100000"}, 8),
        (
            "9:memory:/x\n4:cpu,cpuacct:/a\n",
            {"cpu/a/cpu.cfs_quota_us": "300000", "cpu/a/cpu.cfs_period_us": "100000"},
            3,
        ),
        (
            "4:cpu:/\n",
            {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
            8,
        ),
    ],
)
def test_a_quota_of_processors_counts(
    tmp_path: Path, groups: str, files: dict[str, str], allowed: int
) -> None:
    root = machine(tmp_path, groups, files)
    assert available_processors(root, scheduled=8) == allowed
    assert available_processors(root, scheduled=1) == 1


def test_a_setting_limits_how_much_is_allowed() -> None:
    configuration = resolved(Program.BROKER, [Layer("test", {"memoryAllowed": "160m"})])
    plan = memory_plan(configuration)
    assert plan.allowed_bytes == 160 * MIB
    assert plan.budget_bytes == 120 * MIB
    assert "memory allowed 160 MiB, budget 120 MiB" in str(plan)


@pytest.mark.parametrize("program", list(Program))
def test_a_new_connection_may_begin_with_the_largest_frame_however_little_there_is(
    program: Program,
) -> None:
    for allowed in (64 * MIB, 160 * MIB, 512 * MIB, GIB, 8 * GIB, 1 << 42):
        plan = memory_plan(resolved(program, []), allowed)
        parts = (
            plan.first_frames_bytes,
            plan.later_frames_bytes,
            plan.requests_bytes,
            plan.output_bytes,
            plan.sends_bytes,
        )
        assert plan.first_frames_bytes >= 32 * MIB
        assert min(parts) > 16 * MIB
        assert plan.first_frames_bytes == min(max(plan.budget_bytes // 8, 32 * MIB), 256 * MIB)
        if allowed >= GIB:
            assert sum(parts) <= plan.budget_bytes


def test_little_memory_shrinks_the_windows_that_nobody_has_set() -> None:
    plain = resolved(Program.BROKER, [])
    assert derived_windows(plain, 8 * GIB) == {}
    small = derived_windows(plain, 160 * MIB)
    assert small == {"populateWindowBytes": str(7 * MIB), "hotWindowBytes": str(7 * MIB)}
    assert check_budget(resolved(Program.BROKER, [Layer("x", small)]), 160 * MIB) == []
    configuration = resolved(Program.BROKER, [Layer("test", {"hotWindowBytes": "67108864"})])
    assert "hotWindowBytes" not in derived_windows(configuration, 160 * MIB)
    with pytest.raises(ConfigurationError, match="hotWindowBytes"):
        check_budget(configuration, 160 * MIB)


def test_a_machine_smaller_than_the_process_is_warned_of() -> None:
    configuration = resolved(
        Program.BROKER, [Layer("x", derived_windows(resolved(Program.BROKER, []), 96 * MIB))]
    )
    [warning] = check_budget(configuration, 96 * MIB)
    assert "96 MiB of memory are allowed" in warning
