"""`mqcore broker memory`: what a running broker and its store occupy, asked of the kernel.

Looks from outside, at `/proc`: it works beside a broker that no longer answers. Needs the same user
as the broker, or root.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from mqcore.cli.tables import size_text
from mqcore.errors import MQError
from mqcore.native import Inspection

_STATUS = ("VmRSS", "VmHWM", "RssAnon", "RssFile", "RssShmem", "VmLck", "VmSwap", "VmSize")
_MACHINE = ("MemTotal", "MemAvailable", "Cached", "Dirty", "Writeback", "SwapFree")
_MAP_NUMBERS = {"Size": "mapped", "Rss": "resident", "Locked": "locked", "Swap": "swapped"}
# Anonymous maps from here on are listed one by one: buffers of the pool are such, one per log file.
_LARGE_BYTES = 64 << 20


@dataclass(slots=True)
class Mapped:
    """Memory of a process in one file, or in one kind of memory without a file. Bytes.

    Attributes:
        name: Path of the file, or `heap`, `stack`, `anonymous`.
        maps: Number of maps.
        mapped: Address space.
        resident: In memory.
        locked: Locked in memory.
        swapped: In swap.
    """

    name: str
    maps: int = 0
    mapped: int = 0
    resident: int = 0
    locked: int = 0
    swapped: int = 0


@dataclass(frozen=True, slots=True)
class Occupied:
    """What a broker occupies. Bytes.

    Attributes:
        pid: Its process.
        store: Directory of its store, None when it has none.
        threads: Number of threads.
        process: VmRSS and its like.
        heap: Heap and other memory without a file.
        large: Anonymous maps of at least 64 MiB one by one: buffers of the pool.
        store_files: Files of the store that the process has mapped.
        libraries: All other files.
        page_cache: Per part of the store: files, length, on disk, in memory (page cache).
        machine: The machine's Cached, Dirty, Writeback and its like.
    """

    pid: int
    store: str | None
    threads: int
    process: dict[str, int]
    heap: list[Mapped]
    large: list[Mapped]
    store_files: list[Mapped]
    libraries: Mapped
    page_cache: list[dict[str, str | int]]
    machine: dict[str, int]


def occupied(pid: int, store: Path | None, root: Path = Path("/")) -> Occupied:
    """Returns what a process and its store occupy.

    Args:
        pid: The process.
        store: Directory of the store, None to look without one.
        root: Where `proc` is.

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
        process={name: status[name] for name in _STATUS if name in status},
        heap=list(heap.values()),
        large=large,
        store_files=sorted(files.values(), key=lambda each: each.name),
        libraries=libraries,
        page_cache=[] if store is None else page_cache(store),
        machine={name: meminfo[name] for name in _MACHINE if name in meminfo},
    )


def page_cache(store: Path) -> list[dict[str, str | int]]:
    """Returns what each log file and each other part of a store occupies on disk and in memory."""
    parts: dict[str, dict[str, str | int]] = {}
    sums: dict[str, list[int]] = {}
    for file in Inspection(store, config={}).files():
        top = file.path.split("/", 1)[0]
        part = file.path if top == "commitlog" else top
        total = sums.setdefault(part, [0, 0, 0, 0])
        for column, number in enumerate(
            (1, file.len_bytes, file.allocated_bytes, file.resident_bytes or 0)
        ):
            total[column] += number
    for part, (files, length, on_disk, resident) in sums.items():
        parts[part] = {
            "part": part,
            "files": files,
            "length": length,
            "on_disk": on_disk,
            "resident": resident,
        }
    return list(parts.values())


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


@click.command()
@click.argument("target", default="~/store")
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def memory(target: str, as_json: bool) -> None:
    """Print what a running broker and its store occupy.

    TARGET is the broker's process number or the directory of its store.
    """
    if target.isdigit():
        pid = int(target)
        store = store_of(pid)
    else:
        store = Path(target).expanduser().resolve()
        pid = holder_of(store)
    facts = occupied(pid, store)
    if as_json:
        click.echo(json.dumps(asdict(facts), indent=1))
    else:
        click.echo("\n".join(text_lines(facts)))


def text_lines(facts: Occupied) -> Iterator[str]:
    """Yields the facts as lines for people."""
    yield f"process {facts.pid}, {facts.threads} threads, store {facts.store or 'none'}"
    yield from (f"  {name:<10} {size_text(size)}" for name, size in facts.process.items())
    yield _row("memory of the process", "maps", "mapped", "resident", "locked", "swapped")
    for each in (*facts.heap, facts.libraries, *facts.store_files):
        sizes = [each.mapped, each.resident, each.locked, each.swapped]
        yield _row(each.name, str(each.maps), *map(size_text, sizes))
    if facts.large:
        large = ", ".join(size_text(each.mapped) for each in facts.large)
        yield f"  anonymous maps of 64 MiB and more (locked ones are the pool's): {large}"
    if facts.page_cache:
        yield _row("page cache of the store", "files", "length", "resident", "on disk", "")
        for part in facts.page_cache:
            sizes = [int(part[column]) for column in ("length", "resident", "on_disk")]
            yield _row(str(part["part"]), str(part["files"]), *map(size_text, sizes), "")
    yield "machine"
    yield from (f"  {name:<12} {size_text(size)}" for name, size in facts.machine.items())


def _row(name: str, *cells: str) -> str:
    return f"  {name:<42}" + "".join(f"{cell:>12}" for cell in cells)
