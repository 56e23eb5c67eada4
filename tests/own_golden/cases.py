"""The directories in `tests/golden/mqcore-0.1`: their names, unpacked, and what is known of them.

Each is an archive `NAME.tar.xz` with one directory NAME, a list of its files `NAME.files.txt`, and
`NAME.contents.json.xz`, which the program that wrote it (`own_golden/write.py`) recorded. Knows
nothing of mqcore.
"""

import json
import lzma
import re
import tarfile
from pathlib import Path
from typing import Any, Final

from golden_stores import golden_file

VERSION: Final = "mqcore-0.1"
# A store after a clean stop, one whose broker was killed, one that was recovered with losses.
CLEAN, KILLED, CUT = "clean", "killed", "cut"
STORES: Final = (CLEAN, KILLED, CUT)
# Files of name server, client and broker outside of a store.
CONFIG: Final = "config"
# What `mqcore store archive` wrote of a part of CLEAN.
ARCHIVE: Final = "archive"
# A store, and the checkpoint of a streaming query from one of its topics into another.
STREAM: Final = "stream"
NAMES: Final = (*STORES, CONFIG, ARCHIVE, STREAM)

# The generation before of what a broker writes every few seconds; `NAME.bak` of the others counts.
_WRITTEN_OFTEN: Final = frozenset(
    f"config/{name}"
    for name in (
        *("consumerOffset.json", "delayOffset.json", "consumerFilter.json", "timermetrics"),
        *("consumerOrderInfo.json", "transactionMetrics"),
    )
)
# Names that are an offset or a time differ from run to run.
_OFFSET = re.compile(r"(?<![0-9])[0-9]{20}(?![0-9])")
_TIME = re.compile(r"(?<=^index/)[0-9]{17}$")
_DAY = re.compile(r"(?<=dt=)[0-9-]{10}")
_DIGEST = re.compile(r"(?<=OFFSET-OFFSET-)[0-9a-f]+")


def unpack(name: str, into: Path) -> Path:
    """Unpacks a directory below `into` and returns it."""
    with tarfile.open(golden_file(f"{VERSION}/{name}.tar.xz"), "r:xz") as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(into, filter="data")
        else:  # Python 3.11 before 3.11.4
            archive.extractall(into)
    return into / name


def contents(name: str) -> dict[str, Any]:
    """Returns what was recorded when the directory was written."""
    path = golden_file(f"{VERSION}/{name}.contents.json.xz")
    with lzma.open(path, "rt", encoding="utf-8") as text:
        found: dict[str, Any] = json.load(text)
    return found


def listed_files(name: str) -> dict[str, int]:
    """Returns the length in bytes of every file by its path in the directory, as listed."""
    lines = golden_file(f"{VERSION}/{name}.files.txt").read_text(encoding="utf-8").splitlines()
    return {path: int(size) for size, path in (line.split(" ", 1) for line in lines)}


def actual_files(root: Path) -> dict[str, int]:
    """Returns the same of a directory."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.stat().st_size for path in files}


def name_shapes(names: list[str]) -> list[str]:
    """Returns names with words in place of offsets and times, each once, sorted.

    What is there at some moments and not at others is left out: a log file that is being made, and
    the generation before of a file that is written now and then.
    """
    found = set()
    for name in names:
        is_before = name.endswith(".bak") and name.removesuffix(".bak") in _WRITTEN_OFTEN
        if is_before or name.startswith("commitlog.preparing/"):
            continue
        shape = _TIME.sub("TIME", _OFFSET.sub("OFFSET", name))
        found.add(_DIGEST.sub("DIGEST", _DAY.sub("DAY", shape)))
    return sorted(found)
