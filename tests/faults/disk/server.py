"""A program that serves files in memory as a disk through FUSE, and harms them when it is asked to.

    unshare --user --map-root-user --mount python -m faults.disk.server DIRECTORY BOOT_ID_FILE

It mounts the disk at DIRECTORY in the mount namespace that it is in, answers the kernel with some
threads, and takes orders as lines of JSON from its input; each is answered by a line. Its end is
the end of the disk. BOOT_ID_FILE takes the part of the kernel's boot id for whoever is in the
namespace: a machine that has lost power gets another one.

| order | what it does |
|---|---|
| `fail` | calls of a kind, of files in whose paths is `part`, end with `errno`, `count` of them |
| `slow` | they take `delay_s` longer |
| `limit` | the disk has `bytes`; without a number, no more than is used |
| `forget` | the kernel forgets the pages of files in whose paths is `part` |
| `flip` | one bit of a file changes, at `position` |
| `heal` | no call fails or is slow, and the disk is large |
| `cut` | power is lost: from now on every call fails |
| `restore` | the disk is mounted anew with what `seed` leaves; with `loses_all` nothing unsynced |
| `counts` | answers how many calls of each kind were failed or slowed |

Knows nothing of brokers. A process of its own: whoever uses a disk must not be who serves it.
"""

import contextlib
import ctypes
import errno
import json
import os
import random
import sys
import threading
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from faults.disk import kernel
from faults.disk.files import Directory, DiskError, File, Files
from faults.disk.kernel import Call, Code, SetAttr

if TYPE_CHECKING:
    from collections.abc import Callable

# Calls that are slow wait in a thread, and the others go on.
_THREADS: Final = 8
LARGE_BYTES: Final = 8 << 30
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_NO_SUID_NO_DEV: Final = 2 | 4
_BIND: Final = 4_096
_DETACH: Final = 2
_EXTEND_NOT: Final = 1  # FALLOC_FL_KEEP_SIZE


@dataclass(slots=True)
class Rule:
    """Harm to some calls.

    Attributes:
        code: The kind of call.
        part: What the path of the file has in it.
        errno: The error; 0 for none.
        delay_s: How long they wait.
        left: How many more calls; negative for all.
    """

    code: Code
    part: str
    errno: int = 0
    delay_s: float = 0.0
    left: int = -1


