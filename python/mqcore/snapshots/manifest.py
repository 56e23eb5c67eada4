"""What a snapshot consists of: one row per file, and where the log begins and ends. A JSON object.

Knows no disk.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from mqcore.snapshots.errors import SnapshotError

__all__ = ["FORMAT", "FileRow", "Identity", "Manifest"]

# Of the layout of the directory and of the manifest; a newer one is refused.
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Identity:
    """By what a file is known again without reading it; not the device, whose number may change.

    Attributes:
        inode: Its number.
        len_bytes: Its length.
        changed_ns: The time of its last change.
    """

    inode: int
    len_bytes: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file of the store.

    Attributes:
        path: Below the store's directory, with `/`.
        len_bytes: Its length; what is behind the stored bytes are zeros.
        stored_bytes: So much of it is in the directory of snapshots.
        name: Where, below `files/`.
        sha256: The hash of the stored bytes, in hexadecimal digits; empty where it was not asked
            for.
        identity: Of a file that will not change any more, or had not for a while; None for others.
    """

    path: str
    len_bytes: int
    stored_bytes: int
    name: str
    sha256: str
    identity: Identity | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A snapshot.

    Attributes:
        name: Its name, which sorts by time.
        taken_ms: When it was begun, Unix ms.
        version: The program that took it.
        source: Host and directory of the store.
        broker: The name of the broker that ran; empty where none did.
        log_start: Where the log begins, a physical offset.
        log_end: Where it ends; 0 where the store was not stopped cleanly and no broker ran.
        is_clean: Whether the store was stopped, and is restored as such.
        files: The files.
    """

    name: str
    taken_ms: int
    version: str
    source: str
    broker: str
    log_start: int
    log_end: int
    is_clean: bool
    files: tuple[FileRow, ...]

    @property
    def len_bytes(self) -> int:
        """Returns the bytes of all files that are stored."""
        return sum(row.stored_bytes for row in self.files)

    def to_bytes(self) -> bytes:
        """Returns it as it is written."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1).encode() + b"\n"

    @classmethod
    def of_bytes(cls, text: bytes, path: str) -> Self:
        """Returns the manifest in a file.

        Raises:
            SnapshotError: It is none, or of a newer format.
        """
        try:
            tree: dict[str, Any] = json.loads(text)
            if tree.pop("format") != FORMAT:
                raise SnapshotError(f"{path}: of another format than {FORMAT}", path=path)
            rows = tuple(_row(each) for each in tree.pop("files"))
            return cls(files=rows, **tree)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise SnapshotError(f"{path}: no manifest of a snapshot: {error}", path=path) from error


def _row(tree: Mapping[str, Any]) -> FileRow:
    known = tree["identity"]
    row = FileRow(**{**tree, "identity": None if known is None else Identity(**known)})
    # Whoever can write here must not be able to write elsewhere at a restore.
    if row.path.startswith("/") or ".." in row.path.split("/") or not row.path:
        raise ValueError(f"a path that leaves the store: {row.path!r}")
    return row
