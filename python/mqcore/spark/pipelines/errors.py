"""What a pipeline refuses: the branch `PipelineError` of the tree. Imports no Spark."""

from mqcore.errors import UsageError
from mqcore.spark.errors import SparkError

__all__ = [
    "ArchiveError",
    "ManifestConflictError",
    "PipelineError",
    "PipelineSettingError",
]


class PipelineError(SparkError):
    """A pipeline cannot do what was asked."""


class PipelineSettingError(PipelineError, UsageError):
    """A setting of a pipeline is unknown, missing, or contradicts another.

    Attributes:
        setting: Its name.
    """

    setting: str


class ArchiveError(PipelineError):
    """A directory is no archive, or not as its manifest describes it.

    Attributes:
        path: The file or directory.
    """

    path: str


class ManifestConflictError(ArchiveError):
    """Somebody else committed to the archive meanwhile; what was written is not part of it.

    Attributes:
        path: The archive.
        number: The commit that was there first.
    """

    number: int
