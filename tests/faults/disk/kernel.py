"""The messages of Linux's FUSE as data: headers, requests, answers (include/uapi/linux/fuse.h).

Pure functions of bytes. Knows no file and no device.
"""

import enum
import stat
import struct
from typing import Final, NamedTuple

MAJOR, MINOR = 7, 31
# Bytes of one write at the most, and the pages of it.
MAX_WRITE_BYTES: Final = 1 << 20
MAX_PAGES: Final = 256
# What one reading of the device may give: a write with its headers.
DEVICE_BYTES: Final = MAX_WRITE_BYTES + 4_096
ROOT: Final = 1
# Reads go on side by side; writes are larger than a page; requests of many pages.
_INIT_FLAGS: Final = 1 << 0 | 1 << 5 | 1 << 22
# The kernel keeps pages of a file from one opening to the next one.
_KEEP_CACHE: Final = 2
# Nobody but the kernel changes a file: what it knows of one stays true.
_VALID_S: Final = 3_600
BLOCK_BYTES: Final = 4_096
_SECTOR_BYTES: Final = 512
_NAME_BYTES_MAX: Final = 255
# As a notification it is in the field of the error.
_FORGET_PAGES: Final = 2

IN_HEADER: Final = struct.Struct("<IIQQIIIHH")
_OUT_HEADER: Final = struct.Struct("<IiQ")
_INIT_OUT: Final = struct.Struct("<IIIIHHIIHHII24x")
_ATTR: Final = struct.Struct("<6Q10I")
_ENTRY: Final = struct.Struct("<4Q2I")
_ATTR_HEAD: Final = struct.Struct("<QII")
_STATFS: Final = struct.Struct("<5Q4I24x")
_DIRENT: Final = struct.Struct("<QQII")
_DIRENT_ALIGN: Final = 8

OPEN_OUT: Final = struct.pack("<QIi", 0, _KEEP_CACHE, 0)
SETATTR_IN: Final = struct.Struct("<II6Q8I")
CREATE_IN: Final = struct.Struct("<4I")
MKDIR_IN: Final = struct.Struct("<II")
RENAME_IN: Final = struct.Struct("<Q")
RENAME2_IN: Final = struct.Struct("<QII")
# Of a read and of a write: handle, position, length, and what does not concern a file in memory.
TRANSFER_IN: Final = struct.Struct("<QQIIQII")
FALLOCATE_IN: Final = struct.Struct("<QQQII")
WRITE_OUT: Final = struct.Struct("<II")


class Code(enum.IntEnum):
    """What the kernel asks for; what is not here is answered as not supported."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42
    FALLOCATE = 43
    RENAME2 = 45


# Nothing is answered to these.
UNANSWERED: Final = frozenset({Code.FORGET, Code.BATCH_FORGET, Code.INTERRUPT})


class SetAttr(enum.IntFlag):
    """Which fields of SETATTR count."""

    MODE = 1
    SIZE = 8


class Call(NamedTuple):
    """A request of the kernel."""

    code: int
    unique: int
    inode: int
    body: bytes


def call_of(message: bytes) -> Call:
    """Returns the request that was read from the device."""
    _, code, unique, inode, *_ = IN_HEADER.unpack_from(message)
    return Call(code, unique, inode, message[IN_HEADER.size :])


def answer(unique: int, body: bytes = b"", errno: int = 0) -> bytes:
    """Returns the answer to a request."""
    return _OUT_HEADER.pack(_OUT_HEADER.size + len(body), -errno, unique) + body


def forget_pages(inode: int) -> bytes:
    """Returns what lets the kernel forget the pages of a file, those that are mapped too."""
    body = struct.pack("<Qqq", inode, 0, 0)
    return _OUT_HEADER.pack(_OUT_HEADER.size + len(body), _FORGET_PAGES, 0) + body


def init_out(body: bytes) -> bytes:
    """Returns the answer to INIT: what the kernel may do."""
    (readahead,) = struct.unpack_from("<I", body, 8)
    pages, waiting = MAX_PAGES, 64
    numbers = (readahead, _INIT_FLAGS, waiting, waiting, MAX_WRITE_BYTES, 1, pages, 0, 0, 0)
    return _INIT_OUT.pack(MAJOR, MINOR, *numbers)


class Attributes(NamedTuple):
    """What stat(2) gives of a file."""

    inode: int
    length: int
    allocated: int
    changed_ns: int
    mode: int
    links: int

    def packed(self) -> bytes:
        """Returns it as the kernel reads it."""
        at_s, at_ns = divmod(self.changed_ns, 1_000_000_000)
        blocks = -(-self.allocated // _SECTOR_BYTES)
        times = (at_s, at_s, at_s, at_ns, at_ns, at_ns)
        head = (self.inode, self.length, blocks, *times)
        return _ATTR.pack(*head, self.mode, self.links, 0, 0, 0, BLOCK_BYTES, 0)


def entry_out(attributes: Attributes) -> bytes:
    """Returns what a name is."""
    head = _ENTRY.pack(attributes.inode, 0, _VALID_S, _VALID_S, 0, 0)
    return head + attributes.packed()


def attr_out(attributes: Attributes) -> bytes:
    """Returns what a file is."""
    return _ATTR_HEAD.pack(_VALID_S, 0, 0) + attributes.packed()


def statfs_out(total_bytes: int, free_bytes: int) -> bytes:
    """Returns how full the disk is."""
    total, free = total_bytes // BLOCK_BYTES, free_bytes // BLOCK_BYTES
    inodes = 1 << 20
    sizes = (BLOCK_BYTES, _NAME_BYTES_MAX, BLOCK_BYTES, 0)
    return _STATFS.pack(total, free, free, inodes, inodes, *sizes)


def listing(entries: list[tuple[str, int, bool]], begin: int, most_bytes: int) -> bytes:
    """Returns the entries of a directory from one on, as many as fit.

    Args:
        entries: Name, inode, and whether it is a directory.
        begin: How many were given already.
        most_bytes: Length of the answer at the most.
    """
    found = b""
    for at, (name, inode, is_dir) in enumerate(entries[begin:], begin + 1):
        raw = name.encode()
        kind = (stat.S_IFDIR if is_dir else stat.S_IFREG) >> 12
        row = _DIRENT.pack(inode, at, len(raw), kind) + raw
        row += bytes(-len(row) % _DIRENT_ALIGN)
        if len(found) + len(row) > most_bytes:
            break
        found += row
    return found


def names_of(body: bytes) -> list[str]:
    """Returns the names in a request, each of which ends with a zero."""
    return [name.decode() for name in body.split(b"\0")[:-1]]
