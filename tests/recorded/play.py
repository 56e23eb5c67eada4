"""Plays conversations, each in a process of its own, and writes their transcripts to a directory.

    LD_PRELOAD=wall_clock.so python -m recorded.play DIRECTORY [NAME...]

Started by `playing.py`, which builds the library first. Writes `NAME.KIND.txt`, what went wrong to
`NAME.KIND.faults`, and without names which codes are served to `SERVER.codes`. Exits with 0
whatever the conversations come to.
"""

import asyncio
import json
import logging
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from recorded.codes import served_codes
from recorded.conversation import Conversation
from recorded.conversations import CONVERSATIONS
from recorded.player import played
from recorded.wall_clock import is_loaded

# They wait most of the time: for the disk at the start and the end, for events that come late.
_AT_ONCE: Final = 6


def _alone(name: str, work: Callable[[], list[str]], directory: Path) -> None:
    """Does some work in a directory of its own; what it returns, or raises, are its faults."""
    with tempfile.TemporaryDirectory(dir=directory, prefix=f"{name}.") as files:
        os.chdir(files)
        with Path(f"{directory}/{name}.log").open("w") as log:
            logging.basicConfig(stream=log, level=logging.INFO)
            try:
                faults = work()
            except Exception:
                faults = [traceback.format_exc()]
        os.chdir(directory)
    if faults:
        (directory / f"{name}.faults").write_text("\n".join(faults), encoding="utf-8")


def _play(conversation: Conversation, kind: str, directory: Path) -> list[str]:
    """Plays a conversation and writes its transcript; returns its faults."""
    done = asyncio.run(played(conversation, kind))
    lines = "".join(f"{line}\n" for line in done.lines)
    (directory / f"{conversation.name}.{kind}.txt").write_text(lines, encoding="ascii")
    return done.faults


def _codes(kind: str, directory: Path) -> list[str]:
    """Writes which codes a server serves."""
    found = asyncio.run(served_codes(kind))
    (directory / f"{kind}.codes").write_text(json.dumps(found), encoding="ascii")
    return []


def _main(directory: Path, names: list[str]) -> None:
    if not is_loaded():
        raise SystemExit("this process has no wall clock of its own: see recorded/playing.py")
    wanted: list[tuple[str, Callable[[], list[str]]]] = [
        (f"{each.name}.{kind}", partial(_play, each, kind, directory))
        for each in CONVERSATIONS
        for kind in each.kinds
        if not names or each.name in names
    ]
    if not names:
        servers = ("broker", "namesrv")
        wanted += [(f"codes.{each}", partial(_codes, each, directory)) for each in servers]
    under_way: set[int] = set()
    for name, work in wanted:
        if len(under_way) >= _AT_ONCE:
            under_way.discard(os.wait()[0])
        pid = os.fork()
        if pid == 0:
            _alone(name, work, directory)
            # Nothing of the parent is ended here.
            os._exit(0)
        under_way.add(pid)
    while under_way:
        under_way.discard(os.wait()[0])


if __name__ == "__main__":
    _main(Path(sys.argv[1]).resolve(), sys.argv[2:])
