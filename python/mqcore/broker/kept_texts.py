"""The texts of a table's entries, kept while the entries stay: most stay at most changes.

Pure; knows no table and no file.
"""

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from mqcore.model.relaxed_json import Rendered, member, rendered, table_of_members


class Entry(Protocol):
    """An entry that never changes: a changed one is another."""

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object."""


_Entry = TypeVar("_Entry", bound=Entry)


class KeptTexts(Generic[_Entry]):
    """The pretty text of a table, made of those of its entries."""

    def __init__(self, *, depth: int) -> None:
        """Takes how many levels deep the table is in its file."""
        self._depth = depth
        # Each entry with its text as a member of the table.
        self._kept: dict[str, tuple[_Entry, str]] = {}

    def of(self, entries: Mapping[str, _Entry]) -> Rendered:
        """Returns the text, and forgets entries that are gone. For one thread at a time."""
        kept: dict[str, tuple[_Entry, str]] = {}
        for name in sorted(entries):
            entry, known = entries[name], self._kept.get(name)
            if known is None or known[0] is not entry:
                text = rendered(entry.to_json(), self._depth + 1)
                known = (entry, member(name, text, self._depth))
            kept[name] = known
        self._kept = kept
        return table_of_members([text for _, text in kept.values()], self._depth)
