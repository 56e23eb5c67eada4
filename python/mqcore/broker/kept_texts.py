"""The texts of a table's entries, kept while the entries stay: most stay at most changes.

Pure; knows no table and no file.
"""

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from mqcore.model.relaxed_json import Rendered, rendered


class Entry(Protocol):
    """An entry that never changes: a changed one is another."""

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object."""


_Entry = TypeVar("_Entry", bound=Entry)


class KeptTexts(Generic[_Entry]):
    """The pretty text of every entry."""

    def __init__(self, *, depth: int) -> None:
        """Takes how many levels deep the entries stand in their file."""
        self._depth = depth
        self._kept: dict[str, tuple[_Entry, Rendered]] = {}

    def of(self, entries: Mapping[str, _Entry]) -> dict[str, Rendered]:
        """Returns the texts by name, and forgets those of others. For one thread at a time."""
        kept: dict[str, tuple[_Entry, Rendered]] = {}
        for name, entry in entries.items():
            known = self._kept.get(name)
            if known is None or known[0] is not entry:
                known = (entry, rendered(entry.to_json(), self._depth))
            kept[name] = known
        self._kept = kept
        return {name: text for name, (_, text) in kept.items()}
