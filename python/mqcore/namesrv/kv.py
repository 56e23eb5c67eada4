"""The KV configuration: texts by namespace and key, kept in `kvConfig.json` as the official one is.

The table is pure; `read_kv` gives it with its file, which is read at the start and written after
each change.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from mqcore.errors import BadJsonError, ConfigFileError, RefusedError, StateFileError
from mqcore.state_files import PersistedTable, Snapshot, StateFile

__all__ = ["ORDER_NAMESPACE", "KvTable", "read_kv"]

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
# Anybody who reaches the port may put entries: the table must stay something one rewrites whole.
_ENTRIES_MAX = 100_000
_ENTRY_CHARS_MAX = 64 << 10
_TABLE_CHARS_MAX = 32 << 20
_SYSTEM_ERROR = 1

Table = dict[str, dict[str, str]]


class KvTable:
    """Texts by namespace and key."""

    def __init__(self, table: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Takes a copy of what was there."""
        self._take(table or {})

    def _take(self, table: Mapping[str, Mapping[str, str]]) -> None:
        self._table: Table = {name: dict(entries) for name, entries in table.items()}
        self._entries = sum(len(entries) for entries in self._table.values())
        self._chars = sum(
            len(key) + len(value)
            for entries in self._table.values()
            for key, value in entries.items()
        )

    def load(self, content: bytes) -> None:
        """Takes the content of a `kvConfig.json`.

        Raises:
            BadJsonError: It cannot be read; nothing was taken.
        """
        try:
            self._take(_decoded(content))
        except ValueError as error:
            raise BadJsonError(str(error)) from error

    def text(self) -> Snapshot:
        """Returns what makes the content of `kvConfig.json` of now, in any thread."""
        table = self.snapshot()
        return lambda: _encoded(table)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Sets a text.

        Raises:
            RefusedError: It is too long, or the table is full.
        """
        before = self._table.get(namespace, {}).get(key)
        grown = len(value) - len(before) if before is not None else len(key) + len(value)
        if (
            len(namespace) + len(key) + len(value) > _ENTRY_CHARS_MAX
            or self._chars + grown > _TABLE_CHARS_MAX
            or (before is None and self._entries >= _ENTRIES_MAX)
        ):
            raise RefusedError(
                f"the KV configuration takes {_ENTRIES_MAX} entries of {_ENTRY_CHARS_MAX} "
                f"characters, {_TABLE_CHARS_MAX} in all",
                code=_SYSTEM_ERROR,
            )
        self._table.setdefault(namespace, {})[key] = value
        self._entries += before is None
        self._chars += grown

    def value(self, namespace: str, key: str) -> str | None:
        """Returns a text, or None."""
        return self._table.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> bool:
        """Removes a text; returns whether there was one."""
        entries = self._table.get(namespace)
        if entries is None or key not in entries:
            return False
        self._chars -= len(key) + len(entries.pop(key))
        self._entries -= 1
        return True

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Returns a copy of a namespace, or None where nothing was ever put into it."""
        entries = self._table.get(namespace)
        return dict(entries) if entries is not None else None

    def snapshot(self) -> Table:
        """Returns a copy that later changes leave alone."""
        return {name: dict(entries) for name, entries in self._table.items()}


def read_kv(path: Path) -> tuple[KvTable, PersistedTable]:
    """Returns the table of a `kvConfig.json`, and what writes it. Blocks on the disk.

    Raises:
        ConfigFileError: There is a file, and neither it nor the one before can be read.
    """
    table = KvTable()
    file = StateFile(path, empty_is_absent=False)
    persisted = PersistedTable(file, load=table.load, snapshot=table.text)
    try:
        persisted.load()
    except StateFileError as error:
        why = error.message.removeprefix(f"{path}: ")
        raise ConfigFileError(error.message, path=str(path), line=0, why=why) from error
    return table, persisted


def _encoded(table: Table) -> bytes:
    text = json.dumps({"configTable": table}, ensure_ascii=False, indent="\t")
    return text.encode("utf-8", "replace")


def _decoded(content: bytes) -> Table:
    value = json.loads(content)
    table = value.get("configTable") if isinstance(value, dict) else None
    if not isinstance(table, dict):
        raise ValueError("no configTable")  # noqa: TRY004 - as json itself does
    for entries in table.values():
        if not isinstance(entries, dict) or not all(
            isinstance(text, str) for text in entries.values()
        ):
            raise ValueError("a namespace is no table of texts")
    return table
