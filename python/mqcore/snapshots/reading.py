"""Files of a store as a snapshot reads them: whole ones past the page cache, growing ones at once.

Knows no record, and nothing of snapshots.
"""

import errno
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["PIECE_BYTES", "content_end", "data_end", "direct_pieces", "read_growing", "steps"]

# One read: large enough that the disk is busy, small enough to stay in a processor's cache.
PIECE_BYTES: Final = 1 << 20
# What is hashed or written before others may have the processor: some 50 us of work. Linux lets a
# thread go on for some milliseconds, whoever else wants to.
_STEP_BYTES: Final = 64 << 10
# Of files that change while they are read all bytes are taken at once: those of the timers are the
# longest, 100 MB.
GROWING_BYTES_MAX: Final = 256 << 20


def data_end(descriptor: int, len_bytes: int) -> int:
    """Returns where the last data of a sparse file ends; holes behind read as zeros."""
    end = at = 0
    while at < len_bytes:
        try:
            at = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break
            raise
        end = at = os.lseek(descriptor, at, os.SEEK_HOLE)
    return min(end, len_bytes)


def content_end(path: Path) -> int:
    """Returns where the last byte of a file ends that is not zero."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = data_end(descriptor, os.fstat(descriptor).st_size)
        while end > 0:
            begin = max(0, end - PIECE_BYTES)
            content = os.pread(descriptor, end - begin, begin).rstrip(b"\0")
            if content:
                return begin + len(content)
            end = begin
        return 0
    finally:
        os.close(descriptor)


def read_growing(path: Path) -> tuple[os.stat_result, bytes]:
    """Returns what a file that may change holds up to its last data, and how it was before.

    Raises:
        OSError: It cannot be read, or is longer than such a file can be.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        before = os.fstat(descriptor)
        end = data_end(descriptor, before.st_size)
        if end > GROWING_BYTES_MAX:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        content = bytearray()
        while len(content) < end:
            piece = os.pread(descriptor, min(PIECE_BYTES, end - len(content)), len(content))
            if not piece:
                break
            content += piece
        return before, bytes(content).rstrip(b"\0")
    finally:
        os.close(descriptor)


def direct_pieces(path: Path, end: int) -> Iterator[memoryview]:
    """Yields the first `end` bytes of a file that does not change, past the page cache.

    What a broker's consumers read stays in memory. Where the file system reads in no such way it is
    read as usual. A piece is good until the next is asked for; a file that is shorter ends early.
    """
    # Memory of a map of its own begins at a page, which direct reads ask for.
    with mmap.mmap(-1, PIECE_BYTES) as buffer, memoryview(buffer) as view:
        descriptor = _opened(path, view)
        try:
            at = 0
            while at < end and (got := os.preadv(descriptor, [view], at)):
                with view[: min(got, end - at)] as piece:
                    yield piece
                at += got
        finally:
            os.close(descriptor)


def steps(piece: bytes | memoryview) -> Iterator[memoryview]:
    """Yields a piece in steps; before each but the first others may have the processor."""
    with memoryview(piece) as view:
        for at in range(0, len(view), _STEP_BYTES):
            if at:
                os.sched_yield()
            with view[at : at + _STEP_BYTES] as step:
                yield step


def _opened(path: Path, into: memoryview) -> int:
    """Returns a descriptor that reads past the page cache, where that is possible."""
    descriptor = -1
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
        os.preadv(descriptor, [into], 0)
    except OSError as error:
        if descriptor >= 0:
            os.close(descriptor)
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return descriptor
