"""The golden stores: directories written by official brokers, and what is known to be in them.

Every test that reads `tests/golden` does it through here. A file that is not there fails with its
name, never silently. Knows nothing of mqcore.
"""

import hashlib
import json
import lzma
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from full_disks import ON_FULL_DISKS

GOLDEN_DIR = Path(__file__).parent / "golden"
SUMS_FILE = GOLDEN_DIR / "SHA256SUMS"

# One line of a manifest or of a list of acknowledgements, as the generator's README explains it.
Record = dict[str, Any]


class GoldenFileMissingError(Exception):
    """A file of the golden stores is not in the tree; the tests that need it cannot pass."""

    def __init__(self, path: Path) -> None:
        """Names the missing `path`."""
        super().__init__(f"golden file missing: {path} (restore it from version control)")
        self.path = path


def golden_file(name: str) -> Path:
    """Returns the path of one golden file.

    Raises:
        GoldenFileMissingError: The file is not there.
    """
    path = GOLDEN_DIR / name
    if not path.is_file():
        raise GoldenFileMissingError(path)
    return path


def listed_sums() -> dict[str, str]:
    """Returns the SHA-256 (hex) of every golden file by its name, as listed."""
    lines = golden_file(SUMS_FILE.name).read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def actual_sum(name: str) -> str:
    """Returns the SHA-256 (hex) of one golden file as it is now."""
    return hashlib.sha256(golden_file(name).read_bytes()).hexdigest()


@dataclass(frozen=True, slots=True)
class GoldenStore:
    """One golden store by its name.

    Attributes:
        name: Name of the archive and of the directory in it.
        broker_version: Version of the official broker that wrote it.
        records: Number of records in its commit log.
        blanks: Number of end-of-file records in its commit log.
        max_physical_offset: End of the valid data, in bytes of the log.
    """

    name: str
    broker_version: str
    records: int
    blanks: int
    max_physical_offset: int

    def unpack(self, into: Path) -> Path:
        """Unpacks the archive below `into` and returns the store's root directory."""
        with tarfile.open(golden_file(f"{self.name}.tar.xz"), "r:xz") as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extractall(into, filter="data")
            else:  # Python 3.11 before 3.11.4
                archive.extractall(into)
        return into / self.name

    def manifest(self) -> list[Record]:
        """Returns the walk of the commit log: every record and blank, in log order."""
        return list(self._lines("manifest"))

    def messages(self) -> list[Record]:
        """Returns the manifest without its end-of-file records."""
        return [record for record in self._lines("manifest") if "blank" not in record]

    def acknowledged(self) -> list[Record]:
        """Returns every SEND_OK the client saw, in the order seen."""
        return list(self._lines("acked"))

    def answers(self, kind: str) -> dict[str, Any]:
        """Returns the answers of an official broker serving a copy.

        Args:
            kind: `official`, `after-official-recovery`, `answers-of-53` or `answers-of-49`.
        """
        text = golden_file(f"{self.name}.{kind}.json").read_text(encoding="utf-8")
        answers: dict[str, Any] = json.loads(text)
        return answers

    def files(self) -> dict[str, int]:
        """Returns the size in bytes of every file in the archive by its path in the store."""
        lines = golden_file(f"{self.name}.files.txt").read_text(encoding="utf-8").splitlines()
        return {path: int(size) for size, path in (line.split(" ", 1) for line in lines)}

    def _lines(self, kind: str) -> Iterator[Record]:
        path = golden_file(f"{self.name}.{kind}.jsonl.xz")
        with lzma.open(path, "rt", encoding="utf-8") as text:
            for line in text:
                yield json.loads(line)


TINY = GoldenStore("tiny", "4.9.7", records=6, blanks=0, max_physical_offset=1411)
V49_CLEAN = GoldenStore("v49-clean", "4.9.7", records=3712, blanks=2, max_physical_offset=2961093)
V49_KILLED = GoldenStore("v49-killed", "4.9.7", records=7221, blanks=3, max_physical_offset=3987054)
V53_CLEAN = GoldenStore("v53-clean", "5.3.3", records=3913, blanks=3, max_physical_offset=3401352)
V55_CLEAN = GoldenStore("v55-clean", "5.5.0", records=3902, blanks=3, max_physical_offset=3344886)
GOLDEN_STORES = (TINY, V49_CLEAN, V49_KILLED, V53_CLEAN, V55_CLEAN)
# What the brokers that wrote the golden stores were started with and a reader must know too.
GOLDEN_CONFIG = {
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "20000",
    "maxMessageSize": "65536",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "mappedFileSizeTimerLog": "1040000",
    **ON_FULL_DISKS,
}