class Disk:
    """The files, the rules, and the mount."""

    def __init__(self, directory: Path, boot_id: Path) -> None:
        """Prepares it.

        Args:
            directory: Where it is mounted.
            boot_id: The file that takes the part of the kernel's boot id.
        """
        self._directory = directory
        self._boot_id = boot_id
        self._files = Files(LARGE_BYTES)
        self._rules: list[Rule] = []
        self._is_cut = False
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._device = -1
        self._threads: list[threading.Thread] = []
        self._works: dict[int, Callable[[Call], bytes]] = {
            Code.LOOKUP: self._lookup,
            Code.GETATTR: self._getattr,
            Code.SETATTR: self._setattr,
            Code.MKDIR: self._mkdir,
            Code.UNLINK: self._remove,
            Code.RMDIR: self._remove,
            Code.RENAME: self._rename,
            Code.RENAME2: self._rename,
            Code.OPEN: self._open,
            Code.READ: self._read,
            Code.WRITE: self._write,
            Code.STATFS: self._statfs,
            Code.RELEASE: self._release,
            Code.FSYNC: self._fsync,
            Code.FLUSH: lambda _: b"",
            Code.INIT: lambda call: kernel.init_out(call.body),
            Code.OPENDIR: lambda _: kernel.OPEN_OUT,
            Code.READDIR: self._readdir,
            Code.RELEASEDIR: lambda _: b"",
            Code.FSYNCDIR: self._fsyncdir,
            Code.CREATE: self._create,
            Code.DESTROY: lambda _: b"",
            Code.FALLOCATE: self._fallocate,
        }

    def mount(self) -> None:
        """Mounts it under a boot id of its own, and begins to answer."""
        self._boot_id.write_text(f"{uuid.uuid4()}\n", encoding="ascii")
        _mount(str(self._boot_id), _BOOT_ID, None, _BIND)
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._device},rootmode=40000,user_id=0,group_id=0"
        _mount("mqcore", str(self._directory), "fuse", _NO_SUID_NO_DEV, options)
        self._threads = [
            threading.Thread(target=self._serve, args=(self._device,), daemon=True)
            for _ in range(_THREADS)
        ]
        for thread in self._threads:
            thread.start()

    # Orders.

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carries out an order; returns what is answered."""
        what = order.pop("do")
        works: dict[str, Callable[..., dict[str, Any] | None]] = {
            "fail": self._add_rule,
            "slow": self._add_rule,
            "limit": self._limit,
            "forget": self._forget,
            "flip": self._flip,
            "heal": self._heal,
            "cut": self._cut,
            "restore": self._restore,
            "counts": lambda: dict(self._counts),
        }
        return works[what](**order) or {}

    def _add_rule(self, call: str, part: str = "", **harm: Any) -> None:
        with self._lock:
            self._rules.append(Rule(Code[call], part, **harm))

    def _limit(self, bytes: int | None = None) -> None:
        with self._lock:
            self._files.limit_bytes = self._files.used_bytes if bytes is None else bytes

    def _forget(self, part: str = "") -> None:
        with self._lock:
            inodes = [file.inode for file in self._files.matching(part)]
        for inode in inodes:
            # The kernel may know nothing of it.
            with contextlib.suppress(OSError):
                os.write(self._device, kernel.forget_pages(inode))

    def _flip(self, part: str, position: int) -> None:
        with self._lock:
            file = self._files.matching(part)[0]
            [byte] = file.read(position, 1)
            file.write(bytes([byte ^ 4]), position)
            file.sync()
        self._forget(part)

    def _heal(self) -> None:
        with self._lock:
            self._rules = []
            self._files.limit_bytes = LARGE_BYTES

    def _cut(self) -> None:
        with self._lock:
            self._is_cut = True

    def _restore(self, seed: int, *, loses_all: bool) -> None:
        _unmount(str(self._directory))
        for thread in self._threads:
            thread.join()
        os.close(self._device)
        _unmount(_BOOT_ID)
        with self._lock:
            self._files.lose_power(random.Random(seed), loses_all=loses_all)
            self._is_cut = False
        self.mount()

    # Requests of the kernel.

    def _serve(self, device: int) -> None:
        while True:
            try:
                message = os.read(device, kernel.DEVICE_BYTES)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                return
            call = kernel.call_of(message)
            if call.code in kernel.UNANSWERED:
                continue
            answered = self._answer(call)
            # Who asked may have been killed.
            with contextlib.suppress(OSError):
                os.write(device, answered)

    def _answer(self, call: Call) -> bytes:
        try:
            self._suffer(call)
            with self._lock:
                work = self._works.get(call.code, _not_supported)
                if self._is_cut and call.code not in (Code.DESTROY, Code.RELEASE):
                    work = _without_power
                return kernel.answer(call.unique, work(call))
        except DiskError as error:
            return kernel.answer(call.unique, errno=error.errno)

    def _suffer(self, call: Call) -> None:
        """Waits for as long as the rules have it, then fails where they have that."""
        with self._lock:
            rules = self._rules_of(call)
            for rule in rules:
                rule.left -= 1
                self._counts[f"{rule.code.name} {'failed' if rule.errno else 'slow'}"] += 1
        delay_s = sum(rule.delay_s for rule in rules)
        if delay_s:
            threading.Event().wait(delay_s)
        number = next((rule.errno for rule in rules if rule.errno), 0)
        if number:
            raise DiskError(number)

    def _rules_of(self, call: Call) -> list[Rule]:
        rules = [rule for rule in self._rules if rule.code == call.code and rule.left != 0]
        if not rules:
            return []
        path = self._files.node(call.inode).path
        if call.code in (Code.CREATE, Code.MKDIR, Code.UNLINK):
            path += "/"
        return [rule for rule in rules if rule.part in path]

    def _dir(self, call: Call) -> Directory:
        return self._files.directory(call.inode)

    def _file(self, call: Call) -> File:
        return self._files.file(call.inode)

    def _lookup(self, call: Call) -> bytes:
        (name,) = kernel.names_of(call.body)
        return kernel.entry_out(Files.attributes(self._files.find(self._dir(call), name)))

    def _getattr(self, call: Call) -> bytes:
        return kernel.attr_out(Files.attributes(self._files.node(call.inode)))

    def _setattr(self, call: Call) -> bytes:
        wanted, _, _, length, *rest = kernel.SETATTR_IN.unpack_from(call.body)
        node = self._files.node(call.inode)
        if wanted & SetAttr.SIZE:
            self._file(call).set_length(length)
        if wanted & SetAttr.MODE:
            # Behind lock owner, three times and their nanoseconds.
            node.mode = (node.mode & ~0o7777) | (rest[7] & 0o7777)
        return kernel.attr_out(Files.attributes(node))

    def _mkdir(self, call: Call) -> bytes:
        mode, _ = kernel.MKDIR_IN.unpack_from(call.body)
        (name,) = kernel.names_of(call.body[kernel.MKDIR_IN.size :])
        made = self._files.make_directory(self._dir(call), name, mode)
        return kernel.entry_out(Files.attributes(made))

    def _create(self, call: Call) -> bytes:
        _, mode, _, _ = kernel.CREATE_IN.unpack_from(call.body)
        (name,) = kernel.names_of(call.body[kernel.CREATE_IN.size :])
        made = self._files.create(self._dir(call), name, mode)
        made.handles = 1
        return kernel.entry_out(Files.attributes(made)) + kernel.OPEN_OUT

    def _remove(self, call: Call) -> bytes:
        (name,) = kernel.names_of(call.body)
        node = self._files.find(self._dir(call), name)
        self._files.remove(self._dir(call), name)
        if isinstance(node, File):
            self._files.closed(node)
        return b""

    def _rename(self, call: Call) -> bytes:
        head = kernel.RENAME_IN if call.code == Code.RENAME else kernel.RENAME2_IN
        target, *flags = head.unpack_from(call.body)
        if flags and flags[0]:
            raise DiskError(errno.EINVAL)
        old, new = kernel.names_of(call.body[head.size :])
        self._files.rename(self._dir(call), old, self._files.directory(target), new)
        return b""

    def _open(self, call: Call) -> bytes:
        self._file(call).handles += 1
        return kernel.OPEN_OUT

    def _release(self, call: Call) -> bytes:
        file = self._file(call)
        file.handles -= 1
        self._files.closed(file)
        return b""

    def _read(self, call: Call) -> bytes:
        _, position, length, *_ = kernel.TRANSFER_IN.unpack_from(call.body)
        return self._file(call).read(position, length)

    def _write(self, call: Call) -> bytes:
        _, position, length, *_ = kernel.TRANSFER_IN.unpack_from(call.body)
        content = call.body[kernel.TRANSFER_IN.size :][:length]
        file = self._file(call)
        self._files.take(file.new_bytes(position, length))
        file.write(content, position)
        return kernel.WRITE_OUT.pack(length, 0)

    def _fallocate(self, call: Call) -> bytes:
        _, position, length, mode, _ = kernel.FALLOCATE_IN.unpack_from(call.body)
        if mode & ~_EXTEND_NOT:
            raise DiskError(errno.EOPNOTSUPP)
        file = self._file(call)
        end = position + length
        self._files.take(file.new_bytes(position, length))
        file.allocated = max(file.allocated, end)
        if not mode & _EXTEND_NOT and end > file.length:
            file.set_length(end)
        return b""

    def _fsync(self, call: Call) -> bytes:
        self._file(call).sync()
        return b""

    def _fsyncdir(self, call: Call) -> bytes:
        self._files.sync_directory(self._dir(call))
        return b""

    def _readdir(self, call: Call) -> bytes:
        _, begin, most, *_ = kernel.TRANSFER_IN.unpack_from(call.body)
        names = self._dir(call).names.items()
        entries = [(name, node.inode, isinstance(node, Directory)) for name, node in names]
        return kernel.listing(entries, begin, most)

    def _statfs(self, _: Call) -> bytes:
        used, limit = self._files.used_bytes, self._files.limit_bytes
        return kernel.statfs_out(max(limit, used), max(0, limit - used))


def _not_supported(_: Call) -> bytes:
    raise DiskError(errno.ENOSYS)


def _without_power(_: Call) -> bytes:
    raise DiskError(errno.EIO)


_LIBC = ctypes.CDLL(None, use_errno=True)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    words = [source.encode(), target.encode(), None if kind is None else kind.encode()]
    if _LIBC.mount(*words, ctypes.c_ulong(flags), options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _unmount(target: str) -> None:
    if _LIBC.umount2(target.encode(), _DETACH) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def main() -> None:
    """Serves until its input ends."""
    directory, boot_id = map(Path, sys.argv[1:])
    disk = Disk(directory, boot_id)
    try:
        disk.mount()
    except OSError as error:
        print(json.dumps({"refused": str(error)}), flush=True)
        return
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        print(json.dumps(disk.obey(json.loads(line))), flush=True)
    # Threads that wait for the kernel end with the process.
    os._exit(0)


if __name__ == "__main__":
    main()
