"""The options of `format("mqcore-store")`: names, defaults, and what contradicts itself.

Names count in any case. Knows no file and no record.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mqcore.native.columns import BATCH_BYTES, BATCH_ROWS, BadRecords
from mqcore.spark.options import (
    Option,
    OptionError,
    OptionTable,
    choice,
    contradiction,
    name_list,
    number,
    positive,
    size_bytes,
    text,
    time_ms,
    truth,
    wrong,
)

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
# Without bodies a task passes over most of them: so many take about as long.
BODILESS_SPLIT_BYTES: Final = 512 * 1024 * 1024
# What begins so goes to fsspec without the prefix: `fsspec.key`, `fsspec.secret`, `fsspec.anon`.
STORAGE_PREFIX: Final = "fsspec."


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
        start_physical: Only records that begin at this physical offset or behind.
        end_physical: Only records that begin before this physical offset.
        split_bytes: Bytes of the log that one task reads; None for what fits the columns.
        has_uncommitted: With half messages and all system topics.
        is_flushed_only: Of a store that was not closed only what its checkpoint calls flushed.
        bad_records: What is done where no whole record is.
        fails_on_data_loss: Whether a file that vanished after planning is an error.
        has_properties: With the map of properties, where no schema is given.
        has_body: With the body, where no schema is given.
        broker_name: The value of the column `brokerName`; a log does not know its broker's name.
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
    split_bytes: int | None = None
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


def _names(option: str, value: str) -> tuple[str, ...] | None:
    """Names with commas between, or as a subscription writes tags: `a || b`; `*` is all."""
    return None if value.strip() == "*" else name_list(option, value.replace("||", ","))


def _paths(option: str, value: str) -> tuple[str, ...]:
    """A path, or a JSON list of paths, as Spark gives the arguments of `load([...])`."""
    if not value.startswith("["):
        return (text(option, value),)
    try:
        paths = json.loads(value)
    except ValueError:
        paths = None
    if not (isinstance(paths, list) and paths and all(isinstance(path, str) for path in paths)):
        raise wrong(option, value, "a path, or a JSON list of paths")
    return tuple(paths)


OPTIONS: Final = (
    Option("path", "paths", _paths, ("paths",), "store, its commitlog, a file of it, or a pattern"),
    Option("view", "view", choice(*VIEWS), (), "what the rows are"),
    Option(
        "verify", "verify", choice("none", "crc", "full"), (), "what is checked; full: findings"
    ),
    Option("topics", "topics", _names, ("topic", "subscribe"), "only these topics"),
    Option("tags", "tags", _names, ("filter", "subExpression"), "only these tags"),
    Option("startTimestamp", "start_ms", time_ms, ("startingTimestamp",), "stored then or later"),
    Option("endTimestamp", "end_ms", time_ms, ("endingTimestamp",), "stored before"),
    Option("startPhysical", "start_physical", number, (), "this physical offset or behind"),
    Option("endPhysical", "end_physical", number, (), "before this physical offset"),
    Option("splitBytes", "split_bytes", size_bytes, (), "bytes of the log that one task reads"),
    Option(
        "includeUncommitted",
        "has_uncommitted",
        truth,
        ("includeSystemTopics",),
        "with half messages and all system topics",
    ),
    Option("flushedOnly", "is_flushed_only", truth, (), "of an open store only what is flushed"),
    Option("badRecords", "bad_records", choice("fail", "skip", "emit"), (), "what damage becomes"),
    Option("failOnDataLoss", "fails_on_data_loss", truth, (), "a file that vanished is an error"),
    Option("includeProperties", "has_properties", truth, (), "with the map of properties"),
    Option("includeBody", "has_body", truth, (), "with the body"),
    Option("brokerName", "broker_name", text, (), "what the column brokerName says"),
    Option("pushdown", "pushdown", truth, (), "take filters of the query"),
    Option("batchRows", "batch_rows", positive, (), "rows of a batch on its way to Spark"),
    Option("batchBytes", "batch_bytes", size_bytes, (), "bytes of one"),
)
_TABLE: Final = OptionTable('format("mqcore-store")', OPTIONS)


def parse(given: Mapping[str, str]) -> StoreOptions:
    """Returns the options as Spark gives them, checked.

    Raises:
        OptionError: One is unknown (the nearest is named), has an impossible value, is missing or
            contradicts another.
    """
    storage = {
        name.lower().removeprefix(STORAGE_PREFIX): _storage_value(value)
        for name, value in given.items()
        if name.lower().startswith(STORAGE_PREFIX)
    }
    ours = {
        name: value for name, value in given.items() if not name.lower().startswith(STORAGE_PREFIX)
    }
    values = _TABLE.parse(ours)
    if "paths" not in values:
        raise OptionError('no path: use .load("/a/store") or .option("path", ...)', option="path")
    verify = values.pop("verify", "none")
    if verify == "full":
        if values.setdefault("view", "messages") != "messages":
            raise contradiction("verify", "verify=full gives findings; leave the view out")
        values["view"] = FINDINGS
    options = StoreOptions(**values, verify_crc=verify == "crc", storage=storage)
    _check_bounds(options)
    return options


def _storage_value(value: str) -> Any:
    """JSON where it is some (true, numbers, objects), and the text itself otherwise."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def _check_bounds(options: StoreOptions) -> None:
    for first, last, low, high in (
        ("startTimestamp", "endTimestamp", options.start_ms, options.end_ms),
        ("startPhysical", "endPhysical", options.start_physical, options.end_physical),
    ):
        if low is not None and high is not None and low > high:
            raise contradiction(first, f"{first} {low} lies behind {last} {high}")
    if options.pushdown and options.bad_records == "emit":
        raise contradiction(
            "pushdown",
            "pushdown drops rows before Spark sees them, and badRecords=emit wants every damaged "
            "place as a row: use one of them",
        )
