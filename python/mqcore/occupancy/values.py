"""What is occupied, as values that go over the wire as JSON and come back. Bytes everywhere.

Lenient as all results are: a member that is missing is 0, or empty.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self, TypeVar

__all__ = ["FilePart", "Held", "Mapped", "Occupied"]

_Row = TypeVar("_Row", bound="Mapped | FilePart | Held")


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

    name: str = ""
    maps: int = 0
    mapped: int = 0
    resident: int = 0
    locked: int = 0
    swapped: int = 0


@dataclass(frozen=True, slots=True)
class FilePart:
    """One log file, or one other part of a store with all its files. Bytes.

    Attributes:
        part: Its path below the store, or its first folder.
        files: How many files.
        length: Their length.
        on_disk: What they take on the device.
        resident: What of them is in memory, in the page cache.
        strip: Of a log file: per cent in memory of each part of it, from its start on.
    """

    part: str = ""
    files: int = 0
    length: int = 0
    on_disk: int = 0
    resident: int = 0
    strip: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """Memory of a broker by what holds it: counted, or computed from a count. Bytes.

    Attributes:
        owner: What holds it.
        count: How many there are of it; None where nothing is counted.
        bytes: What they hold.
        is_measured: Whether the bytes are counted; else they are a count times the usual size.
        part_of: The owner whose bytes have these in them; empty for none.
    """

    owner: str = ""
    count: int | None = None
    bytes: int = 0
    is_measured: bool = False
    part_of: str = ""


@dataclass(frozen=True, slots=True)
class Occupied:
    """What a process and its store occupy. Bytes.

    Attributes:
        pid: The process.
        store: Directory of its store, None when it has none.
        threads: Number of threads.
        descriptors: Number of open descriptors.
        process: VmRSS and its like.
        rollup: All maps together (`smaps_rollup`): Pss, Private_Dirty and their like.
        faults: Page faults so far: `minor`, and `major`, which waited for a disk.
        limit: Of its control group: `max` (0 for none), `current`, and events such as `oom_kill`.
        heap: Heap and other memory without a file.
        large: Anonymous maps of at least 64 MiB one by one: buffers of the pool.
        store_files: Files of the store that the process has mapped.
        libraries: All other files.
        page_cache: Log files and other parts of the store.
        machine: The machine's Cached, Dirty, Writeback and its like.
        held: What holds the memory; empty where the broker was not asked.
    """

    pid: int = 0
    store: str | None = None
    threads: int = 0
    descriptors: int = 0
    process: dict[str, int] = field(default_factory=dict)
    rollup: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    limit: dict[str, int] = field(default_factory=dict)
    heap: list[Mapped] = field(default_factory=list)
    large: list[Mapped] = field(default_factory=list)
    store_files: list[Mapped] = field(default_factory=list)
    libraries: Mapped = field(default_factory=Mapped)
    page_cache: list[FilePart] = field(default_factory=list)
    machine: dict[str, int] = field(default_factory=dict)
    held: list[Held] = field(default_factory=list)

    @property
    def accounted_bytes(self) -> int:
        """What is held by owners that are known."""
        return sum(each.bytes for each in self.held if not each.part_of)

    @property
    def rest_bytes(self) -> int:
        """Anonymous memory of the process that no known owner holds."""
        return max(0, self.process.get("RssAnon", 0) - self.accounted_bytes)

    def to_json(self) -> dict[str, Any]:
        """Returns it as an object."""
        return asdict(self)

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns it from an object; what is missing or of another type is 0, or empty."""
        found = value if isinstance(value, dict) else {}
        store = found.get("store")
        return cls(
            pid=_whole(found.get("pid")),
            store=store if isinstance(store, str) else None,
            threads=_whole(found.get("threads")),
            descriptors=_whole(found.get("descriptors")),
            process=_numbers(found.get("process")),
            rollup=_numbers(found.get("rollup")),
            faults=_numbers(found.get("faults")),
            limit=_numbers(found.get("limit")),
            heap=list(_rows(Mapped, found.get("heap"))),
            large=list(_rows(Mapped, found.get("large"))),
            store_files=list(_rows(Mapped, found.get("store_files"))),
            libraries=next(iter(_rows(Mapped, [found.get("libraries")])), Mapped()),
            page_cache=list(_rows(FilePart, found.get("page_cache"))),
            machine=_numbers(found.get("machine")),
            held=list(_rows(Held, found.get("held"))),
        )


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _numbers(value: Any) -> dict[str, int]:
    pairs = value.items() if isinstance(value, Mapping) else ()
    return {str(name): number for name, number in pairs if isinstance(number, int)}


def _rows(kind: type[_Row], value: Any) -> Iterable[_Row]:
    """Yields rows of a kind: what is of another type than the default of its field is left out."""
    for each in value if isinstance(value, list) else ():
        if not isinstance(each, dict):
            continue
        given: dict[str, Any] = {}
        for one in fields(kind):
            item = each.get(one.name)
            if isinstance(item, list):
                item = tuple(_whole(number) for number in item)
            is_right = type(item) is type(one.default) or (
                one.default is None and type(item) is int
            )
            if is_right:
                given[one.name] = item
        yield kind(**given)
