"""What bad inputs are made of: the requests of the recorded conversations, and other protocols.

    write_pieces(path, frames_of("broker"))     # each piece has its length before it

What was found once is kept below `corpus`, a folder per kind of port: the file is a piece without
its length. Knows the shape of frames; nothing of what a server does.
"""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from recorded import frames
from recorded.conversation import From, Raw, Request
from recorded.conversations import CONVERSATIONS
from recorded.frames import JSON, ROCKETMQ, Header

__all__ = ["CORPUS", "frames_of", "good_request", "kept", "raw_pieces", "write_pieces"]

CORPUS: Final = Path(__file__).with_name("corpus")
_LENGTH_BYTES: Final = 4
_BINARY_CODES: Final = 1 << 15
# Longer bodies make no other inputs, and fewer of them.
_PIECE_BYTES_MAX: Final = 16_384
# Requests to a controller, as brokers and tools send them (5.3.3).
_MEMBER: Final = {"clusterName": "c", "brokerName": "b", "brokerId": "1"}
_CONTROLLER: Final[tuple[tuple[int, dict[str, str], bytes], ...]] = (
    (
        1001,
        {"brokerName": "b", "masterBrokerId": "1", "masterEpoch": "1", "syncStateSetEpoch": "1"},
        b'{"syncStateSet":[1,2],"syncStateSetEpoch":2}',
    ),
    (1002, {**_MEMBER, "designateElect": "false"}, b""),
    (1003, {**_MEMBER, "brokerAddress": "127.0.0.1:1", "heartbeatTimeoutMillis": "1000"}, b""),
    (1004, {"brokerName": "b"}, b""),
    (1005, {}, b""),
    (1006, {}, b'["b"]'),
    (1010, {}, b""),
    (
        1011,
        {**_MEMBER, "brokerControllerIdsToClean": "1;2", "isCleanLivingBroker": "false"},
        b"",
    ),
    (1012, {"clusterName": "c", "brokerName": "b"}, b""),
    (1013, {**_MEMBER, "appliedBrokerId": "1", "registerCheckCode": "x;1"}, b""),
    (1014, {}, b"\x00\x01"),
    (1480001, {}, b'{"term":1,"entries":[]}'),
    (
        904,
        {
            **_MEMBER,
            "brokerAddr": "127.0.0.1:1",
            "epoch": "1",
            "maxOffset": "1",
            "confirmOffset": "1",
            "heartbeatTimeoutMills": "1000",
            "electionPriority": "1",
        },
        b"",
    ),
)
# HTTP of the pages of metrics, the handshakes of slaves and of TLS.
_RAW: Final[dict[str, tuple[bytes, ...]]] = {
    "http": (
        b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /healthz?x=1 HTTP/1.0\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ),
    "replication": (
        struct.pack(">q", 0),
        struct.pack(">qq", 4_096, 1 << 40),
        # Controller mode: a handshake with its state, flags, id and address.
        struct.pack(">iiqi", 1, 0, 1, 0) + struct.pack(">q", 1) + b"127.0.0.1:1",
        struct.pack(">iqi", 2, 0, 1),
        b"MQCR" + bytes(60),
    ),
    "tls": (
        bytes.fromhex("160301002f0100002b0303") + bytes(32) + bytes.fromhex("0000021301010000"),
        bytes.fromhex("1603010200010001fc0303") + bytes(range(256)) + bytes(240),
        bytes.fromhex("15030100020228"),
        bytes.fromhex("1603030004")
        + b"\x0e\x00\x00\x00"
        + bytes.fromhex("170303001030")
        + bytes(16),
    ),
}


def frames_of(server: str) -> list[bytes]:
    """Returns real requests as frames, each once in either serialization.

    Args:
        server: `broker`, `namesrv` or `controller`.
    """
    found: dict[bytes, None] = {}
    for code, ext, body in _requests(server):
        # A binary header has 16 bits for the code.
        for kind in (JSON, ROCKETMQ) if abs(code) < _BINARY_CODES else (JSON,):
            header = Header(code=code, opaque=1, ext=ext)
            frame = frames.write(kind, header, body).encode()
            if len(frame) <= _PIECE_BYTES_MAX:
                found[frame] = None
    for data in _raw_steps(server):
        found[data] = None
    for piece in kept(server):
        found[piece] = None
    return list(found)


def _requests(server: str) -> Iterator[tuple[int, dict[str, str], bytes]]:
    if server == "controller":
        yield from _CONTROLLER
        return
    for conversation in CONVERSATIONS:
        if conversation.server == server:
            for step in conversation.steps:
                if isinstance(step, Request):
                    yield step.code, {k: _text(v) for k, v in step.ext.items()}, step.body


def _raw_steps(server: str) -> Iterator[bytes]:
    for conversation in CONVERSATIONS:
        if conversation.server == server:
            for step in conversation.steps:
                if isinstance(step, Raw) and _is_piece(step.data):
                    yield step.data


def _is_piece(data: bytes) -> bool:
    """Whether the length that it begins with is its own: others would end a file of pieces."""
    return len(data) >= _LENGTH_BYTES and int.from_bytes(data[:4], "big") == len(data) - 4


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_text, value))
    if isinstance(value, bool):
        return str(value).lower()
    # A value of an earlier answer: an offset at the begin is as good.
    return "0" if isinstance(value, From) else str(value)


def good_request(code: int, ext: dict[str, str]) -> bytes:
    """Returns a frame."""
    return frames.write(JSON, Header(code=code, opaque=1, ext=ext), b"").encode()


def raw_pieces(kind: str) -> list[bytes]:
    """Returns what a client of another protocol sends: `http`, `replication` or `tls`."""
    return [*_RAW[kind], *kept(kind)]


def kept(kind: str) -> list[bytes]:
    """Returns what was found before."""
    return [path.read_bytes() for path in sorted((CORPUS / kind).glob("*.bin"))]


def write_pieces(path: Path, pieces: Iterable[bytes], *, are_frames: bool) -> None:
    """Writes a file of pieces.

    Args:
        path: The file.
        pieces: They.
        are_frames: Whether they begin with their length already.
    """
    with path.open("wb") as file:
        for piece in pieces:
            if not are_frames:
                file.write(struct.pack(">I", len(piece)))
            file.write(piece)
