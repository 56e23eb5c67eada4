"""What the project is made of: its files, and one way to report a broken rule.

The rules themselves are functions over text in `rust_rules`, `python_rules` and `text_rules`; they
read no file, so that each can be shown to find a planted violation.
"""

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Kept as they were made; their origin is described in tests/golden/ORIGIN.md.
FOREIGN = ("tests/golden/",)


@cache
def paths() -> tuple[str, ...]:
    """Returns every file of ours that version control knows or would add, relative to the root."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = {name for name in listing.split("\0") if name and not name.startswith(FOREIGN)}
    return tuple(sorted(name for name in names if (ROOT / name).is_file()))


def texts(*suffixes: str) -> Iterator[tuple[str, str]]:
    """Yields path and text of every file of ours that ends in one of `suffixes`."""
    for path in paths():
        if path.endswith(suffixes):
            yield path, (ROOT / path).read_text(encoding="utf-8")


def line_at(text: str, position: int) -> int:
    """Returns the number, from 1, of the line that holds `position`."""
    return text.count("\n", 0, position) + 1
