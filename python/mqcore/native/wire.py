"""Commands of the remoting protocol as bytes and back; knows no socket.

`FrameReader.feed` turns received bytes into commands, `Command.encode` a command into bytes,
`FrameForm.encode` many requests of one kind, `encode_parts` messages into the body of a batch. A
`CallTable` has the requests of a connection that wait for their answer.
"""

from enum import IntEnum
from typing import Any

from mqcore.native._native import (
    CallTable,
    Command,
    EncodedParts,
    FrameForm,
    FrameReader,
    SendAnswer,
    encode_parts,
)
from mqcore.native._native import compress as _compress
from mqcore.native._native import decompress as _decompress
from mqcore.native._native import parse_relaxed_json as _parse_relaxed_json

__all__ = [
    "FRAME_BYTES_MAX",
    "CallTable",
    "Command",
    "Compression",
    "EncodedParts",
    "FrameForm",
    "FrameReader",
    "SendAnswer",
    "Serialization",
    "compress",
    "decompress",
    "encode_parts",
    "parse_relaxed_json",
]

# What the original accepts (com.rocketmq.remoting.frameMaxLength).
FRAME_BYTES_MAX = 16 * 1024 * 1024


class Serialization(IntEnum):
    """How the header of a command is written."""

    JSON = 0
    ROCKETMQ = 1


class Compression(IntEnum):
    """How a body is compressed: the number in bits 8 to 10 of a system flag."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


def compress(body: bytes, kind: Compression = Compression.ZLIB, level: int = 5) -> bytes:
    """Returns the body made small, as the Java client does it.

    Args:
        body: The body.
        kind: How.
        level: 0 to 9 for zlib, 1 to 22 for zstd; LZ4 has none. Brought into these bounds.
    """
    return _compress(body, kind, level)


def decompress(body: bytes, kind: Compression, limit_bytes: int) -> bytes:
    """Returns the body as it was before it was made small.

    Args:
        body: The compressed body.
        kind: How it was compressed.
        limit_bytes: The most it may inflate to.

    Raises:
        CompressionError: It is no whole stream of that kind, or inflates to more.
    """
    return _decompress(body, kind, limit_bytes)


def parse_relaxed_json(text: bytes) -> Any:
    """Returns the value of JSON as RocketMQ writes it (fastjson).

    Strict JSON, but for the keys of maps: a bare integer (`{0:5}`) becomes its text, and a bare
    object (`{{"queueId":0,"topic":"T"}:5}`) the text of that object as it is, for `json.loads`.

    Raises:
        JsonTextError: It is none, nests deeper than 64, or is longer than 256 MiB.
    """
    return _parse_relaxed_json(text)
