"""The KV configuration: texts by namespace and key, kept in `kvConfig.json` as the official one is.

The table is pure; `KvFile` reads it at the start and writes it after each change: a new file,
synced, renamed over the old one, which stays as `.bak`.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from mqcore.errors import ConfigFileError, RefusedError
from mqcore.native import write_state

__all__ = ["ORDER_NAMESPACE", "KvFile", "KvTable"]

_log = logging.getLogger(__name__)

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
        self._table: Table = {name: dict(entries) for name, entries in (table or {}).items()}
        self._entries = sum(len(entries) for entries in self._table.values())
        self._chars = sum(
            len(key) + len(value)
            for entries in self._table.values()
            for key, value in entries.items()
        )

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
        """Removes a text; tells whether there was one."""
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


class KvFile:
    """`kvConfig.json` on disk."""

    def __init__(self, path: Path) -> None:
        """Takes the path; touches nothing."""
        self._path = path
        self._previous = path.with_name(path.name + ".bak")

    def read(self) -> KvTable:
        """Returns what was written last: of a file that was torn, the one before it.

        Raises:
            ConfigFileError: There is a file, and neither it nor the one before can be read.
        """
        faults = []
        for path in (self._path, self._previous):
            try:
                table = _decoded(path.read_bytes())
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                faults.append(f"{path}: {error}")
                continue
            if faults:
                _log.warning("%s; the one before it is used", faults[0])
            return KvTable(table)
        if faults:
            raise ConfigFileError("; ".join(faults), path=str(self._path), line=0, why=faults[0])
        return KvTable()

    def write(self, table: Table) -> None:
        """Replaces the file's content. Waits for the disk.

        Raises:
            MQError, OSError: It could not be written; the old file is as it was.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"configTable": table}, ensure_ascii=False, indent="\t")
        write_state(self._path, text.encode("utf-8", "replace"))


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
