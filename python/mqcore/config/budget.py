"""Adds up the memory that settings ask for, refuses what passes the budget, and divides the rest.

Counts what would be taken whatever the load: the pool, keys of sends that are remembered, and
pages of the log that are populated ahead, warmed or locked. The page cache beyond that is the
system's to give and to take back. What connections may hold depends on the budget alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from mqcore.config.allowed import available_memory_bytes
from mqcore.config.effective import DEFAULT, Configuration
from mqcore.config.keys import Program
from mqcore.errors import ConfigurationError

_MIB = 1 << 20
# An idle broker stays below 100 MiB; what connections hold comes on top.
PROCESS_BYTES = 100 * _MIB
# A name server without topics.
_NAMESRV_BYTES = 60 * _MIB
# The file that is written and the one made ahead of need.
_FILES_WARM = 2
# Of the machine's memory the rest is for the page cache, which serves every reader.
_BUDGET_QUARTERS = 3
# What connections may hold for one purpose is this part of the budget, between bounds: more than
# sixteen of the largest frames buys nothing, less than one lets nobody through.
_CONNECTION_PART = 8
_PART_MAX_BYTES = 256 * _MIB
_FRAME_BYTES = 17 * _MIB
# Two of the largest frames: a connection that is new may begin with one.
_FIRST_FRAMES_MIN_BYTES = 32 * _MIB
# Answers that wait: twice what pulls may keep of the log.
_OUTPUT_MAX_BYTES = 512 * _MIB
# Sends that wait 200 ms for a log file, or for a topic to be made.
_SENDS_MAX_BYTES = 64 * _MIB
# Where memory is short the windows over the log shrink with it, down to where they still help.
_WINDOW_KEYS = ("populateWindowBytes", "hotWindowBytes")
_WINDOW_PART = 16
_WINDOW_MIN_BYTES = 4 * _MIB


@dataclass(frozen=True, slots=True)
class Share:
    """One part of the memory.

    Attributes:
        name: What takes it, with the keys that decide.
        size_bytes: How much.
    """

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """What the process may use, and how it is divided.

    Attributes:
        allowed_bytes: What the process may use.
        budget_bytes: What may be planned with; the rest is for the page cache.
        taken: What is taken whatever the load.
        first_frames_bytes: Unfinished frames of connections that have sent no whole one yet.
        later_frames_bytes: The same of all other connections.
        requests_bytes: Requests that wait to run.
        output_bytes: Answers that wait to be read.
        sends_bytes: Sends that wait for a log file; the same for those that wait for a topic.
    """

    allowed_bytes: int
    budget_bytes: int
    taken: tuple[Share, ...]
    first_frames_bytes: int
    later_frames_bytes: int
    requests_bytes: int
    output_bytes: int
    sends_bytes: int

    def __str__(self) -> str:
        """Returns it as a line for people."""
        held = (
            Share("unfinished first frames", self.first_frames_bytes),
            Share("other unfinished frames", self.later_frames_bytes),
            Share("waiting requests", self.requests_bytes),
            Share("waiting answers", self.output_bytes),
            Share("waiting sends", self.sends_bytes),
        )
        return (
            f"memory allowed {_mib(self.allowed_bytes)}, budget {_mib(self.budget_bytes)}: "
            f"{_listed(self.taken)}; connections at the most: {_listed(held)}"
        )


def memory_plan(configuration: Configuration, available_bytes: int | None = None) -> MemoryPlan:
    """Returns how a program's memory is divided.

    Args:
        configuration: Its settings.
        available_bytes: What it may use, None for what the settings or the system allow.
    """
    allowed = allowed_bytes(configuration) if available_bytes is None else available_bytes
    is_broker = configuration.program is Program.BROKER
    budget = budget_bytes(configuration, allowed)
    part = budget // _CONNECTION_PART
    return MemoryPlan(
        allowed_bytes=allowed,
        budget_bytes=budget,
        taken=tuple(shares(configuration)) if is_broker else (_NAMESRV_SHARE,),
        first_frames_bytes=min(max(part, _FIRST_FRAMES_MIN_BYTES), _PART_MAX_BYTES),
        later_frames_bytes=min(max(part, _FRAME_BYTES), _PART_MAX_BYTES),
        requests_bytes=min(max(part, _FRAME_BYTES), _PART_MAX_BYTES),
        output_bytes=min(max(part, _FRAME_BYTES), _OUTPUT_MAX_BYTES),
        sends_bytes=min(max(part // 2, _FRAME_BYTES), _SENDS_MAX_BYTES),
    )


def allowed_bytes(configuration: Configuration) -> int:
    """Returns the memory that the process may use: the setting, or the least of all limits."""
    return cast("int", configuration.value("memoryAllowed")) or available_memory_bytes()


def derived_windows(configuration: Configuration, available_bytes: int) -> Mapping[str, str]:
    """Returns the windows over the log where the budget is too small for the usual ones.

    Only those that nobody has set.
    """
    window = budget_bytes(configuration, available_bytes) // _WINDOW_PART
    window = max(window - window % _MIB, _WINDOW_MIN_BYTES)
    return {
        key: str(window)
        for key in _WINDOW_KEYS
        if configuration.settings[key].source == DEFAULT
        and window < cast("int", configuration.value(key))
    }


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
    is_broker = configuration.program is Program.BROKER
    budget = cast("int", configuration.value("memoryBudget")) if is_broker else 0
    return budget or available_bytes * _BUDGET_QUARTERS // 4


def check_budget(configuration: Configuration, available_bytes: int) -> list[str]:
    """Refuses settings that ask for more memory than the budget; returns warnings.

    Args:
        configuration: A broker's.
        available_bytes: What the process may use, see `allowed_bytes`.

    Raises:
        ConfigurationError: They do; names every part and the sums.
    """
    parts = shares(configuration)
    budget = budget_bytes(configuration, available_bytes)
    total = sum(part.size_bytes for part in parts)
    if total <= budget:
        return []
    is_given = bool(configuration.value("memoryBudget"))
    if not is_given and total <= PROCESS_BYTES + len(_WINDOW_KEYS) * _WINDOW_MIN_BYTES:
        # Nothing that somebody asked for: the process itself is more than what is planned with.
        return [
            f"{_mib(available_bytes)} of memory are allowed, and an idle broker may take "
            f"{_mib(total)}: little is left for connections and the page cache"
        ]
    limit = "memoryBudget" if is_given else "the budget, three quarters of the memory here,"
    sums = _listed(parts)
    fault = (
        f"{_mib(total)} of memory asked for and {limit} is {_mib(budget)}: {sums}; lower a part, "
        "take smaller log files or raise memoryBudget"
    )
    raise ConfigurationError(fault, faults=(fault,))


def _listed(parts: Sequence[Share]) -> str:
    return ", ".join(f"{part.name} {_mib(part.size_bytes)}" for part in parts)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:.0f} MiB"


_NAMESRV_SHARE = Share("the process itself", _NAMESRV_BYTES)
