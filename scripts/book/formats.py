"""Copies the byte tables of Rust modules into docs/formats.md, where markers name the module.

    python scripts/book/formats.py            writes the page
    python scripts/book/formats.py --check    exits with 1 where the page is older than a module

A marker is a pair of comments around a table: `<!-- table PATH -->`, or `<!-- table PATH 2 -->` for
the second table of the head of that module, and `<!-- end -->`. Knows no format.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "formats.md"
_MARKED = re.compile(
    r"(?P<begin><!-- table (?P<path>\S+?)(?: (?P<number>\d))? -->\n).*?(?P<end><!-- end -->)",
    re.DOTALL,
)
# A link of rustdoc: what it links is not on the page.
_RUSTDOC_LINK = re.compile(r"\[(`[^`]+`)\](?!\()")


def tables(text: str) -> list[str]:
    """Returns the tables in the head of a Rust module."""
    head = re.match(r"(?://!.*\n)*", text)
    lines = [] if head is None else [line[3:].strip() for line in head[0].splitlines()]
    found: list[list[str]] = []
    was_row = False
    for line in lines:
        is_row = line.startswith("|")
        if is_row and not was_row:
            found.append([])
        if is_row:
            found[-1].append(_RUSTDOC_LINK.sub(r"\1", line))
        was_row = is_row
    return ["\n".join(rows) for rows in found]


def renewed(page: str) -> str:
    """Returns a page with the tables as the modules have them now.

    Raises:
        LookupError: A module has no such table.
    """

    def table(match: re.Match[str]) -> str:
        number = int(match["number"] or 1)
        found = tables((ROOT / match["path"]).read_text(encoding="utf-8"))
        if number > len(found):
            raise LookupError(f"{match['path']}: has {len(found)} tables, not {number}")
        return f"{match['begin']}\n{found[number - 1]}\n\n{match['end']}"

    return _MARKED.sub(table, page)


def main() -> int:
    """Writes or checks the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    page = PAGE.read_text(encoding="utf-8")
    fresh = renewed(page)
    if is_check and fresh != page:
        print(f"{PAGE}: run python scripts/book/formats.py", file=sys.stderr)
        return 1
    if not is_check:
        PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
