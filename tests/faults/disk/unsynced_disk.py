"""A disk that forgets what was not synced, fails, is slow or full when it is asked to.

    with unsynced_disk(directory) as disk:             # None where the kernel forbids it
        Program(disk.within(OURS), ...)                # sees the disk at `directory`
        disk.fail("FSYNC", "commitlog", errno.EIO)
        disk.lose_power(); program.kill(); disk.restore(seed=7)
        disk.seen / "commitlog"                        # how this process sees it

The files are served through FUSE by a process of its own (`server.py`), in a mount namespace of its
own; that needs no privilege where user namespaces and /dev/fuse are open to everybody. Programs
within see another boot id after each loss of power. Knows programs by their command lines alone.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.prefixed import within_namespaces
from interop.servers import Software

_TESTS = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class UnsyncedDisk:
    """The disk, for those who harm it.

    Attributes:
        process: The program that serves it.
        seen: Where this process sees it.
    """

    process: "subprocess.Popen[str]"
    seen: Path

    def within(self, software: Software) -> Software:
        """Returns the programs of a software, which see the disk."""
        return within_namespaces(software, self.process.pid)

    def fail(self, call: str, part: str, number: int, count: int = -1) -> None:
        """Lets calls fail.

        Args:
            call: Their kind, a name of `kernel.Code`.
            part: What the paths of the files have in them.
            number: The error (`errno`).
            count: How many calls; negative for all.
        """
        self._order(do="fail", call=call, part=part, errno=number, left=count)

    def slow(self, call: str, part: str, delay_s: float) -> None:
        """Lets calls take so much longer."""
        self._order(do="slow", call=call, part=part, delay_s=delay_s)

    def fill(self) -> None:
        """Leaves no byte free."""
        self._order(do="limit")

    def flip(self, part: str, position: int) -> None:
        """Changes one bit of a file, on the disk and for who reads it from now on."""
        self._order(do="flip", part=part, position=position)

    def forget_pages(self, part: str = "") -> None:
        """Lets the kernel forget what it has read of files."""
        self._order(do="forget", part=part)

    def heal(self) -> None:
        """Takes all harm back."""
        self._order(do="heal")

    def lose_power(self) -> None:
        """Lets every call fail from now on: nothing more becomes durable."""
        self._order(do="cut")

    def restore(self, seed: int, *, loses_all: bool) -> None:
        """Mounts it anew, when every program that used it has been killed.

        Args:
            seed: What draws what is left of what was not synced.
            loses_all: Whether nothing of that is left.
        """
        self._order(do="restore", seed=seed, loses_all=loses_all)

    def counts(self) -> dict[str, int]:
        """Returns how many calls of each kind were harmed."""
        return self._order(do="counts")

    def _order(self, **order: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the disk has ended at {order}"
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def unsynced_disk(directory: Path) -> Iterator[UnsyncedDisk | None]:
    """Mounts it; None where the kernel does not let us.

    Args:
        directory: Where it is, for programs within; it is made.
    """
    directory.mkdir(parents=True, exist_ok=True)
    boot_id = directory.parent / "boot_id"
    serve = [sys.executable, "-m", "faults.disk.server", str(directory), str(boot_id)]
    try:
        process = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", *serve],
            cwd=_TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    except FileNotFoundError:
        yield None
        return
    with process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            first = process.stdout.readline()
            if first and "refused" not in json.loads(first):
                seen = Path(f"/proc/{process.pid}/root") / directory.relative_to("/")
                yield UnsyncedDisk(process, seen)
            else:
                yield None
        finally:
            process.stdin.close()
            process.wait()
