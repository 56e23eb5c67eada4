"""Adds up the memory that settings ask for, and refuses what passes the budget, with the sums.

Counts what would be taken whatever the load: the pool, keys of sends that are remembered, and
pages of the log that are populated ahead, warmed or locked. The page cache beyond that is the
system's to give and to take back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from mqcore.config.effective import Configuration
from mqcore.errors import ConfigurationError

# An idle broker stays below 100 MiB; buffers of connections have bounds of their own on top.
PROCESS_BYTES = 100 << 20
# The file that is written and the one made ahead of need.
_FILES_WARM = 2
# Of the machine's memory the rest is for the page cache, which serves every reader.
_BUDGET_QUARTERS = 3
_MEMINFO = Path("proc/meminfo")
_GROUP_LIMIT = Path("sys/fs/cgroup/memory.max")


@dataclass(frozen=True, slots=True)
class Share:
    """One part of the memory.

    Attributes:
        name: What takes it, with the keys that decide.
        size_bytes: How much.
    """

    name: str
    size_bytes: int


def shares(configuration: Configuration) -> list[Share]:
    """Returns what a broker takes, part by part."""

    def number(key: str) -> int:
        return cast("int", configuration.value(key))

    file_bytes = number("mappedFileSizeCommitLog")
    found = [Share("the process itself", PROCESS_BYTES)]
    window = min(number("populateWindowBytes") + number("hotWindowBytes"), _FILES_WARM * file_bytes)
    pages = Share("populateWindowBytes + hotWindowBytes", window)
    if configuration.value("warmMapedFileEnable"):
        warm = Share(f"warmMapedFileEnable: {_FILES_WARM} log files", _FILES_WARM * file_bytes)
        pages = max(pages, warm, key=lambda share: share.size_bytes)
    if configuration.value("lockMappedFile"):
        locked = min(number("lockedBytesMax"), _FILES_WARM * file_bytes)
        lock = Share("lockMappedFile: locked log files", locked)
        # Locked pages are the warm ones.
        pages = max(pages, lock, key=lambda share: share.size_bytes)
    found.append(pages)
    if configuration.value("transientStorePoolEnable"):
        buffers = number("transientStorePoolSize")
        found.append(Share(f"transientStorePoolSize: {buffers} buffers", buffers * file_bytes))
    if number("deduplicationWindowMinutes"):
        found.append(Share("deduplicationMemoryMB", number("deduplicationMemoryMB") << 20))
    return found


def budget_bytes(configuration: Configuration, available_bytes: int) -> int:
    """Returns the budget: the setting, or its share of what the process may have."""
    budget = cast("int", configuration.value("memoryBudget"))
    return budget or available_bytes * _BUDGET_QUARTERS // 4


def check_budget(configuration: Configuration, available_bytes: int) -> None:
    """Refuses settings that ask for more memory than the budget.

    Args:
        configuration: A broker's.
        available_bytes: What the process may have, see `available_memory_bytes`.

    Raises:
        ConfigurationError: They do; names every part and the sums.
    """
    parts = shares(configuration)
    budget = budget_bytes(configuration, available_bytes)
    total = sum(part.size_bytes for part in parts)
    if total <= budget:
        return
    is_given = bool(configuration.value("memoryBudget"))
    limit = "memoryBudget" if is_given else "the budget, three quarters of the memory here,"
    sums = _listed(parts)
    fault = (
        f"{_mib(total)} of memory asked for and {limit} is {_mib(budget)}: {sums}; lower a part, "
        "take smaller log files or raise memoryBudget"
    )
    raise ConfigurationError(fault, faults=(fault,))


def available_memory_bytes(root: Path = Path("/")) -> int:
    """Returns the memory that this process may have: the machine's, or its control group's.

    Args:
        root: Where `proc` and `sys` are.
    """
    machine = 0
    for line in (root / _MEMINFO).read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            machine = int(rest.split()[0]) << 10
    try:
        limit = (root / _GROUP_LIMIT).read_text(encoding="ascii").strip()
    except OSError:
        return machine
    return min(machine, int(limit)) if limit.isdigit() else machine


def _listed(parts: Sequence[Share]) -> str:
    return ", ".join(f"{part.name} {_mib(part.size_bytes)}" for part in parts)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):.0f} MiB"
