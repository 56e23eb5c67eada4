"""Rows as pages list them: filtered, sorted and cut by what the URL asks for. Pure functions.

A list that is cut reports how many there are: nothing ends without a word.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

__all__ = ["Listing", "listed", "whole_of"]

_Row = TypeVar("_Row")

PAGE_ROWS: Final = 50
# What one page may be asked for.
ROWS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Listing(Generic[_Row]):
    """One page of a list.

    Attributes:
        rows: The rows of this page.
        total: Rows that match.
        of: Rows there are without the filter.
        page: Which page, from 1.
        pages: How many there are.
        sort: By which column; with `-` before it, downwards.
    """

    rows: Sequence[_Row]
    total: int
    of: int
    page: int
    pages: int
    sort: str

    @property
    def first(self) -> int:
        """The number of the first row, from 1; 0 for none."""
        return (self.page - 1) * PAGE_ROWS + 1 if self.rows else 0


def listed(
    rows: Sequence[_Row],
    query: Mapping[str, str],
    *,
    columns: Mapping[str, Callable[[_Row], Any]],
    default: str,
    of: int | None = None,
) -> Listing[_Row]:
    """Returns the page of rows that a URL asks for.

    Args:
        rows: The rows that match.
        query: What the URL has: `sort`, `page`.
        columns: What rows are sorted by, by column.
        default: The column that counts where none is named.
        of: Rows there are without the filter.
    """
    sort = query.get("sort", default)
    if sort.removeprefix("-") not in columns:
        sort = default
    key = columns[sort.removeprefix("-")]
    ordered = sorted(rows, key=key, reverse=sort.startswith("-"))
    pages = max(1, -(-len(ordered) // PAGE_ROWS))
    page = min(whole_of(query.get("page"), 1, 1, pages), pages)
    shown = ordered[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    return Listing(shown, len(ordered), len(rows) if of is None else of, page, pages, sort)


def whole_of(text: str | None, default: int, low: int, high: int) -> int:
    """Returns the number in a text, within bounds; the default for what is none."""
    found = (text or "").strip()
    if not found.lstrip("-").isdecimal() or len(found) > 19:
        return default
    return min(max(int(found), low), high)
