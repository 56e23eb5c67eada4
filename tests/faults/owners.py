"""Which of some processes a connection of this machine belongs to, as the kernel lists it.

    owner_of(43210, {"broker 1": 4711, "broker 2": 4712})       # "broker 1"; "" for none of them

Knows Linux and no program.
"""

from collections.abc import Mapping
from pathlib import Path

# A line of /proc/net/tcp: number, local address, remote address, state, ..., inode at 9.
_INODE_AT = 9
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def owner_of(port: int, pids: Mapping[str, int]) -> str:
    """Returns the name of the process that has a connection from a local port.

    Args:
        port: The port that the connection comes from.
        pids: The processes by their names.
    """
    wanted = {f"socket:[{inode}]" for inode in _inodes(port)}
    return next((name for name, pid in pids.items() if wanted & _descriptors(pid)), "")


def _inodes(port: int) -> set[str]:
    ending = f":{port:04X}"
    found = set()
    for table in _TABLES:
        for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
            words = line.split()
            if words[1].endswith(ending) and words[_INODE_AT] != "0":
                found.add(words[_INODE_AT])
    return found


def _descriptors(pid: int) -> set[str]:
    """Returns what a process has open; nothing of one that has ended."""
    found: set[str] = set()
    try:
        entries = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return found
    for entry in entries:
        try:
            found.add(str(entry.readlink()))
        except OSError:  # Closed meanwhile.
            continue
    return found
