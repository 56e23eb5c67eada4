"""Files in memory that know what of them is synced: what power loss leaves is drawn.

    files = Files(limit_bytes=1 << 30)
    log = files.create(files.root, "log")
    log.write(b"hello", 0)
    log.sync()
    files.lose_power(random.Random(7), loses_all=False)

What power loss leaves: a sector (512 bytes) of a page that was written since the last sync of its
file is as it was synced, or as it is; the length of a file likewise; a created, renamed or removed
name is lost or kept, each by itself, until its directory was synced, a rename as a whole, and one
between two directories until both were. The twin of the engine has the same rules, and more images.

Knows no kernel. One thread at a time.
"""

import errno
import random
import stat
import time
from dataclasses import dataclass, field
from typing import Final

from faults.disk.kernel import ROOT, Attributes

PAGE_BYTES: Final = 4_096
SECTOR_BYTES: Final = 512
_BLANK: Final = bytes(PAGE_BYTES)


class DiskError(Exception):
    """What a call of a file ends with; `errno` is its number."""

    def __init__(self, number: int) -> None:
        """Keeps the number."""
        super().__init__(errno.errorcode[number])
        self.errno = number


@dataclass(slots=True)
class Node:
    """What files and directories have in common; `path` is where it was put last."""

    inode: int
    mode: int
    path: str = ""
    links: int = 1
    changed_ns: int = field(default_factory=time.time_ns)

    def touch(self) -> None:
        """Notes that it has changed: never at the same nanosecond as before."""
        self.changed_ns = max(self.changed_ns + 1, time.time_ns())


@dataclass(slots=True)
class Directory(Node):
    """Names; those that power loss surely leaves are in `synced`."""

    names: dict[str, Node] = field(default_factory=dict)
    synced: dict[str, Node] = field(default_factory=dict)


