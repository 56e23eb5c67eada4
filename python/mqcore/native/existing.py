"""Looks which sizes the files of a store have: they win over any setting.

Changes nothing, and reads of the index alone. Who took another size would not find its records.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from mqcore.native._native import index_capacity

# What an index file holds by default: hash slots and entries.
_INDEX_CAPACITY = (5_000_000, 20_000_000)
# The folders of queues, and what the length of their files is set by.
_QUEUES = (
    ("consumequeue", "mappedFileSizeConsumeQueue"),
    ("batchconsumequeue", "mapperFileSizeBatchConsumeQueue"),
    ("consumequeue_ext", "mappedFileSizeConsumeQueueExt"),
)
# Names of files of the log and of queues are their first offset, 20 digits.
_NAME_DIGITS = 20


def existing_sizes(
    root: Path,
    log_dir: Path | None = None,
    *,
    index_capacity: tuple[int, int] = _INDEX_CAPACITY,
) -> dict[str, str]:
    """Returns the sizes of files as settings, of what is there.

    Args:
        root: Directory of the store.
        log_dir: Directory of the log where it is not below the root.
        index_capacity: Hash slots and entries by the settings: taken where files of the index may
            have them.

    Raises:
        StoreError: A file of the index cannot be read.
    """
    found = {}
    log = _first_size(_log_files(root, log_dir))
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
    return found | _index_sizes(root / "index", *index_capacity)


def is_new_store(root: Path, log_dir: Path | None = None) -> bool:
    """Whether nothing was stored yet: there is neither a log nor a checkpoint.

    Args:
        root: Directory of the store.
        log_dir: Directory of the log where it is not below the root.
    """
    return next(_log_files(root, log_dir), None) is None and not (root / "checkpoint").exists()


def _log_files(root: Path, log_dir: Path | None) -> Iterator[os.DirEntry[str]]:
    return _files(log_dir or root / "commitlog")


def _index_sizes(folder: Path, slots: int, entries: int) -> dict[str, str]:
    """Returns the sizes of index files, which hold them nowhere."""
    if next(_scan(folder), None) is None:
        return {}
    found = index_capacity(str(folder), slots, entries)
    if found is None:
        return {}
    return {"maxHashSlotNum": str(found.slots), "maxIndexNum": str(found.entries)}


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
