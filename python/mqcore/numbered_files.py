"""Folders of files whose names are numbers, as those of a store are. Knows no format."""

import os
from pathlib import Path

__all__ = ["folders", "numbered"]


def folders(folder: Path) -> list[Path]:
    """Returns the folders in a folder, by name; none where it is not there."""
    try:
        return sorted(Path(each.path) for each in os.scandir(folder) if each.is_dir())
    except FileNotFoundError:
        return []


def numbered(folder: Path, digits: int) -> list[Path]:
    """Returns what has a number of so many digits as its name, in order; none where it is not."""
    try:
        found = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    return [each for each in found if len(each.name) == digits and each.name.isdigit()]