@dataclass(slots=True)
class File(Node):
    """Bytes in pages; a page that is not there is blank.

    Attributes:
        pages: The content.
        length: Bytes.
        allocated: Bytes that have blocks whether they were written or not.
        before: Of each page that was written since the last sync, what it was then.
        synced_length: The length at the last sync.
        handles: How often it is open.
    """

    pages: dict[int, bytearray] = field(default_factory=dict)
    length: int = 0
    allocated: int = 0
    before: dict[int, bytes] = field(default_factory=dict)
    synced_length: int = 0
    handles: int = 0

    @property
    def used_bytes(self) -> int:
        """What it takes of the disk."""
        reserved = -(-self.allocated // PAGE_BYTES)
        return (reserved + sum(number >= reserved for number in self.pages)) * PAGE_BYTES

    def new_bytes(self, position: int, length: int) -> int:
        """Returns what a write would take of the disk beyond what the file has."""
        reserved = -(-self.allocated // PAGE_BYTES)
        numbers = range(position // PAGE_BYTES, -(-(position + length) // PAGE_BYTES))
        new = (number >= reserved and number not in self.pages for number in numbers)
        return sum(new) * PAGE_BYTES

    def read(self, position: int, length: int) -> bytes:
        """Returns what is there; less at the end."""
        end = min(position + length, self.length)
        found = []
        while position < end:
            number, at = divmod(position, PAGE_BYTES)
            count = min(PAGE_BYTES - at, end - position)
            found.append(bytes(self.pages.get(number, _BLANK)[at : at + count]))
            position += count
        return b"".join(found)

    def write(self, content: bytes, position: int) -> None:
        """Writes."""
        done = 0
        while done < len(content):
            number, at = divmod(position + done, PAGE_BYTES)
            count = min(PAGE_BYTES - at, len(content) - done)
            self._open(number)[at : at + count] = content[done : done + count]
            done += count
        self.length = max(self.length, position + len(content))
        self.touch()

    def set_length(self, length: int) -> None:
        """Cuts or extends it."""
        if length < self.length:
            keep, at = divmod(length, PAGE_BYTES)
            if at and keep in self.pages:
                self._open(keep)[at:] = bytes(PAGE_BYTES - at)
            for number in [each for each in self.pages if each >= keep + bool(at)]:
                self.before.setdefault(number, bytes(self.pages[number]))
                del self.pages[number]
            self.allocated = min(self.allocated, length)
        self.length = length
        self.touch()

    def sync(self) -> None:
        """Makes it durable as it is."""
        self.before.clear()
        self.synced_length = self.length

    def lose_power(self, dice: random.Random, *, loses_all: bool) -> None:
        """Becomes what power loss leaves of it."""
        for number, old in self.before.items():
            new = bytes(self.pages.get(number, _BLANK))
            parts = []
            for at in range(0, PAGE_BYTES, SECTOR_BYTES):
                is_old = loses_all or dice.random() < 0.5
                parts.append((old if is_old else new)[at : at + SECTOR_BYTES])
            self.pages[number] = bytearray(b"".join(parts))
        if loses_all or dice.random() < 0.5:
            self.length = self.synced_length
        # What is beyond the end reads as zeros when the file becomes longer again.
        keep, at = divmod(self.length, PAGE_BYTES)
        if at and keep in self.pages:
            self.pages[keep][at:] = bytes(PAGE_BYTES - at)
        self.pages = {at: page for at, page in self.pages.items() if at * PAGE_BYTES < self.length}
        self.allocated = min(self.allocated, self.length)
        self.sync()

    def _open(self, number: int) -> bytearray:
        page = self.pages.get(number)
        self.before.setdefault(number, _BLANK if page is None else bytes(page))
        if page is None:
            page = self.pages[number] = bytearray(PAGE_BYTES)
        return page


@dataclass(frozen=True, slots=True)
class Change:
    """A change of names that power loss may take back.

    Attributes:
        node: What was made, moved or removed.
        source: Directory and name that it leaves.
        target: Directory and name that it gets.
        open_dirs: The directories that were not synced since.
    """

    node: Node
    source: tuple[Directory, str] | None
    target: tuple[Directory, str] | None
    open_dirs: set[int]

    def make_durable(self) -> None:
        """Enters it into what power loss surely leaves."""
        if self.source is not None:
            directory, name = self.source
            if directory.synced.get(name) is self.node:
                del directory.synced[name]
        if self.target is not None:
            directory, name = self.target
            directory.synced[name] = self.node


class Files:
    """A tree of directories and files.

    Attributes:
        root: The directory that has no name.
        limit_bytes: The size of the disk.
    """

    def __init__(self, limit_bytes: int) -> None:
        """Makes an empty one."""
        self.root = Directory(ROOT, stat.S_IFDIR | 0o755, links=2)
        self.limit_bytes = limit_bytes
        self._nodes: dict[int, Node] = {ROOT: self.root}
        self._next = ROOT + 1
        self._changes: list[Change] = []

    def node(self, inode: int) -> Node:
        """Returns a file or directory; ENOENT."""
        try:
            return self._nodes[inode]
        except KeyError:
            raise DiskError(errno.ENOENT) from None

    def file(self, inode: int) -> File:
        """Returns a file; EISDIR."""
        node = self.node(inode)
        if not isinstance(node, File):
            raise DiskError(errno.EISDIR)
        return node

    def directory(self, inode: int) -> Directory:
        """Returns a directory; ENOTDIR."""
        node = self.node(inode)
        if not isinstance(node, Directory):
            raise DiskError(errno.ENOTDIR)
        return node

    def find(self, directory: Directory, name: str) -> Node:
        """Returns what has a name; ENOENT."""
        if name not in directory.names:
            raise DiskError(errno.ENOENT)
        return directory.names[name]

    def create(self, directory: Directory, name: str, mode: int = 0o644) -> File:
        """Makes a file; EEXIST."""
        file = File(self._number(directory, name), stat.S_IFREG | stat.S_IMODE(mode))
        self._enter(directory, name, file)
        return file

    def make_directory(self, directory: Directory, name: str, mode: int = 0o755) -> Directory:
        """Makes a directory; EEXIST."""
        inode = self._number(directory, name)
        made = Directory(inode, stat.S_IFDIR | stat.S_IMODE(mode), links=2)
        self._enter(directory, name, made)
        return made

    def remove(self, directory: Directory, name: str) -> None:
        """Removes a name; ENOENT, ENOTEMPTY."""
        node = self.find(directory, name)
        if isinstance(node, Directory) and node.names:
            raise DiskError(errno.ENOTEMPTY)
        del directory.names[name]
        directory.touch()
        node.links = 0
        self._note(Change(node, (directory, name), None, {directory.inode}))

    def rename(self, source: Directory, old: str, target: Directory, new: str) -> None:
        """Moves a name, over another one where there is one; ENOENT."""
        node = self.find(source, old)
        replaced = target.names.get(new)
        if isinstance(replaced, Directory) and replaced.names:
            raise DiskError(errno.ENOTEMPTY)
        if replaced is not None and replaced is not node:
            replaced.links = 0
        del source.names[old]
        target.names[new] = node
        node.path = f"{target.path}/{new}"
        node.touch()
        source.touch()
        target.touch()
        self._note(Change(node, (source, old), (target, new), {source.inode, target.inode}))

    def sync_directory(self, directory: Directory) -> None:
        """Makes the names of a directory durable."""
        left = []
        for change in self._changes:
            change.open_dirs.discard(directory.inode)
            if change.open_dirs:
                left.append(change)
            else:
                change.make_durable()
        self._changes = left

    def lose_power(self, dice: random.Random, *, loses_all: bool) -> None:
        """Becomes what power loss leaves: of all that was not synced some, or nothing."""
        for change in self._changes:
            if not loses_all and dice.random() < 0.5:
                change.make_durable()
        self._changes = []
        reached: dict[int, Node] = {}
        waiting: list[Node] = [self.root]
        while waiting:
            node = waiting.pop()
            reached[node.inode] = node
            if isinstance(node, Directory):
                node.names = dict(node.synced)
                waiting += node.names.values()
            elif isinstance(node, File):
                node.links, node.handles = 1, 0
                node.lose_power(dice, loses_all=loses_all)
        self._nodes = reached

    @property
    def used_bytes(self) -> int:
        """What all files take that have a name or are open."""
        files = [node for node in self._nodes.values() if isinstance(node, File)]
        return sum(file.used_bytes for file in files if file.links or file.handles)

    def take(self, bytes_: int) -> None:
        """Checks that so much more fits; ENOSPC."""
        if bytes_ and self.used_bytes + bytes_ > self.limit_bytes:
            raise DiskError(errno.ENOSPC)

    def closed(self, file: File) -> None:
        """Forgets a file that nobody can reach any more, but for power loss."""
        if file.links == 0 and file.handles == 0:
            self._nodes.pop(file.inode, None)

    def matching(self, part: str) -> list[File]:
        """Returns the files in whose paths a text is."""
        files = [node for node in self._nodes.values() if isinstance(node, File)]
        return [file for file in files if part in file.path]

    @staticmethod
    def attributes(node: Node) -> Attributes:
        """Returns what stat(2) gives."""
        length, allocated = 0, 0
        if isinstance(node, File):
            length, allocated = node.length, node.used_bytes
        return Attributes(node.inode, length, allocated, node.changed_ns, node.mode, node.links)

    def _number(self, directory: Directory, name: str) -> int:
        if name in directory.names:
            raise DiskError(errno.EEXIST)
        number, self._next = self._next, self._next + 1
        return number

    def _enter(self, directory: Directory, name: str, node: Node) -> None:
        node.path = f"{directory.path}/{name}"
        self._nodes[node.inode] = node
        directory.names[name] = node
        directory.touch()
        self._note(Change(node, None, (directory, name), {directory.inode}))

    def _note(self, change: Change) -> None:
        self._changes.append(change)
