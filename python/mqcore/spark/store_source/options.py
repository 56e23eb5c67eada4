"""The options of `format("mqcore-store")`: names, defaults, and what contradicts itself.

Names count in any case. Knows no file and no record.
"""

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from mqcore.native.columns import BATCH_BYTES, BATCH_ROWS, BadRecords
from mqcore.spark.errors import SparkError

VIEWS: Final = (
    "messages",
    "segments",
    "consumequeue",
    "index",
    "topics",
    "groups",
    "offsets",
    "checkpoint",
)
# Findings of `verify=full`; a view that is not asked for by its name.
FINDINGS: Final = "findings"
# A task of some seconds: enough to be worth its start, little enough to be done again.
SPLIT_BYTES: Final = 128 * 1024 * 1024
# What begins so goes to fsspec without the prefix: `fsspec.key`, `fsspec.secret`, `fsspec.anon`.
STORAGE_PREFIX: Final = "fsspec."
_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE = re.compile(r"(\d+)\s*([kmg]?)b?", re.IGNORECASE)


class StoreOptionError(SparkError):
    """An option is unknown, has a value that cannot be, or contradicts another.

    Attributes:
        option: Its name.
    """

    option: str


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What is to be read, and how.

    Attributes:
        paths: Store directories, `commitlog` directories, files of a log, or patterns of them.
        view: What the rows are.
        verify_crc: Whether the CRC of every body is compared.
        topics: Only these topics; system topics only so, or with `has_uncommitted`.
        tags: Only messages with one of these tags.
        start_ms: Only messages stored then or later.
        end_ms: Only messages stored before.
        start_physical: Only records that begin at this place of the log or behind.
        end_physical: Only records that begin before this place.
        split_bytes: Bytes of the log that one task reads.
        has_uncommitted: With half messages and all system topics.
        is_flushed_only: Of a store that was not closed only what its checkpoint calls flushed.
        bad_records: What is done where no whole record stands.
        fails_on_data_loss: Whether a file that vanished after planning is an error.
        has_properties: With the map of properties, where no schema is given.
        has_body: With the body, where no schema is given.
        broker_name: What the column `brokerName` says; a log does not know its broker's name.
        pushdown: Take filters from Spark.
        batch_rows: Rows of a batch.
        batch_bytes: Bytes of a batch.
        storage: What fsspec opens the paths with.
    """

    paths: tuple[str, ...]
    view: str = "messages"
    verify_crc: bool = False
    topics: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    start_physical: int | None = None
    end_physical: int | None = None
    split_bytes: int = SPLIT_BYTES
    has_uncommitted: bool = False
    is_flushed_only: bool = False
    bad_records: BadRecords = "fail"
    fails_on_data_loss: bool = True
    has_properties: bool = False
    has_body: bool = True
    broker_name: str | None = None
    pushdown: bool = False
    batch_rows: int = BATCH_ROWS
    batch_bytes: int = BATCH_BYTES
    storage: dict[str, Any] = field(default_factory=dict, repr=False)


def _fault(option: str, value: str, wanted: str) -> StoreOptionError:
    return StoreOptionError(f"the option {option} is {wanted}, and not {value!r}", option=option)


def _truth(option: str, value: str) -> bool:
    folded = value.strip().lower()
    if folded not in ("true", "false"):
        raise _fault(option, value, "true or false")
    return folded == "true"


def _number(option: str, value: str) -> int:
    if not value.strip().isdecimal():
        raise _fault(option, value, "a number that is not negative")
    return int(value)


def _positive(option: str, value: str) -> int:
    number = _number(option, value)
    if number == 0:
        raise _fault(option, value, "a number above 0")
    return number


def _bytes(option: str, value: str) -> int:
    found = _SIZE.fullmatch(value.strip())
    if found is None or int(found[1]) == 0:
        raise _fault(option, value, "a number of bytes, as 1048576, 512k or 128m")
    return int(found[1]) * _UNITS[found[2].lower()]


def _time_ms(option: str, value: str) -> int:
    text = value.strip()
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        wanted = "milliseconds since 1970, or a time as 2026-01-31T12:00:00+01:00"
        raise _fault(option, value, wanted) from None
    # A time without a zone is UTC, whatever zone the machines of a cluster are in.
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _names(option: str, value: str) -> tuple[str, ...] | None:
    if value.strip() in ("", "*"):
        return None
    names = tuple(name.strip() for name in re.split(r"\|\||,", value))
    if not all(names):
        raise _fault(option, value, "names separated by commas")
    return names


def _choice(*choices: str) -> Callable[[str, str], str]:
    def parse(option: str, value: str) -> str:
        folded = value.strip().lower()
        if folded in choices:
            return folded
        near = difflib.get_close_matches(folded, choices, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise _fault(option, value, f"one of {', '.join(choices)}{hint}")

    return parse


def _paths(option: str, value: str) -> tuple[str, ...]:
    if not value.startswith("["):
        return (value,)
    try:
        paths = json.loads(value)
    except ValueError:
        raise _fault(option, value, "a path, or a JSON list of paths") from None
    if not (isinstance(paths, list) and paths and all(isinstance(path, str) for path in paths)):
        raise _fault(option, value, "a path, or a JSON list of paths")
    return tuple(paths)


def _text(_option: str, value: str) -> str:
    return value


# Name as users write it, attribute, parser. `verify` is taken apart below.
_TABLE: Final[tuple[tuple[str, str, Callable[[str, str], Any]], ...]] = (
    ("path", "paths", _paths),
    ("paths", "paths", _paths),
    ("view", "view", _choice(*VIEWS)),
    ("verify", "verify", _choice("none", "crc", "full")),
    ("topics", "topics", _names),
    ("topic", "topics", _names),
    ("tags", "tags", _names),
    ("startTimestamp", "start_ms", _time_ms),
    ("endTimestamp", "end_ms", _time_ms),
    ("startPhysical", "start_physical", _number),
    ("endPhysical", "end_physical", _number),
    ("splitBytes", "split_bytes", _bytes),
    ("includeUncommitted", "has_uncommitted", _truth),
    ("includeSystemTopics", "has_uncommitted", _truth),
    ("flushedOnly", "is_flushed_only", _truth),
    ("badRecords", "bad_records", _choice("fail", "skip", "emit")),
    ("failOnDataLoss", "fails_on_data_loss", _truth),
    ("includeProperties", "has_properties", _truth),
    ("includeBody", "has_body", _truth),
    ("brokerName", "broker_name", _text),
    ("pushdown", "pushdown", _truth),
    ("batchRows", "batch_rows", _positive),
    ("batchBytes", "batch_bytes", _bytes),
)
_BY_FOLDED_NAME: Final = {name.lower(): (name, *rest) for name, *rest in _TABLE}


def parse(given: Mapping[str, str]) -> StoreOptions:
    """Returns the options as Spark gives them, checked.

    Raises:
        StoreOptionError: One is unknown (the nearest is named), has an impossible value, is missing
            or contradicts another.
    """
    values: dict[str, Any] = {}
    storage: dict[str, Any] = {}
    for given_name, text in given.items():
        folded = given_name.lower()
        if folded.startswith(STORAGE_PREFIX):
            storage[folded.removeprefix(STORAGE_PREFIX)] = _storage_value(text)
            continue
        if folded not in _BY_FOLDED_NAME:
            near = difflib.get_close_matches(folded, _BY_FOLDED_NAME, n=1)
            names = ", ".join(sorted(row[0] for row in _TABLE))
            hint = f"did you mean {_BY_FOLDED_NAME[near[0]][0]}?" if near else f"there are {names}"
            raise StoreOptionError(f"there is no option {given_name}; {hint}", option=given_name)
        name, attribute, parser = _BY_FOLDED_NAME[folded]
        value = parser(name, text)
        if values.get(attribute, value) != value:
            raise StoreOptionError(
                f"the option {name} contradicts another name of the same option", option=name
            )
        values[attribute] = value
    if "paths" not in values:
        raise StoreOptionError(
            'no path: use .load("/a/store") or .option("path", ...)', option="path"
        )
    verify = values.pop("verify", "none")
    if verify == "full":
        if values.setdefault("view", FINDINGS) not in (FINDINGS, "messages"):
            raise StoreOptionError("verify=full is for messages, not for a view", option="verify")
        values["view"] = FINDINGS
    options = StoreOptions(**values, verify_crc=verify == "crc", storage=storage)
    _check_bounds(options)
    return options


def _storage_value(text: str) -> Any:
    """JSON where it is some (true, numbers, objects), and the text itself otherwise."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _check_bounds(options: StoreOptions) -> None:
    for first, last, low, high in (
        ("startTimestamp", "endTimestamp", options.start_ms, options.end_ms),
        ("startPhysical", "endPhysical", options.start_physical, options.end_physical),
    ):
        if low is not None and high is not None and low > high:
            raise StoreOptionError(f"{first} {low} lies behind {last} {high}", option=first)
    if options.pushdown and options.bad_records == "emit":
        raise StoreOptionError(
            "pushdown drops rows before Spark sees them, and badRecords=emit wants every damaged "
            "place as a row: use one of them",
            option="pushdown",
        )
