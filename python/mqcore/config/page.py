"""Writes the page of all keys from their tables: `python -m mqcore.config.page > FILE`.

The page in `docs` is made by it, and a test keeps it current. Knows no user's settings.
"""

from mqcore.config.existing import EMBEDDED
from mqcore.config.keys import SPELLINGS, Fate, Key, table_keys

_HEAD = """\
# Configuration

Made from the tables of keys by `python -m mqcore.config.page`; a test keeps it current.

A broker reads `mqcore broker run -c FILE`, a name server `mqcore namesrv -c FILE`, a controller
`mqcore controller -c FILE`. A file is a properties file exactly as RocketMQ 4.9 and 5.x have it, or
TOML (its name ends in `.toml`) with the same keys; in TOML a table `[broker]`, `[namesrv]` or
`[controller]` holds what only that program is to take. What
was set last in this list wins:

1. the default; of `mqcore standalone` smaller files, and no port for slaves: {embedded},
   `haListenEnable=false`
2. the variable `NAMESRV_ADDR`, as the official programs take it
3. the file of `-c`
4. variables `MQCORE_BROKER_KEY`, `MQCORE_NAMESRV_KEY` and `MQCORE_CONTROLLER_KEY`; case, dots and
   underscores of KEY do not count: `MQCORE_BROKER_FLUSH_DISK_TYPE=SYNC_FLUSH`
5. `--set KEY=VALUE`, then flags such as `--port`
6. the sizes of files that exist in the store: a broker could not read them with others

`--print-config` (`-p`) shows every effective value, its default and its source. The log of a start
holds them once; secrets are masked in both.

What becomes of a key:

- *honoured*: it has its official effect. Those that are *live* can be changed while the
  program runs, by `mqadmin updateBrokerConfig`, `updateNamesrvConfig` or `updateControllerConfig`.
  Those marked *next start* are taken into the program's properties file (`-c`) and take effect with
  the next start, which the remark of the answer names; all others are changed in that file by hand.
  Without such a file a live change lasts until the program ends, and one of the next start is
  refused. Of the keys of access control a name server and a controller take
  `mqcoreFailedSignaturesPerMinute` and `mqcoreFirstRequestSeconds` alone.
- *without effect*: known; where it is set to another value than the default, a
  warning at the start gives the reason.
- *refused*: it promises durability, replication or access control that is not there. Another value
  than the default refuses the start; `--ignore KEY` starts all the same.

A warning names an unknown key with the nearest known one; with `--strict-config` it is an error. A
value of another type is always an error, as is a number outside the range in the column *kind*
(`int>=0<=100`), and a file that is no text. A boolean that is neither `true` nor `false` is read as
false, as Java reads it, with a warning. Sizes of mqcore's own keys may have a unit (`64m`,
`2 GiB`).

"""
_SECTIONS = (
    ("broker", "Broker", "Keys of `BrokerConfig`."),
    ("store", "Store", "Keys of `MessageStoreConfig`."),
    ("own", "mqcore's own keys of a broker", "An official broker ignores them."),
    ("server", "Connections and TLS", "Broker, name server and controller take them."),
    (
        "auth",
        "Access control",
        "Keys of `AuthConfig`. [Access control](access-control.md) has how they are used.",
    ),
    (
        "access",
        "mqcore's own keys of access control",
        "Broker, name server and controller take them; official programs ignore them.",
    ),
    ("namesrv", "Name server", "Keys of `NamesrvConfig`."),
    (
        "controller",
        "Controller",
        "Keys of `ControllerConfig`; with `enableControllerInNamesrv` a name server takes them.",
    ),
)
_RELEASES = ("4.9", "5.3", "5.5")
_NONE = "–"  # noqa: RUF001 - a dash for people


def page() -> str:
    """Returns the page, as Markdown."""
    embedded = ", ".join(f"`{key}={value}`" for key, value in EMBEDDED.items())
    parts = [_HEAD.format(embedded=embedded)]
    for table, title, words in _SECTIONS:
        parts.append(f"## {title}\n\n{words}\n\n")
        keys = table_keys(table)
        honoured = [key for key in keys if key.fate.is_honoured]
        if honoured:
            parts.append(
                "| honoured key | kind | default | live | meaning |\n|---|---|---|---|---|\n"
            )
            parts += [_honoured(key) for key in honoured]
            parts.append("\n")
        parts += _table("refused", [key for key in keys if key.fate is Fate.REFUSED])
        parts += _table("without effect", [key for key in keys if key.fate is Fate.INERT])
    parts.append("## Other spellings\n\n| written | read as |\n|---|---|\n")
    parts += [f"| `{old}` | `{new}` |\n" for old, new in SPELLINGS.items()]
    return "".join(parts)


def _honoured(key: Key) -> str:
    change = "yes" if key.is_live else "next start" if key.is_kept else ""
    cells = (f"`{key.name}`", key.kind, _default(key), change, key.words)
    return f"| {' | '.join(cells)} |\n"


def _table(title: str, keys: list[Key]) -> list[str]:
    if not keys:
        return []
    head = f"| {title} | default of 4.9 | default of 5.3 | default of 5.5 | why |\n"
    rows = [
        f"| `{key.name}` | {_official(key.official_49)} | {_official(key.official_53)} "
        f"| {_official(key.official_55)} | {key.words} |\n"
        for key in keys
    ]
    return [head, "|---|---|---|---|---|\n", *rows, "\n"]


def _default(key: Key) -> str:
    """Returns our default, and the official one where it differs."""
    if key.default_5 != key.default:
        return f"{key.default}; {key.default_5} where `reportedVersion` is 5.0 or later"
    ours = key.default or "(empty)"
    official = {
        release: text or "(empty)" for release, text in _releases(key) if text != key.default
    }
    if len(official) == len(_RELEASES) and len(set(official.values())) == 1:
        official = {"official": next(iter(official.values()))}
    official_texts = ", ".join(f"{release}: {text}" for release, text in official.items())
    return f"{ours} ({official_texts})" if official_texts else ours


def _releases(key: Key) -> list[tuple[str, str]]:
    """Returns the releases that have the key, with its default there."""
    defaults = zip(_RELEASES, (key.official_49, key.official_53, key.official_55), strict=True)
    return [(release, text) for release, text in defaults if text is not None]


def _official(default: str | None) -> str:
    if default is None:
        return _NONE
    return default or "(empty)"


if __name__ == "__main__":
    print(page(), end="")
