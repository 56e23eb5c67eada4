"""A control group whose memory is bounded, of either version of the kernel's interface.

    with memory_group("broker") as group:          # None where we may make none
        Program(group.within(OURS), ...)
        group.limit(group.needed_bytes() + (8 << 20))

Knows programs by their command lines alone.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from faults.prefixed import prefixed
from interop.servers import Software

_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A control group.

    Attributes:
        path: Its directory.
        is_unified: Whether it is one of version 2.
    """

    path: Path
    is_unified: bool

    def within(self, software: Software) -> Software:
        """Returns the programs of a software, which count to the group from their start on."""
        enter = 'echo $$ > "$0" && exec "$@"'
        return prefixed(software, "sh", "-c", enter, str(self.path / "cgroup.procs"))

    def needed_bytes(self) -> int:
        """Returns what its processes have that is no copy of a file."""
        name = "anon" if self.is_unified else "rss"
        lines = (self.path / "memory.stat").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.split()[0] == name)

    def limit(self, bytes_: int | None) -> None:
        """Bounds it; None: not any more.

        Raises:
            OSError: The kernel cannot take so much away.
        """
        name = "memory.max" if self.is_unified else "memory.limit_in_bytes"
        none = "max" if self.is_unified else "-1"
        text = none if bytes_ is None else str(bytes_)
        (self.path / name).write_text(text, encoding="ascii")


@contextmanager
def memory_group(name: str) -> Iterator[MemoryGroup | None]:
    """Makes a group, which goes at the end when its processes have ended.

    Args:
        name: What its name ends with.
    """
    is_unified = (_ROOT / "cgroup.controllers").exists()
    path = _ROOT / ("" if is_unified else "memory") / f"mqcore-{os.getpid()}-{name}"
    try:
        if is_unified:
            (_ROOT / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
        path.mkdir()
    except OSError:
        yield None
        return
    try:
        yield MemoryGroup(path, is_unified)
    finally:
        path.rmdir()
