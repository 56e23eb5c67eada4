"""Streams of bytes that a hostile or broken peer might send; the same for the same seed.

Knows the protocol's shape, and no server.
"""

import random
import struct
import zlib
from collections.abc import Iterator

from mqcore.native import Command

# A code is an `i16` in a binary header.
_BINARY_CODE_MAX = 32_767
# Values that are wrong somewhere: as a number, a name, a path, a flag, an address.
NASTY = (
    "",
    " ",
    "0",
    "-1",
    "2147483648",
    "9223372036854775808",
    "-99999999999999999999999999",
    "1e9",
    "0x10",
    "true",
    "null",
    "NaN",
    "../x",
    "/etc/passwd",
    "%RETRY%",
    "a" * 300,
    "é\u0000\u2028",
    "T",
    "broker-a",
    "127.0.0.1:1",
    "{}",
    "٣",
)
FRAME_BYTES_MAX = 16 << 20


class Hostile:
    """A source of streams."""

    def __init__(
        self, seed: int, *, codes: list[int], fields: dict[str, str], bodies: list[bytes]
    ) -> None:
        """Takes what makes requests look real.

        Args:
            seed: The same seed gives the same streams.
            codes: Codes of requests.
            fields: Header fields with a value each that is right.
            bodies: Bodies that are right, to be broken.
        """
        self._dice = random.Random(seed)
        self._codes = codes
        self._fields = fields
        self._bodies = bodies

    def streams(self, count: int) -> Iterator[bytes]:
        """Yields what one connection each sends."""
        for _ in range(count):
            kind = self._dice.randrange(6)
            if kind == 0:
                yield self._dice.randbytes(self._dice.randrange(1, 400))
            elif kind == 1:
                yield self._lying_frame()
            else:
                yield b"".join(self._frame() for _ in range(self._dice.randrange(1, 8)))

    def request(self) -> Command:
        """Returns a request that is well formed, with contents that may be wrong anywhere."""
        dice = self._dice
        code = dice.choice(self._codes) if dice.random() < 0.95 else dice.randrange(-5, 2000)
        # The codes of 5.x beyond an `i16` do not fit a binary header.
        serializations = (0, 0, 1) if code <= _BINARY_CODE_MAX else (0,)
        return Command(
            code=code,
            opaque=dice.randrange(-(2**31), 2**31),
            flag=dice.choice((0, 0, 0, 0, 1, 2, 3, -1)),
            language=dice.choice((0, 1, 9)),
            version=dice.choice((0, 36, 317, 409, 479, -1)),
            ext={
                name: value if dice.random() < 0.7 else dice.choice(NASTY)
                for name, value in self._fields.items()
                if dice.random() < 0.85
            },
            body=self._body(),
            serialization=dice.choice(serializations),
        )

    def _frame(self) -> bytes:
        frame = self.request().encode()
        if self._dice.random() < 0.7:
            return frame
        broken = bytearray(frame)
        for _ in range(self._dice.randrange(1, 6)):
            broken[self._dice.randrange(len(broken))] = self._dice.randrange(256)
        return bytes(broken[: self._dice.randrange(1, len(broken) + 1)])

    def _lying_frame(self) -> bytes:
        """Returns lengths that do not fit what follows."""
        dice = self._dice
        length = dice.choice((-1, 0, 3, 4, 5, 100, FRAME_BYTES_MAX, FRAME_BYTES_MAX + 1, 2**31 - 1))
        word = dice.choice((0, 1, 50, 0xFFFFFF, (1 << 24) | 5, 7 << 24)) & 0xFFFFFFFF
        return struct.pack(">iI", length, word) + dice.randbytes(dice.randrange(200))

    def _body(self) -> bytes:
        dice = self._dice
        kind = dice.randrange(5)
        if kind == 0:
            return b""
        if kind == 1:
            return dice.randbytes(dice.randrange(100))
        body = bytearray(dice.choice(self._bodies))
        if kind == 2 and body:
            for _ in range(dice.randrange(1, 10)):
                body[dice.randrange(len(body))] = dice.choice(b'{}[]":,0-9eE.tfn\\\x00\xff')
            del body[dice.randrange(len(body)) :]
        return zlib.compress(bytes(body)) if kind == 4 else bytes(body)
