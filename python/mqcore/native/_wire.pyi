"""Frames, compressed bodies and RocketMQ's JSON of the extension, as type checkers see them."""

from collections.abc import Sequence
from typing import Any, Self, final

from typing_extensions import Buffer

from mqcore.native._native import Command

@final
class FrameForm:
    """Requests of one kind: `encode` takes the values of its fields; None leaves a field out."""

    def __new__(cls, code: int, names: Sequence[str], language: int, version: int) -> Self: ...
    def encode(self, opaque: int, values: tuple[Any, ...], body: bytes, flag: int = 0) -> bytes: ...

@final
class FrameReader:
    """Commands out of bytes that arrive in any pieces, for one connection.

    `feed` raises `FrameError` at the first bad frame; what came whole before is in `before_error`.
    """

    def __new__(cls, max_frame_bytes: int = ...) -> Self: ...
    def feed(self, data: Buffer) -> list[Command]: ...
    @property
    def before_error(self) -> list[Command]: ...
    @property
    def kept_bytes(self) -> int: ...

def compress(body: Buffer, kind: int, level: int = ...) -> bytes:
    """Returns a body made small; the kinds are those of `mqcore.native.wire.Compression`."""

def decompress(body: Buffer, kind: int, limit_bytes: int) -> bytes:
    """Returns a body as it was before, of at most `limit_bytes`."""

# See `mqcore.native.wire`.
def parse_relaxed_json(text: Buffer) -> Any: ...
