"""The plain connection: bytes become commands in `mqcore.native.FrameReader`, the rest is `Link`.

Bytes that are no frames end this connection and no other. Knows no request.
"""

import asyncio

from mqcore.errors import FrameError
from mqcore.native import FrameReader
from mqcore.remoting.hub import Hub
from mqcore.remoting.link import Link

__all__ = ["Connection"]


class Connection(Link, asyncio.BufferedProtocol):
    """A connection whose every request is served by the hub's dispatcher."""

    def __init__(self, hub: Hub) -> None:
        """Makes a connection that waits for its transport."""
        super().__init__(hub)
        self._reader = FrameReader(hub.limits.frame_bytes_max)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns where the transport may put bytes; one buffer serves all connections of a loop.

        The transport fills it and calls `buffer_updated` at once, without a turn of the loop
        between: asyncio's and uvloop's both do, also under TLS.
        """
        del sizehint
        return self.hub.receive_buffer if self.has_asked else self.hub.first_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Takes what was put there."""
        try:
            commands = self._reader.feed(self.hub.receive_buffer[:nbytes])
        except FrameError as error:
            # What came whole before the bad frame is served; its answers have no way back.
            self.receive(self._reader.before_error)
            self.fail("bad_frame", error)
            return
        self.received(
            nbytes,
            partial_bytes=self._reader.kept_bytes,
            is_frame_whole=bool(commands),
            now_s=asyncio.get_running_loop().time(),
        )
        if commands:
            self.receive(commands)
