"""The first version of mqcore whose files are kept in `tests/golden`, built and run beside today's.

    servers.broker.become(earlier_software())

It is made once, from a revision of this repository, into `.cache/earlier`: with cargo, in minutes.
The programs are started with this process's Python, and with that version's package in front of
ours. Knows the command line of the programs, which is as it was.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from interop.servers import Ours, Software

__all__ = ["REVISION", "EarlierMissingError", "earlier_software", "is_earlier"]

# What wrote `tests/golden/mqcore-0.1`.
REVISION: Final = "e269031a016735c0dbbbc5ab01726d85ed09faa4"
ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / ".cache" / "earlier"
# All of it is compiled, without what makes a build slow.
_QUICK: Final = {
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    "CARGO_PROFILE_RELEASE_DEBUG": "0",
    "CARGO_INCREMENTAL": "0",
}
_EXTENSION: Final = "python/mqcore/native/_native.abi3.so"


class EarlierMissingError(Exception):
    """The earlier version cannot be built here; the text describes what it needs."""


def earlier_software() -> Software:
    """Returns the programs of the earlier version; builds them the first time.

    Raises:
        EarlierMissingError: Its sources are not in the repository, or cargo cannot build them.
    """
    tree = CACHE / REVISION[:8]
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        # One process at a time builds; who waited finds it built.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (tree / _EXTENSION).exists():
            _build(tree)
    return Ours(f"mqcore of revision {REVISION[:8]}", tree / "python")


def is_earlier(pid: int) -> bool:
    """Returns whether a process runs the earlier version: it has the extension of that one."""
    return str(CACHE) in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


def _build(tree: Path) -> None:
    shutil.rmtree(tree, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="building-") as folder:
        source, objects = Path(folder) / "source", Path(folder) / "objects"
        source.mkdir()
        archive = Path(folder) / "source.tar"
        what = ["Cargo.toml", "Cargo.lock", "rust", "benches", "python"]
        _run(["git", "archive", "-o", str(archive), REVISION, *what], ROOT, {})
        _run(["tar", "-xf", str(archive), "-C", str(source)], ROOT, {})
        words = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "mqcore-bindings"]
        _run([*words, "--target-dir", str(objects)], source, _QUICK)
        shutil.copy2(objects / "release" / "lib_native.so", source / _EXTENSION)
        tree.mkdir()
        # The last step: what is there is whole.
        (source / "python").rename(tree / "python")


def _run(command: list[str], folder: Path, more: dict[str, str]) -> None:
    # Flags for this version's build are not that one's.
    kept = {name: value for name, value in os.environ.items() if name != "RUSTFLAGS"}
    try:
        done = subprocess.run(
            command, cwd=folder, env={**kept, **more}, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as missing:
        raise EarlierMissingError(f"{command[0]} is missing") from missing
    if done.returncode:
        words = " ".join(command[:4])
        raise EarlierMissingError(f"revision {REVISION[:8]}: {words} failed: {done.stderr[-2000:]}")
