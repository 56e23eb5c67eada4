"""An archive as a directory: its manifest read, and commits added. Knows no Spark.

Everything that reads an archive begins here: what no commit names is not there.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mqcore.spark.directories import Directory, directory_of
from mqcore.spark.locations import Location
from mqcore.spark.pipelines.errors import ArchiveError, ManifestConflictError
from mqcore.spark.pipelines.layout import COMMITS, commit_path
from mqcore.spark.pipelines.manifest import (
    Commit,
    Manifest,
    PartFile,
    decode_commit,
    encode_commit,
)
from mqcore.spark.pipelines.spans import Span

__all__ = ["ArchiveDirectory"]


class ArchiveDirectory:
    """An archive.

    Attributes:
        files: The directory tree of its files.
    """

    def __init__(self, target: str | Path) -> None:
        """Takes a path or URI, which need not be there yet."""
        self.files: Directory = directory_of(Location.of(target).absolute())

    @property
    def uri(self) -> str:
        """The directory, as Spark takes it."""
        return self.files.uri

    def manifest(self) -> Manifest:
        """Reads all commits; an empty manifest where there is none.

        Raises:
            ArchiveError: A commit is damaged, or one is missing between others.
        """
        commits: list[Commit] = []
        for file in self.files.files(self.files.below(COMMITS)):
            path = f"{COMMITS}/{file.name}"
            commit = decode_commit(self.files.read(file.path), f"{self.uri}/{path}")
            if commit_path(commit.number) != path or commit.number != len(commits) + 1:
                raise ArchiveError(
                    f"{self.uri}: {path} holds commit {commit.number}, expected "
                    f"{len(commits) + 1}: commits were removed or renamed",
                    path=path,
                )
            commits.append(commit)
        return Manifest(commits)

    def required_manifest(self) -> Manifest:
        """Reads the manifest of an archive that must be there.

        Raises:
            ArchiveError: It is no archive, or a damaged one.
        """
        manifest = self.manifest()
        if not manifest.commits:
            raise ArchiveError(
                f"{self.uri} is no archive: it has no commits below {COMMITS}; `mqcore store "
                "archive` or the pipeline `archive` makes one",
                path=self.uri,
            )
        return manifest

    def commit(self, spans: Sequence[Span], files: Sequence[PartFile], now_ms: int) -> Commit:
        """Makes files part of the archive, all of them or none.

        Args:
            spans: The ranges that they hold all rows of.
            files: The files; they must be whole under their names.
            now_ms: The time, Unix ms.

        Raises:
            ManifestConflictError: Some of a range is archived already, or somebody else committed
                at the same moment.
        """
        manifest = self.manifest()
        held = manifest.held_already(spans)
        number = manifest.next_number
        if held is not None:
            raise ManifestConflictError(
                f"{self.uri}: some of {held.source} from {held.begin} to {held.end} is archived "
                "already: run the pipeline again, it goes on behind that",
                path=self.uri,
                number=number - 1,
            )
        ordered = (tuple(sorted(spans)), tuple(sorted(files)))
        commit = Commit(spans=ordered[0], files=ordered[1], committed_ms=now_ms)
        commit = replace(commit, number=number)
        if not self.files.create(self.files.below(commit_path(number)), encode_commit(commit)):
            raise ManifestConflictError(
                f"{self.uri}: somebody else made commit {number}: archive into a directory from "
                "one program at a time, and run this one again",
                path=self.uri,
                number=number,
            )
        return commit
