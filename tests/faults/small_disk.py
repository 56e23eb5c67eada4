"""A disk that can be filled: a tmpfs in a mount namespace of its own; that needs no privilege.

    with small_disk(directory, megabytes=64) as disk:     # None where the kernel forbids it
        Program(disk.within(OURS), ...)                # sees the disk at `directory`
        disk.fill(); disk.empty()
        disk.seen / "commitlog"                        # how this process sees it

Knows programs by their command lines alone.
"""

import contextlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from faults.prefixed import within_namespaces
from interop.servers import Software

_BALLAST = "ballast"
_PIECE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A disk of some megabytes.

    Attributes:
        holder: The process that keeps it.
        seen: Where this process sees it.
    """

    holder: int
    seen: Path

    def within(self, software: Software) -> Software:
        """Returns the programs of a software, which see the disk."""
        return within_namespaces(software, self.holder)

    def fill(self) -> None:
        """Takes every byte that is left."""
        with (self.seen / _BALLAST).open("ab", buffering=0) as file:
            with contextlib.suppress(OSError):
                while file.write(bytes(_PIECE_BYTES)):
                    pass
            with contextlib.suppress(OSError):
                while file.write(b"x"):
                    pass

    def empty(self) -> None:
        """Gives back what was taken."""
        (self.seen / _BALLAST).unlink(missing_ok=True)


@contextmanager
def small_disk(directory: Path, megabytes: int) -> Iterator[SmallDisk | None]:
    """Mounts it; None where user namespaces are switched off.

    Args:
        directory: Where it is, for programs within; it is made.
        megabytes: How large.
    """
    directory.mkdir(parents=True, exist_ok=True)
    mount = f'mount -t tmpfs -o size={megabytes}m none "$0" && echo ready && exec cat'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount]
    try:
        process = subprocess.Popen(
            [*command, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        yield None
        return
    with process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            if process.stdout.readline() == b"ready\n":
                seen = Path(f"/proc/{process.pid}/root") / directory.relative_to("/")
                yield SmallDisk(process.pid, seen)
            else:
                yield None
        finally:
            process.stdin.close()
            process.wait()
