"""Attacks run in a process that notices every child: none of the programs may ever start one."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# What Python announces before it starts a process, or becomes another program.
_STARTS = frozenset(
    {
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.system",
        "pty.spawn",
        "subprocess.Popen",
    }
)
_started: list[str] = []
_is_watching = [False]


def _notice(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _STARTS and _is_watching[0]:
        _started.append(f"{event} {arguments!r}"[:500])


# A hook stays for as long as the process: it looks only while a test of this folder runs.
sys.addaudithook(_notice)


def children() -> set[int]:
    """Returns the processes that any thread of this one has started."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            found |= {int(each) for each in (task / "children").read_text().split()}
        except FileNotFoundError:
            continue
    return found


@pytest.fixture(autouse=True)
def no_process() -> Iterator[None]:
    """Fails a test during which a process was started, by Python or by what is below it."""
    before = children()
    _started.clear()
    _is_watching[0] = True
    try:
        yield
    finally:
        _is_watching[0] = False
    assert _started == []
    assert children() <= before
