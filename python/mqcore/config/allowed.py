"""The memory that this process may use: the machine's, its control groups', its address space's.

Reads what the kernel reports; knows no setting.
"""

import resource
from collections.abc import Iterator
from pathlib import Path

__all__ = ["available_memory_bytes"]

_MEMINFO = Path("proc/meminfo")
_OWN_GROUPS = Path("proc/self/cgroup")
_GROUPS = Path("sys/fs/cgroup")
# Where the second version is mounted: alone, or beside the first.
_UNIFIED = ("", "unified")
_LIMIT_V1 = "memory.limit_in_bytes"
_LIMIT_V2 = "memory.max"


def available_memory_bytes(root: Path = Path("/"), *, address_space: int | None = None) -> int:
    """Returns the memory that this process may use: the least of all limits.

    Args:
        root: Where `proc` and `sys` are.
        address_space: The limit of its address space, None for that of the system.
    """
    if address_space is None:
        address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
    limits = [_machine_bytes(root), *_group_limits(root)]
    if address_space != resource.RLIM_INFINITY:
        limits.append(address_space)
    return min(limits)


def _machine_bytes(root: Path) -> int:
    for line in (root / _MEMINFO).read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) << 10
    return 0


def _group_limits(root: Path) -> Iterator[int]:
    """Yields the limits of the process's control groups and of all groups above them."""
    try:
        lines = (root / _OWN_GROUPS).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    # Inside a container the group may be mounted as the root of what is seen.
    found = {(_UNIFIED[0], "/", _LIMIT_V2), ("memory", "/", _LIMIT_V1)}
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            found |= {(mount, path, _LIMIT_V2) for mount in _UNIFIED}
        elif "memory" in controllers.split(","):
            found.add(("memory", path, _LIMIT_V1))
    for mount, path, name in found:
        folder = root / _GROUPS / mount
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            limit = _limit_of(folder.joinpath(*parts[:depth]) / name)
            if limit is not None:
                yield limit


def _limit_of(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    # The second version writes "max" for none.
    return int(text) if text.isdigit() else None
