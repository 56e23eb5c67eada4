"""Writes and splits frames of the protocol: length, mark and length of the header, header, body.

A writer of its own, which shares no code with the product: what a change of the product's codec
does shows here. Knows no request's meaning.

    frame = 4 length of the rest | 1 kind of header, 3 length of header | header | body
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["JSON", "RESPONSE", "ROCKETMQ", "Frame", "Header", "read_header", "split", "write"]

# Kinds of headers: their byte in the frame.
JSON: Final = 0
ROCKETMQ: Final = 1
# Bit of a header's flag: the frame answers one that was sent the other way.
RESPONSE: Final = 1
# A binary header has 16 bits for the code.
_BINARY_CODE_MAX: Final = 32_767
_LANGUAGES: Final = {"JAVA": 0, "CPP": 1, "PYTHON": 3, "GO": 9}


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a header carries.

    Attributes:
        code: The code of the request, or of the answer.
        opaque: The number that an answer repeats.
        ext: The fields; None writes none.
        flag: 1 an answer, 2 a request without one.
        remark: The remark.
        language: The language by its official name.
        version: The version of the sender.
    """

    code: int
    opaque: int
    ext: Mapping[str, str] | None = None
    flag: int = 0
    remark: str | None = None
    language: str = "JAVA"
    version: int = 475


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame, split.

    Attributes:
        kind: The kind of its header.
        header: The bytes of the header.
        body: The body.
    """

    kind: int
    header: bytes
    body: bytes

    @property
    def lengths(self) -> tuple[int, int]:
        """The two numbers that the frame begins with."""
        return 4 + len(self.header) + len(self.body), self.kind << 24 | len(self.header)

    def encode(self) -> bytes:
        """Returns the frame."""
        return struct.pack(">II", *self.lengths) + self.header + self.body


def write(kind: int, header: Header, body: bytes) -> Frame:
    """Returns a frame; one whose code no binary header can carry gets a JSON header."""
    if kind == ROCKETMQ and header.code <= _BINARY_CODE_MAX:
        return Frame(ROCKETMQ, _binary(header), body)
    return Frame(JSON, _json(header), body)


def split(data: bytearray) -> list[Frame]:
    """Takes the whole frames off the front of what was received."""
    frames = []
    while len(data) >= 4:
        length = int.from_bytes(data[:4], "big")
        if len(data) < 4 + length:
            break
        mark = int.from_bytes(data[4:8], "big")
        kind, header_length = mark >> 24, mark & 0xFFFFFF
        header = bytes(data[8 : 8 + header_length])
        frames.append(Frame(kind, header, bytes(data[8 + header_length : 4 + length])))
        del data[: 4 + length]
    return frames


def read_header(frame: Frame) -> Header:
    """Returns what the header of a frame carries."""
    if frame.kind == JSON:
        found: dict[str, Any] = json.loads(frame.header)
        return Header(
            code=found["code"],
            opaque=found["opaque"],
            ext=found.get("extFields") or {},
            flag=found["flag"],
            remark=found.get("remark"),
            language=found["language"],
            version=found["version"],
        )
    code, language, version, opaque, flag, length = struct.unpack_from(">hBhiii", frame.header)
    at = 17 + length
    remark = frame.header[17:at].decode()
    ext, at = {}, at + 4
    while at < len(frame.header):
        name, at = _text(frame.header, at, 2)
        value, at = _text(frame.header, at, 4)
        ext[name] = value
    names = {number: name for name, number in _LANGUAGES.items()}
    return Header(
        code=code,
        opaque=opaque,
        ext=ext,
        flag=flag,
        remark=remark or None,
        language=names.get(language, "OTHER"),
        version=version,
    )


def _text(header: bytes, at: int, width: int) -> tuple[str, int]:
    length = int.from_bytes(header[at : at + width], "big")
    return header[at + width : at + width + length].decode(), at + width + length


def _json(header: Header) -> bytes:
    members: dict[str, Any] = {"code": header.code}
    if header.ext is not None:
        members["extFields"] = dict(header.ext)
    members |= {"flag": header.flag, "language": header.language, "opaque": header.opaque}
    if header.remark is not None:
        members["remark"] = header.remark
    members |= {"serializeTypeCurrentRPC": "JSON", "version": header.version}
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()


def _binary(header: Header) -> bytes:
    remark = (header.remark or "").encode()
    fields = b"".join(
        struct.pack(">H", len(name.encode()))
        + name.encode()
        + struct.pack(">I", len(value.encode()))
        + value.encode()
        for name, value in (header.ext or {}).items()
    )
    fixed = struct.pack(
        ">hBhii",
        header.code,
        _LANGUAGES[header.language],
        header.version,
        header.opaque,
        header.flag,
    )
    return fixed + struct.pack(">I", len(remark)) + remark + struct.pack(">I", len(fields)) + fields
