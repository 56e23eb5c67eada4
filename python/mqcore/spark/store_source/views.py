"""What else a store directory holds, as tables: files, queues, index, small state, findings.

Each view is its columns and what gives its rows. Knows no record of the log.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mqcore.model.groups import GroupConfig
from mqcore.model.reading import as_dict, as_int
from mqcore.model.topics import TopicConfig
from mqcore.native.columns import queue_units
from mqcore.native.inspection import Inspection
from mqcore.native.wire import parse_relaxed_json
from mqcore.native.wire_errors import JsonTextError
from mqcore.spark.arrow import to_arrow
from mqcore.spark.directories import Directory, LocalDirectory, PathError
from mqcore.spark.schema import TIMESTAMP, Projection, ReadColumn
from mqcore.spark.store_source.extensions import EXTENSION_CODE_MAX, ExtensionReader
from mqcore.spark.store_source.planning import checkpoint_of
from mqcore.spark.store_source.segments import (
    CONFIG_DIRECTORY,
    first_store_ms,
    last_store_ms,
    segments_of,
    store_root,
    without_prepared,
)

Row = dict[str, Any]
_INDEX_HEADER: Final = struct.Struct(">qqqqii")
_UNIT_LEN_BYTES: Final = 20
# Units of a piece of a queue file: as many rows as go well through Spark's pipe.
_UNITS: Final = 8192
_UNIT_SCHEMA: Final = pa.schema(
    {
        "queueOffset": pa.int64(),
        "physicalOffset": pa.int64(),
        "sizeBytes": pa.int32(),
        "tagsCode": pa.int64(),
    }
)
_TYPES: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class View:
    """One view.

    Attributes:
        columns: What its rows have.
        batches: Gives the rows of a directory.
    """

    columns: tuple[ReadColumn, ...]
    batches: Callable[[Directory, Projection], Iterator[pa.RecordBatch]]


def _columns(ddl: str) -> tuple[ReadColumn, ...]:
    """Returns columns from `name type` pairs; a `?` behind the type marks one that may be null."""
    pairs = [pair.split() for pair in ddl.split(",")]
    return tuple(
        ReadColumn(name, kind.rstrip("?"), _TYPES[kind.rstrip("?")], kind.endswith("?"), "")
        for name, kind in pairs
    )


def _table(ddl: str, rows: Callable[[Directory], Iterator[Row]]) -> View:
    """Returns a view of few rows."""

    def batches(directory: Directory, projection: Projection) -> Iterator[pa.RecordBatch]:
        names = projection.arrow.names
        found = [
            {name: row[column] for name, column in zip(names, projection.columns, strict=True)}
            for row in rows(directory)
        ]
        if found:
            yield pa.RecordBatch.from_pylist(found, schema=projection.arrow)

    return View(_columns(ddl), batches)


def _root(directory: Directory) -> str:
    root = store_root(directory)
    if root is None:
        raise PathError(f"{directory.root} is no store: it has no commitlog", path=directory.root)
    return root


def _us(time_ms: int | None) -> int | None:
    return None if time_ms is None else time_ms * 1000


def _segments(directory: Directory) -> Iterator[Row]:
    for segment in without_prepared(directory, segments_of(directory)):
        yield {
            "path": segment.path,
            "startPhysical": segment.base,
            "sizeBytes": segment.len_bytes,
            "firstStoreTimestamp": _us(first_store_ms(directory, segment)),
            "lastStoreTimestamp": _us(last_store_ms(directory, segment)),
        }


def _index(directory: Directory) -> Iterator[Row]:
    for entry in directory.files(f"{_root(directory)}/index"):
        header = directory.read(entry.path, 0, _INDEX_HEADER.size)
        if not entry.name.isdecimal() or len(header) < _INDEX_HEADER.size:
            continue
        begin_ms, end_ms, begin, end, slots, next_entry = _INDEX_HEADER.unpack(header)
        yield {
            "path": entry.path,
            "beginTimestamp": _us(begin_ms),
            "endTimestamp": _us(end_ms),
            "beginPhysical": begin,
            "endPhysical": end,
            "slotsUsed": slots,
            # Entry 0 is never used.
            "entries": max(next_entry - 1, 0),
        }


def _state(directory: Directory, name: str) -> Row:
    """Returns a small state file, or its generation before; an empty object without either."""
    path = f"{_root(directory)}/{CONFIG_DIRECTORY}/{name}"
    fault: JsonTextError | None = None
    for candidate in (path, f"{path}.bak"):
        if not directory.size(candidate):
            continue
        try:
            return as_dict(parse_relaxed_json(directory.read(candidate)))
        except JsonTextError as error:
            fault = error
    if fault is not None:
        raise PathError(f"{path} and its .bak cannot be read: {fault}", path=path) from fault
    return {}


def _topics(directory: Directory) -> Iterator[Row]:
    table = as_dict(_state(directory, "topics.json").get("topicConfigTable"))
    for name, value in sorted(table.items()):
        topic = TopicConfig.of_json(value, name)
        yield {
            "topic": topic.name,
            "readQueues": topic.read_queues,
            "writeQueues": topic.write_queues,
            "perm": topic.perm,
            "sysFlag": topic.sys_flag,
            "isOrdered": topic.order,
        }


def _groups(directory: Directory) -> Iterator[Row]:
    table = as_dict(_state(directory, "subscriptionGroup.json").get("subscriptionGroupTable"))
    for name, value in sorted(table.items()):
        group = GroupConfig.of_json(value, name)
        yield {
            "group": group.name,
            "isConsumeEnabled": group.is_consume_enabled,
            "isBroadcastEnabled": group.is_broadcast_enabled,
            "retryQueues": group.retry_queues,
            "retryMaxTimes": group.retry_max_times,
        }


def _offsets(directory: Directory) -> Iterator[Row]:
    table = as_dict(_state(directory, "consumerOffset.json").get("offsetTable"))
    for key, queues in sorted(table.items()):
        topic, _at, group = key.partition("@")
        for queue_id, offset in as_dict(queues).items():
            yield {
                "topic": topic,
                "group": group,
                "queueId": as_int(queue_id),
                "queueOffset": as_int(offset),
            }


def _checkpoint(directory: Directory) -> Iterator[Row]:
    found = checkpoint_of(directory)
    if found is not None:
        yield {
            "physicTimestamp": _us(found.physic_ms),
            "logicsTimestamp": _us(found.logics_ms),
            "indexTimestamp": _us(found.index_ms),
            "masterFlushedOffset": found.master_flushed_offset,
            "confirmOffset": found.confirm_offset,
        }


def _findings(directory: Directory) -> Iterator[Row]:
    """Walks log, queues and index by the one code that verifies stores."""
    if not isinstance(directory, LocalDirectory):
        raise PathError(
            f"verify=full reads local directories, and not {directory.root}: copy the store here",
            path=directory.root,
        )
    result = Inspection(_root(directory)).verify()
    for problem in result.problems:
        part, why = problem.part, problem.why
        yield {"severity": "problem", "part": part, "place": problem.at, "reason": why}
    left_out = result.problem_count - len(result.problems)
    if left_out:
        why = f"{left_out} more problems are not listed"
        yield {"severity": "problem", "part": "all", "place": "", "reason": why}
    for note in result.notes:
        yield {"severity": "note", "part": "all", "place": "", "reason": note}


def _queue_units(directory: Directory, projection: Projection) -> Iterator[pa.RecordBatch]:
    """Yields the units of all queues, file by file."""
    store = _root(directory)
    root = f"{store}/consumequeue"
    for topic in directory.directories(root):
        queue_ids = [name for name in directory.directories(f"{root}/{topic}") if name.isdecimal()]
        for queue_id in sorted(queue_ids, key=int):
            extension = ExtensionReader(directory, f"{store}/consumequeue_ext/{topic}/{queue_id}")
            for entry in directory.files(f"{root}/{topic}/{queue_id}"):
                if not entry.name.isdecimal():
                    continue
                known = {"topic": pa.scalar(topic), "queueId": pa.scalar(int(queue_id), pa.int32())}
                for units in _units_of(directory, entry.path, int(entry.name)):
                    yield _shown(units, extension, known, projection)


def _units_of(directory: Directory, path: str, base: int) -> Iterator[pa.RecordBatch]:
    step = _UNITS * _UNIT_LEN_BYTES
    len_bytes = directory.size(path) or 0
    for at in range(0, len_bytes, step):
        bytes_ = directory.read(path, at, step)
        # Behind the last unit the file is zero to its end.
        if not any(bytes_[:_UNIT_LEN_BYTES]):
            return
        units = to_arrow(queue_units(bytes_, (base + at) // _UNIT_LEN_BYTES), _UNIT_SCHEMA)
        if units.num_rows:
            yield units


def _shown(
    units: pa.RecordBatch,
    extension: ExtensionReader,
    known: dict[str, pa.Scalar],
    projection: Projection,
) -> pa.RecordBatch:
    """Returns the columns that were asked for, with the tags codes that the extension holds."""

    def column(name: str) -> pa.Array:
        if name in known:
            return pa.repeat(known[name], units.num_rows)
        values = units.column(name)
        if name == "tagsCode" and pc.min(values).as_py() <= EXTENSION_CODE_MAX:
            codes = [extension.tags_code(code) for code in values.to_pylist()]
            return pa.array(codes, pa.int64())
        return values

    arrays = [column(name) for name in projection.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=projection.arrow)


VIEW_TABLES: Final = {
    "segments": _table(
        "path string, startPhysical bigint, sizeBytes bigint, firstStoreTimestamp timestamp?, "
        "lastStoreTimestamp timestamp?",
        _segments,
    ),
    "consumequeue": View(
        _columns(
            "topic string, queueId int, queueOffset bigint, physicalOffset bigint, sizeBytes int, "
            "tagsCode bigint?"
        ),
        _queue_units,
    ),
    "index": _table(
        "path string, beginTimestamp timestamp, endTimestamp timestamp, beginPhysical bigint, "
        "endPhysical bigint, slotsUsed int, entries int",
        _index,
    ),
    "topics": _table(
        "topic string, readQueues int, writeQueues int, perm int, sysFlag int, isOrdered boolean",
        _topics,
    ),
    "groups": _table(
        "group string, isConsumeEnabled boolean, isBroadcastEnabled boolean, retryQueues int, "
        "retryMaxTimes int",
        _groups,
    ),
    "offsets": _table("topic string, group string, queueId int, queueOffset bigint", _offsets),
    "checkpoint": _table(
        "physicTimestamp timestamp, logicsTimestamp timestamp, indexTimestamp timestamp, "
        "masterFlushedOffset bigint, confirmOffset bigint",
        _checkpoint,
    ),
    "findings": _table("severity string, part string, place string, reason string", _findings),
}
