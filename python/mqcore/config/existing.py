"""Looks which sizes the files of a store have: they win over any setting.

Opens no file and changes nothing. A broker that took another size would not find its records.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

# What an embedded broker takes: small, for it often lives in a test or on a laptop.
EMBEDDED: Mapping[str, str] = MappingProxyType(
    {
        "mappedFileSizeCommitLog": str(256 << 20),
        "maxHashSlotNum": "500000",
        "maxIndexNum": "2000000",
    }
)
# An index file does not hold its capacity: its length shows which of these it is.
_INDEX_CAPACITIES = ((5_000_000, 20_000_000), (500_000, 2_000_000))
_INDEX_HEADER_BYTES = 40
# The folders of queues, and what the length of their files is set by.
_QUEUES = (
    ("consumequeue", "mappedFileSizeConsumeQueue"),
    ("batchconsumequeue", "mapperFileSizeBatchConsumeQueue"),
    ("consumequeue_ext", "mappedFileSizeConsumeQueueExt"),
)
_SLOT_BYTES = 4
_ENTRY_BYTES = 20
# Names of files of the log and of queues are their first offset, 20 digits.
_NAME_DIGITS = 20


def existing_sizes(root: Path, log_dir: Path | None = None) -> dict[str, str]:
    """Returns the sizes of files as settings, of what is there.

    Args:
        root: Directory of the store.
        log_dir: Directory of the log where it is not below the root.
    """
    found = {}
    log = _first_size(_files(log_dir or root / "commitlog"))
    if log:
        found["mappedFileSizeCommitLog"] = str(log)
    for folder, key in _QUEUES:
        queue = _first_size(
            file
            for topic in _entries(root / folder)
            for number in _entries(topic)
            for file in _files(number)
        )
        if queue:
            found[key] = str(queue)
    timer_log = _first_size(_files(root / "timerlog"))
    if timer_log:
        found["mappedFileSizeTimerLog"] = str(timer_log)
    index = next((entry.stat().st_size for entry in _scan(root / "index")), 0)
    for slots, entries in _INDEX_CAPACITIES:
        if index == _INDEX_HEADER_BYTES + slots * _SLOT_BYTES + entries * _ENTRY_BYTES:
            found |= {"maxHashSlotNum": str(slots), "maxIndexNum": str(entries)}
    return found


def _first_size(files: Iterator[os.DirEntry[str]]) -> int:
    """Returns the length of the first file that has one; 0 without any."""
    for file in files:
        size = file.stat().st_size
        if size:
            return size
    return 0


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    for entry in _scan(folder):
        if len(entry.name) == _NAME_DIGITS and entry.name.isdigit() and entry.is_file():
            yield entry


def _entries(folder: Path) -> Iterator[Path]:
    for entry in _scan(folder):
        if entry.is_dir():
            yield Path(entry.path)


def _scan(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except (FileNotFoundError, NotADirectoryError):
        return
