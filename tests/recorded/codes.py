"""Which request codes a server serves: it is asked for all of them.

A code is served that is not answered with REQUEST_CODE_NOT_SUPPORTED. That needs no registry, so it
holds whatever becomes of the product's own.
"""

import asyncio
import itertools
from collections.abc import Iterable
from typing import Final

from mqcore.remoting import RequestCode
from recorded import frames
from recorded.conversation import Conversation
from recorded.frames import Header
from recorded.served import PORT, served

__all__ = ["served_codes"]

_NOT_SUPPORTED: Final = 3
# All that official releases have, and the numbers around them.
_ASKED: Final = (range(-2, 5_000), range(200_000, 200_300), (32_767, 32_768, 2**31 - 1))
# Asked at once, fewer than the bound on what a connection may have under way.
_AT_ONCE: Final = 200
# A request that is served may stay unanswered.
_TIMEOUT_S: Final = 3.0


async def served_codes(kind: str) -> list[int]:
    """Returns the codes that a server serves.

    Args:
        kind: `broker` or `namesrv`.
    """
    conversation = Conversation("codes", (), "broker" if kind == "broker" else "namesrv")
    server = await served(conversation)
    codes = sorted({*itertools.chain(*_ASKED), *map(int, RequestCode)})
    try:
        found: list[int] = []
        for begin in range(0, len(codes), _AT_ONCE):
            found += await _served_of(server.address, codes[begin : begin + _AT_ONCE])
        return found
    finally:
        await server.stop()


async def _served_of(host: str, codes: Iterable[int]) -> list[int]:
    """Asks for codes over a connection of their own: some requests may end it."""
    reader, writer = await asyncio.open_connection(host, PORT)
    asked = dict(enumerate(codes))
    for opaque, code in asked.items():
        header = Header(code=code, opaque=opaque, ext={})
        writer.write(frames.write(frames.JSON, header, b"").encode())
    served, data = set(asked), bytearray()
    waiting = set(asked)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            while waiting and (more := await reader.read(1 << 16)):
                data += more
                for frame in frames.split(data):
                    answer = frames.read_header(frame)
                    if not answer.flag & frames.RESPONSE:
                        continue
                    waiting.discard(answer.opaque)
                    if answer.code == _NOT_SUPPORTED:
                        served.discard(answer.opaque)
    except TimeoutError:
        # What is left is served and not answered.
        pass
    writer.transport.abort()
    return [asked[opaque] for opaque in sorted(served)]
