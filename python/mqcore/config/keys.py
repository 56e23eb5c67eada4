"""The table of all keys: what can be set on official brokers and name servers, and what we do.

The rows of `tables/*.txt`, one line per key, are the only declaration of a setting; what follows
from them is made by `derived`. A default that follows the reported version is written as two:
`= 5.x: =` is that of 4.9 below version 5.0 and that of 5.3 from there on. An official default that
5.5 has otherwise than 5.3 is written behind it: `3000 5.5: 10000`, or `- 5.5: true` of a key that
came after 5.3. Knows no file of a user and no program.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType

COLUMNS = 11
TABLES_DIR: Traversable = resources.files("mqcore.config") / "tables"
_LIVE = "live"
_NEXT_START = "next start"
# Between the default below version 5.0 and the one from there on.
_FROM_5 = " 5.x: "
# Between the default of 5.3 and that of 5.5.
_IN_55 = " 5.5: "
# Spellings of older releases, and of fields whose setter is named otherwise.
SPELLINGS: Mapping[str, str] = MappingProxyType(
    {
        "mapedFileSizeCommitLog": "mappedFileSizeCommitLog",
        "mapedFileSizeConsumeQueue": "mappedFileSizeConsumeQueue",
        "mapedFileSizeConsumeQueueExt": "mappedFileSizeConsumeQueueExt",
        "warmMappedFileEnable": "warmMapedFileEnable",
        "flushLeastPagesWhenWarmMappedFile": "flushLeastPagesWhenWarmMapedFile",
        "destroyMappedFileIntervalForcibly": "destroyMapedFileIntervalForcibly",
        "putMsgIndexHighWater": "putMsgIndexHightWater",
        "isEnableBatchPush": "enableBatchPush",
    }
)


class Program(Enum):
    """Whose configuration it is."""

    BROKER = "broker"
    NAMESRV = "namesrv"
    CONTROLLER = "controller"


_TABLES = {
    Program.BROKER: ("broker", "store", "own", "server", "auth", "access"),
    # A name server may have a controller in it: what both have is its own.
    Program.NAMESRV: ("namesrv", "server", "controller", "auth", "access"),
    Program.CONTROLLER: ("controller", "server", "auth", "access"),
}


class Fate(Enum):
    """What becomes of a key that somebody sets.

    `REFUSED` keys promise what is not there: another value than the default refuses the start.
    """

    ENGINE = "engine"
    BROKER = "broker"
    NAMESRV = "namesrv"
    CONTROLLER = "controller"
    SERVER = "server"
    INERT = "inert"
    REFUSED = "refused"

    @property
    def is_honoured(self) -> bool:
        """Whether the key has an effect."""
        return self not in (Fate.INERT, Fate.REFUSED)


@dataclass(frozen=True, slots=True)
class Key:
    """One key.

    Attributes:
        name: Its official name.
        kind: The kind of its values and their range, see `values.parsed`.
        unit: The unit of its values; empty for texts, switches and plain counts.
        official_49: The default of 4.9, as a text for people; None when 4.9 has no such key.
        official_53: The default of 5.3; None when 5.3 has no such key.
        official_55: The default of 5.5; None when 5.5 has no such key.
        default: Our default, as a properties file would have it.
        default_5: The same of a broker that reports version 5.0 or later.
        fate: What becomes of it, and who reads it.
        field: The field of typed settings that it becomes, `listener.` before one of a listener's,
            `controller.` before one of a controller's, `access.` before one of access control;
            empty for a key that only the store reads.
        is_live: Whether a tool may change it while the broker runs.
        is_kept: Whether a tool may change it in the broker's file, for the next start.
        policy: The field of the fast path's policy or of the engine that it becomes, see
            `policy_fields` and `engine_rows`; or empty.
        words: What it means; of an inert or refused key why.
    """

    name: str
    kind: str
    unit: str
    official_49: str | None
    official_53: str | None
    official_55: str | None
    default: str
    default_5: str
    fate: Fate
    field: str
    is_live: bool
    is_kept: bool
    policy: str
    words: str

    @property
    def is_secret(self) -> bool:
        """Whether its value must not be shown."""
        return self.kind == "secret"


@cache
def keys_of(program: Program) -> Mapping[str, Key]:
    """Returns every key of a program by its name, in the order of the tables.

    Of a name that is in two of its tables the first row counts.
    """
    found: dict[str, Key] = {}
    for table in _TABLES[program]:
        for key in table_keys(table):
            found.setdefault(key.name, key)
    return MappingProxyType(found)


@cache
def table_keys(table: str) -> tuple[Key, ...]:
    """Returns the keys of one table.

    Raises:
        ValueError: A row cannot be read.
    """
    return tuple(_key(cells) for cells in table_lines(table, COLUMNS))


def table_lines(table: str, columns: int) -> list[list[str]]:
    """Returns the cells of the rows of a table.

    Raises:
        ValueError: A row has more columns, or fewer.
    """
    text = (TABLES_DIR / f"{table}.txt").read_text(encoding="utf-8")
    rows = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != columns:
            raise ValueError(f"a row of the table {table} has {len(cells)} columns: {line}")
        rows.append(cells)
    return rows


def _key(cells: list[str]) -> Key:
    name, kind, unit, in_49, in_53, ours, fate, field, live, policy, words = cells
    if live not in ("", _LIVE, _NEXT_START):
        raise ValueError(f"the row of {name}: {live} is neither {_LIVE} nor {_NEXT_START}")
    in_53, has_other, in_55 = in_53.partition(_IN_55)
    in_55 = in_55 if has_other else in_53
    official = next((each for each in (in_49, in_53) if each != "-"), in_55)
    default, has_two, from_5 = ours.partition(_FROM_5)
    default = official if default == "=" else default
    if has_two:
        from_5 = in_53 if from_5 == "=" else from_5
    return Key(
        name=name,
        kind=kind,
        unit=unit,
        official_49=None if in_49 == "-" else in_49,
        official_53=None if in_53 == "-" else in_53,
        official_55=None if in_55 == "-" else in_55,
        default=default,
        default_5=from_5 if has_two else default,
        fate=Fate(fate),
        field=field,
        is_live=live == _LIVE,
        is_kept=live == _NEXT_START,
        policy=policy,
        words=words,
    )


def folded(name: str) -> str:
    """Returns a name without case, dots and underscores, as environment variables lose them."""
    return "".join(char for char in name.lower() if char.isalnum())


def nearest(name: str, program: Program) -> str | None:
    """Returns the key that a misspelt name most likely means, or None."""
    names = {folded(each): each for each in keys_of(program)}
    close = difflib.get_close_matches(folded(name), names, n=1, cutoff=0.75)
    return names[close[0]] if close else None
