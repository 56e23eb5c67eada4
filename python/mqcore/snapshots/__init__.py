"""Snapshots of store directories: taken while a broker runs, restored whole or not at all.

A directory of snapshots holds `files/`, each file once by the hash of its bytes, and `snapshots/`,
one manifest per snapshot, written last: what has no manifest is no snapshot. Who talks to a broker
and shows progress is the command line.
"""

from mqcore.snapshots.errors import SnapshotError
from mqcore.snapshots.manifest import FileRow, Identity, Manifest
from mqcore.snapshots.pool import Pool, Removed
from mqcore.snapshots.restoring import Restored, restore
from mqcore.snapshots.source import Point, Source, StoppedStore
from mqcore.snapshots.taking import Taken, take

__all__ = [
    "FileRow",
    "Identity",
    "Manifest",
    "Point",
    "Pool",
    "Removed",
    "Restored",
    "SnapshotError",
    "Source",
    "StoppedStore",
    "Taken",
    "restore",
    "take",
]
