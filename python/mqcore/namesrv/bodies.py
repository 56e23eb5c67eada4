"""Reads the bodies that brokers and administrators send: registrations, data versions, routes.

Bodies come from Java of two generations and from others: a member may be missing, a number may be
a text. What cannot be read refuses the request and nothing else. Pure functions of bytes.
"""

import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mqcore.errors import MQError, RefusedError
from mqcore.model.static_topics import StaticQueues
from mqcore.model.versions import DataVersion
from mqcore.namesrv.shapes import FIRST_VERSION, Queues
from mqcore.native import parse_relaxed_json

__all__ = [
    "INFLATED_BYTES_MAX",
    "crc_of",
    "read_data_version",
    "read_queue_datas",
    "read_registration",
    "read_wrapper",
]

# A frame has at most 16 MiB; a table of topics deflates to about a fifth.
INFLATED_BYTES_MAX = 128 << 20
_SYSTEM_ERROR = 1
_CRC_MASK = 0x7FFFFFFF
_I32 = 1 << 31
_I64 = 1 << 63

Table = tuple[DataVersion, dict[str, Queues]]


def crc_of(body: bytes) -> int:
    """Returns the checksum of a body as a registration carries it."""
    return zlib.crc32(body) & _CRC_MASK


def read_registration(body: bytes, *, is_compressed: bool) -> Table:
    """Returns the data version and the topics of a RegisterBrokerBody.

    Args:
        body: The body as it came; none means an empty table.
        is_compressed: Whether it is the compressed form.

    Raises:
        RefusedError: It cannot be read.
    """
    if not body:
        return FIRST_VERSION, {}
    if is_compressed:
        return _compressed(body)
    return _wrapper(_mapping(_parsed(body), "topicConfigSerializeWrapper"))


def read_wrapper(body: bytes) -> Table:
    """Returns the same of a bare TopicConfigSerializeWrapper, as brokers before 3.0.11 send it.

    Raises:
        RefusedError: It cannot be read.
    """
    return _wrapper(_parsed(body)) if body else (FIRST_VERSION, {})


def read_data_version(body: bytes) -> DataVersion:
    """Returns a data version; no body means the first one.

    Raises:
        RefusedError: It cannot be read.
    """
    return _data_version(_parsed(body)) if body else FIRST_VERSION


def read_queue_datas(body: bytes) -> list[tuple[str, Queues]]:
    """Returns broker names and queues of a TopicRouteData.

    Raises:
        RefusedError: It cannot be read.
    """
    rows = _parsed(body).get("queueDatas") if body else None
    if rows is None:
        return []
    if not isinstance(rows, list):
        raise _bad("queueDatas is no list")
    found = []
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("brokerName"), str):
            raise _bad("a row of queueDatas has no brokerName")
        found.append((row["brokerName"], _queues(row)))
    return found


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        value = parse_relaxed_json(body)
    except MQError as error:
        raise _bad(error.message) from error
    if not isinstance(value, dict):
        raise _bad("no object")
    return value


def _wrapper(wrapper: Mapping[str, Any]) -> Table:
    topics = {}
    for topic, row in _mapping(wrapper, "topicConfigTable").items():
        if not isinstance(row, dict):
            raise _bad(f"topic {topic}: no object")
        name = row.get("topicName")
        topics[name if isinstance(name, str) and name else topic] = _queues(row)
    for topic, row in _mapping(wrapper, "topicQueueMappingInfoMap").items():
        _take_static(topics, topic, row)
    return _data_version(_mapping(wrapper, "dataVersion")), topics


def _compressed(body: bytes) -> Table:
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(body, INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise _bad(str(error)) from error
    if inflater.unconsumed_tail:
        raise _bad(f"it inflates to more than {INFLATED_BYTES_MAX} bytes")
    if not inflater.eof:
        raise _bad("the compressed stream is cut short")
    version, at = _block(plain, 0)
    count, at = _length(plain, at)
    topics = {}
    for _ in range(count):
        entry, at = _block(plain, at)
        try:
            words = entry.decode().split(" ", 5)
            topics[words[0]] = Queues(
                _bounded(int(words[1])), _bounded(int(words[2])), _bounded(int(words[3]))
            )
        except (ValueError, IndexError) as error:
            raise _bad(f"topic entry {entry[:80]!r}") from error
    if at < len(plain):
        _filter_servers, at = _block(plain, at)
    # What follows is of 5.x.
    count, at = _length(plain, at) if at < len(plain) else (0, at)
    for _ in range(count):
        entry, at = _block(plain, at)
        row = _parsed(entry)
        _take_static(topics, str(row.get("topic")), row)
    return read_data_version(version), topics


def _take_static(topics: dict[str, Queues], topic: str, row: Any) -> None:
    """Notes what a broker leads of a static topic."""
    if not isinstance(row, dict):
        raise _bad(f"the mapping of {topic}: no object")
    known = topics.get(topic)
    if known is not None:
        topics[topic] = replace(known, static=StaticQueues.of_json(row))


def _length(plain: bytes, at: int) -> tuple[int, int]:
    if at + 4 > len(plain):
        raise _bad("it ends in the middle")
    length = int.from_bytes(plain[at : at + 4], "big", signed=True)
    # Of topics as of bytes: each takes a byte at least.
    if not 0 <= length <= len(plain) - at - 4:
        raise _bad(f"a length of {length} where {len(plain) - at - 4} bytes are left")
    return length, at + 4


def _block(plain: bytes, at: int) -> tuple[bytes, int]:
    length, at = _length(plain, at)
    return plain[at : at + length], at + length


def _mapping(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = table.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _bad(f"{name} is no object")
    return value


def _data_version(row: Mapping[str, Any]) -> DataVersion:
    return DataVersion(
        _number(row, "counter", _I64),
        _number(row, "timestamp", _I64),
        _number(row, "stateVersion", _I64),
    )


def _queues(row: Mapping[str, Any]) -> Queues:
    """Reads counts and flags; what a TopicConfig leaves out has the default of its Java class."""
    return Queues(
        _number(row, "readQueueNums", _I32, 16),
        _number(row, "writeQueueNums", _I32, 16),
        _number(row, "perm", _I32, 6),
        _number(row, "topicSysFlag", _I32),
    )


def _number(row: Mapping[str, Any], name: str, bound: int, default: int = 0) -> int:
    value = row.get(name)
    if value is None:
        return default
    if isinstance(value, str):
        try:
            value = int(value) if len(value) <= 20 else None
        except ValueError:
            value = None
    if not isinstance(value, int) or isinstance(value, bool):
        raise _bad(f"{name} is no number")
    return _bounded(value, bound)


def _bounded(value: int, bound: int = _I32) -> int:
    if not -bound <= value < bound:
        raise _bad(f"{value} is out of range")
    return value


def _bad(why: str) -> RefusedError:
    return RefusedError(f"the body cannot be read: {why[:200]}", code=_SYSTEM_ERROR)
