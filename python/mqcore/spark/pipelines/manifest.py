"""What belongs to an archive: commits, each a list of files and the ranges they hold. Pure.

A file that no commit names is not part of the archive, whatever the directory contains: tasks write
first, the driver commits last. A commit is one JSON file that is never changed; an archive is the
sum of its commits. No two commits hold the same offset of a source, so nothing is archived twice.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mqcore.spark.pipelines.errors import ArchiveError
from mqcore.spark.pipelines.spans import Range, Span, merged

__all__ = ["Commit", "Manifest", "PartFile", "decode_commit", "encode_commit"]

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PartFile:
    """One Parquet file.

    Attributes:
        path: Below the archive, with `/`.
        topic: The topic of all its rows.
        date: Their day of storing in UTC, YYYY-MM-DD.
        rows: How many there are.
        size_bytes: Length of the file.
        crc32: CRC-32 of the file.
        first_store_ms: The earliest store time in it, Unix ms.
        last_store_ms: The latest.
        body_bytes: Sum of the lengths of its bodies.
    """

    path: str
    topic: str
    date: str
    rows: int
    size_bytes: int
    crc32: int
    first_store_ms: int
    last_store_ms: int
    body_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Files that became part of the archive at once.

    Attributes:
        spans: The ranges that they hold all rows of; a range without rows is a span too.
        files: The files, by path.
        committed_ms: When, Unix ms.
        number: Its number among the commits, from 1; 0 before it has one.
    """

    spans: tuple[Span, ...]
    files: tuple[PartFile, ...]
    committed_ms: int
    number: int = 0

    @property
    def rows(self) -> int:
        """Rows of all its files."""
        return sum(part.rows for part in self.files)


@dataclass(slots=True)
class Manifest:
    """All commits of an archive.

    Attributes:
        commits: In their order.
    """

    commits: list[Commit] = field(default_factory=list)

    @property
    def next_number(self) -> int:
        """The number of the next commit."""
        return self.commits[-1].number + 1 if self.commits else 1

    def files(self, topics: Iterable[str] | None = None) -> list[PartFile]:
        """Returns the files of some topics, or of all."""
        wanted = None if topics is None else frozenset(topics)
        return [
            part
            for commit in self.commits
            for part in commit.files
            if wanted is None or part.topic in wanted
        ]

    def covered(self) -> dict[str, list[Range]]:
        """Returns what is archived of each source, ascending."""
        found: defaultdict[str, list[Range]] = defaultdict(list)
        for commit in self.commits:
            for span in commit.spans:
                found[span.source].append((span.begin, span.end))
        return {source: merged(ranges) for source, ranges in sorted(found.items())}

    def held_already(self, spans: Sequence[Span]) -> Span | None:
        """Returns a span of which some is archived already, or None."""
        covered = self.covered()
        for span in spans:
            for begin, end in covered.get(span.source, ()):
                if span.overlaps(Span(span.source, begin, end)):
                    return span
        return None


def encode_commit(commit: Commit) -> bytes:
    """Returns a commit as its file has it: JSON, members sorted, a line end."""
    fields = {
        "version": _VERSION,
        "number": commit.number,
        "committed_ms": commit.committed_ms,
        "rows": commit.rows,
        "spans": [asdict(span) for span in sorted(commit.spans)],
        "files": [asdict(part) for part in sorted(commit.files)],
    }
    return (json.dumps(fields, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def decode_commit(content: bytes, path: str) -> Commit:
    """Returns the commit of a file.

    Args:
        content: All of the file.
        path: Where it is, for the error.

    Raises:
        ArchiveError: It is none, or one of a later version.
    """
    try:
        fields: Mapping[str, Any] = json.loads(content)
        version = fields["version"]
        if version != _VERSION:
            raise ArchiveError(
                f"{path} is a commit of version {version}; this program knows {_VERSION}: use a "
                "newer one",
                path=path,
            )
        commit = Commit(
            number=int(fields["number"]),
            committed_ms=int(fields["committed_ms"]),
            spans=tuple(Span(**span) for span in fields["spans"]),
            files=tuple(PartFile(**part) for part in fields["files"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ArchiveError(
            f"{path} is no commit of an archive ({error!r}): restore it from a copy", path=path
        ) from error
    if commit.rows != fields.get("rows"):
        raise ArchiveError(
            f"{path} names files of {commit.rows} rows and says {fields.get('rows')}", path=path
        )
    return commit
