"""Plays the conversations in a process of their own, and reads their transcripts."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recorded.wall_clock import environment_with

__all__ = ["GOLDEN", "AllPlayed", "Transcript", "play"]

GOLDEN: Final = Path(__file__).with_name("golden")
_TESTS: Final = Path(__file__).parent.parent
# All of them take some seconds; a server that hangs is bounded per frame.
_TIMEOUT_S: Final = 240


@dataclass(frozen=True, slots=True)
class AllPlayed:
    """What came of all conversations.

    Attributes:
        transcripts: The transcripts by `NAME.KIND`.
        codes: The codes that each server serves, by `broker` and `namesrv`.
    """

    transcripts: dict[str, "Transcript"]
    codes: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Transcript:
    """What came of one conversation with one kind of headers.

    Attributes:
        text: Its transcript; empty where it could not be played.
        faults: What a step expected and did not get, in words; empty where all is well.
    """

    text: str
    faults: str


def play(directory: Path, names: Sequence[str] = ()) -> AllPlayed:
    """Plays conversations and returns what came of them.

    Args:
        directory: Where the processes work.
        names: Which conversations; all of them, and the codes, where it is empty.

    Raises:
        CalledProcessError: The clock cannot be built, or no conversation can be played.
    """
    with _cached_directory(directory) as work:
        return _played(work, names)


@contextlib.contextmanager
def _cached_directory(directory: Path) -> Iterator[Path]:
    """Gives a directory, or one beside the tests where its file system reads no cached bytes.

    Some answers depend on whether a queue can be read without waiting for the disk (PEEK_MESSAGE,
    pulls held by an expression). Where `RWF_NOWAIT` is not supported, as on tmpfs, it never can.
    """
    probe = directory / "probe"
    probe.write_bytes(b"cached")
    descriptor = os.open(probe, os.O_RDONLY)
    try:
        os.preadv(descriptor, [bytearray(6)], 0, os.RWF_NOWAIT)
    except OSError:
        cache = _TESTS.parent / ".cache"
        cache.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="recorded.") as other:
            yield Path(other)
    else:
        yield directory
    finally:
        os.close(descriptor)


def _played(directory: Path, names: Sequence[str]) -> AllPlayed:
    environment = environment_with(directory)
    paths = [str(_TESTS), *filter(None, [environment.get("PYTHONPATH")])]
    # The child works elsewhere: a relative path would mean another directory there.
    absolute = [str(Path(each).resolve()) for path in paths for each in path.split(":")]
    subprocess.run(
        [sys.executable, "-m", "recorded.play", str(directory), *names],
        check=True,
        cwd=directory,
        env=environment | {"PYTHONPATH": ":".join(absolute)},
        timeout=_TIMEOUT_S,
    )
    found = {}
    for path in [*directory.glob("*.txt"), *directory.glob("*.faults")]:
        found[path.stem] = Transcript(
            _read(directory / f"{path.stem}.txt"), _read(directory / f"{path.stem}.faults")
        )
    codes = {path.stem: json.loads(path.read_text()) for path in directory.glob("*.codes")}
    return AllPlayed(found, codes)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
