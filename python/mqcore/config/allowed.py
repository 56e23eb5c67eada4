"""The memory and the processors that this process may use: the least of all limits.

Reads what the kernel reports; knows no setting.
"""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

__all__ = ["available_memory_bytes", "available_processors"]

_MEMINFO = Path("proc/meminfo")
_OWN_GROUPS = Path("proc/self/cgroup")
_GROUPS = Path("sys/fs/cgroup")
# Where the second version is mounted: alone, or beside the first.
_UNIFIED = ("", "unified")
_LIMIT_V1 = "memory.limit_in_bytes"
_LIMIT_V2 = "memory.max"
_QUOTA_V1 = "cpu.cfs_quota_us"
_PERIOD_V1 = "cpu.cfs_period_us"
_QUOTA_V2 = "cpu.max"


def available_memory_bytes(root: Path = Path("/"), *, address_space: int | None = None) -> int:
    """Returns the memory that this process may use: the least of all limits.

    Args:
        root: Where `proc` and `sys` are.
        address_space: The limit of its address space, None for that of the system.
    """
    if address_space is None:
        address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
    files = _group_files(root, "memory", _LIMIT_V1, _LIMIT_V2)
    groups = (_limit_of(path) for path in files)
    limits = [_machine_bytes(root), *(limit for limit in groups if limit is not None)]
    if address_space != resource.RLIM_INFINITY:
        limits.append(address_space)
    return min(limits)


def _machine_bytes(root: Path) -> int:
    for line in (root / _MEMINFO).read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) << 10
    return 0


def available_processors(root: Path = Path("/"), *, scheduled: int | None = None) -> int:
    """Returns how many processors this process may keep busy, at least 1: the least of all limits.

    Args:
        root: Where `proc` and `sys` are.
        scheduled: On how many it may run, None for what the system allows.
    """
    if scheduled is None:
        scheduled = len(os.sched_getaffinity(0))
    files = _group_files(root, "cpu", _QUOTA_V1, _QUOTA_V2)
    quotas = (_quota_of(path) for path in files)
    return max(1, min([scheduled, *(int(quota) for quota in quotas if quota is not None)]))


def _group_files(root: Path, controller: str, file_v1: str, file_v2: str) -> Iterator[Path]:
    """Yields where limits of the process's control groups and of all groups above them may be."""
    try:
        lines = (root / _OWN_GROUPS).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    # Inside a container the group may be mounted as the root of what is seen.
    found = {(_UNIFIED[0], "/", file_v2), (controller, "/", file_v1)}
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            found |= {(mount, path, file_v2) for mount in _UNIFIED}
        elif controller in controllers.split(","):
            found.add((controller, path, file_v1))
    for mount, path, name in found:
        folder = root / _GROUPS / mount
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            yield folder.joinpath(*parts[:depth]) / name


def _limit_of(path: Path) -> int | None:
    # The second version writes "max" for none.
    text = _text_of(path)
    return int(text) if text.isdigit() else None


def _quota_of(path: Path) -> float | None:
    """Returns the processors' time per time that a group may use; None without a limit."""
    quota, _, period = _text_of(path).partition(" ")
    if path.name == _QUOTA_V1:
        period = _text_of(path.with_name(_PERIOD_V1))
    # Without a limit the first version has -1, the second "max".
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return int(quota) / int(period)


def _text_of(path: Path) -> str:
    """Returns what a file of the kernel holds; empty where there is none."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
