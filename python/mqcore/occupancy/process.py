"""A process as `/proc` has it: its memory, maps, threads, descriptors, and the limits it runs in.

Needs the same user as the process, or root.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from mqcore.errors import MQError
from mqcore.occupancy.files import page_cache
from mqcore.occupancy.values import Mapped, Occupied

__all__ = ["anonymous_bytes", "holder_of", "occupied", "store_of"]

_STATUS: Final = (
    *("VmRSS", "VmHWM", "RssAnon", "RssFile", "RssShmem", "VmLck", "VmSwap", "VmSize", "VmPeak"),
)
_MACHINE: Final = (
    *("MemTotal", "MemFree", "MemAvailable", "Cached", "Buffers", "Active(file)"),
    *("Inactive(file)", "Mlocked", "Dirty", "Writeback", "SwapTotal", "SwapFree"),
)
_MAP_NUMBERS: Final = {"Size": "mapped", "Rss": "resident", "Locked": "locked", "Swap": "swapped"}
# Anonymous maps from here on are listed one by one: buffers of the pool are such, one per log file.
_LARGE_BYTES: Final = 64 << 20
# The fields of `stat` behind the name of the program, whose brackets may hold blanks.
_MINOR_FIELD: Final = 7
_MAJOR_FIELD: Final = 9


def anonymous_bytes(root: Path = Path("/")) -> int:
    """Returns how much anonymous memory this process has in the machine's, bytes; 0 if unknown."""
    return _numbers(_text(root / "proc/self/status")).get("RssAnon", 0)


def occupied(
    pid: int, store: Path | None, root: Path = Path("/"), *, log_dir: Path | None = None
) -> Occupied:
    """Returns what a process and its store occupy.

    Args:
        pid: The process.
        store: Directory of the store, None to look without one.
        root: Where `proc` is.
        log_dir: The directory of the store's log, where it is not below that of the store.

    Raises:
        MQError: The process is gone, or belongs to somebody else.
    """
    folder = root / "proc" / str(pid)
    try:
        status = _numbers((folder / "status").read_text(encoding="utf-8", errors="replace"))
        maps = (folder / "smaps").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        raise MQError(f"there is no process {pid}") from None
    except PermissionError:
        raise MQError(f"process {pid} belongs to another user: ask as that user or root") from None
    heap: dict[str, Mapped] = {}
    files: dict[str, Mapped] = {}
    large = []
    libraries = Mapped("libraries and other files")
    below = f"{store}/" if store is not None else None
    for found in _maps(maps):
        if not found.name.startswith("/"):
            _add(heap.setdefault(found.name, Mapped(found.name)), found)
            if found.name == "anonymous" and found.mapped >= _LARGE_BYTES:
                large.append(found)
        elif below is not None and found.name.startswith(below):
            name = found.name.removeprefix(below)
            _add(files.setdefault(name, Mapped(name)), found)
        else:
            _add(libraries, found)
    meminfo = _numbers((root / "proc/meminfo").read_text(encoding="ascii"))
    return Occupied(
        pid=pid,
        store=None if store is None else str(store),
        threads=status.get("Threads", 0),
        descriptors=_descriptors(folder),
        process={name: status[name] for name in _STATUS if name in status},
        rollup=_numbers(_text(folder / "smaps_rollup")),
        faults=_faults(_text(folder / "stat")),
        limit=_limit(folder, root),
        heap=list(heap.values()),
        large=large,
        store_files=sorted(files.values(), key=lambda each: each.name),
        libraries=libraries,
        page_cache=[] if store is None else page_cache(store, log_dir),
        machine={name: meminfo[name] for name in _MACHINE if name in meminfo},
    )


def _text(path: Path) -> str:
    """Returns a file of the kernel; empty where this kernel has none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _descriptors(process: Path) -> int:
    try:
        return sum(1 for _ in (process / "fd").iterdir())
    except OSError:
        return 0


def _faults(text: str) -> dict[str, int]:
    """Returns the page faults in a `stat`."""
    words = text.rpartition(")")[2].split()
    if len(words) <= _MAJOR_FIELD:
        return {}
    return {"minor": int(words[_MINOR_FIELD]), "major": int(words[_MAJOR_FIELD])}


def _limit(process: Path, root: Path) -> dict[str, int]:
    """Returns the memory of a process's control group (version 2): its bound, use and events."""
    lines = _text(process / "cgroup").splitlines()
    own = next((line[3:] for line in lines if line.startswith("0::")), None)
    if own is None:
        return {}
    folder = root / "sys/fs/cgroup" / own.lstrip("/")
    current = _text(folder / "memory.current").strip()
    if not current.isdecimal():
        return {}
    bound = _text(folder / "memory.max").strip()
    events = (line.split() for line in _text(folder / "memory.events").splitlines())
    return {
        "max": int(bound) if bound.isdecimal() else 0,
        "current": int(current),
        **{words[0]: int(words[1]) for words in events if len(words) == 2},
    }


def holder_of(store: Path, root: Path = Path("/")) -> int:
    """Returns the process that has a store open for writing.

    Raises:
        MQError: There is none that this user may see.
    """
    lock = (store / "lock").resolve()
    for folder in (root / "proc").iterdir():
        if not folder.name.isdigit():
            continue
        if int(folder.name) != os.getpid() and lock in _open_files(folder):
            return int(folder.name)
    raise MQError(f"{store}: no process of this user has it open")


def store_of(pid: int, root: Path = Path("/")) -> Path | None:
    """Returns the directory of the store that a process has open, None when there is none."""
    for path in _open_files(root / "proc" / str(pid)):
        if path.name == "lock" and (path.parent / "commitlog").is_dir():
            return path.parent
    return None


def _open_files(process: Path) -> Iterator[Path]:
    """Yields what a process has open: nothing of another user's, or of one that has ended."""
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:
        return
    for descriptor in descriptors:
        # The process lives on: what it closed since the listing is no reason to miss the rest.
        with suppress(OSError):
            yield descriptor.readlink()


def _maps(text: str) -> Iterator[Mapped]:
    """Yields each map of a `smaps`."""
    current: Mapped | None = None
    for line in text.splitlines():
        head, separator, rest = line.partition(":")
        if not separator or " " in head:
            if current is not None:
                yield current
            fields = line.split(maxsplit=5)
            name = fields[5].removesuffix(" (deleted)") if len(fields) > 5 else ""
            current = Mapped(_kind(name), maps=1)
        elif current is not None and head in _MAP_NUMBERS:
            setattr(current, _MAP_NUMBERS[head], int(rest.split()[0]) << 10)
    if current is not None:
        yield current


def _kind(name: str) -> str:
    if name.startswith("/"):
        return name
    if name.startswith("["):
        word = name.strip("[]").split(":")[0]
        return word if word in ("heap", "stack") else "kernel"
    return "anonymous"


def _add(total: Mapped, found: Mapped) -> None:
    for name in ("maps", "mapped", "resident", "locked", "swapped"):
        setattr(total, name, getattr(total, name) + getattr(found, name))


def _numbers(text: str) -> dict[str, int]:
    """Returns the numbers of a status file, bytes where it has kB."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0]) << (10 if words[-1] == "kB" else 0)
    return found
