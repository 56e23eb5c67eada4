"""The error of snapshots. Imports nothing of them."""

from mqcore.errors import MQError

__all__ = ["SnapshotError"]


class SnapshotError(MQError):
    """A snapshot cannot be taken or restored; nothing counts as one that is not whole.

    Attributes:
        path: The file or directory.
    """

    path: str
