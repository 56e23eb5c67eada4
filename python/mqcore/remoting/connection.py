"""The plain connection: bytes become commands in `mqcore.native.FrameReader`, the rest is `Link`.

Answers that a call of the link waits for resolve it there: they are no objects of Python's before.
Bytes that are no frames end this connection and no other. Knows no request.
"""

import asyncio
from typing import cast

from mqcore.errors import FrameError
from mqcore.native import FrameReader
from mqcore.remoting.gates import ReadGate
from mqcore.remoting.hub import Hub
from mqcore.remoting.link import Link
from mqcore.remoting.stream import PlainStream

__all__ = ["Connection"]


class Connection(asyncio.BufferedProtocol):
    """A connection whose every request is served by the hub's dispatcher.

    Attributes:
        link: The connection as handlers and callers see it.
    """

    def __init__(self, hub: Hub) -> None:
        """Makes a connection that waits for its transport."""
        self._hub = hub
        self._reader = FrameReader(hub.limits.frame_bytes_max)
        reading = ReadGate()
        self._stream = PlainStream(hub, reading)
        self.link = Link(hub, self._stream, reading)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the transport, and notifies the listeners."""
        self.link.made(transport)
        self._stream.open(cast(asyncio.Transport, transport), self.link.peer)
        self.link.limit_unsent(self._hub.limits.out_high_bytes)
        self._hub.join(self.link)

    def connection_lost(self, error: Exception | None) -> None:
        """Ends what waited for this connection."""
        self._stream.end()
        self.link.lost(error)

    def pause_writing(self) -> None:
        """Stops executing requests: the peer does not read what it is sent."""
        self.link.pause_writing()

    def resume_writing(self) -> None:
        """Goes on."""
        self.link.resume_writing()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns where the transport may put bytes; one buffer serves all connections of a loop.

        The transport fills it and calls `buffer_updated` at once, without a turn of the loop
        between: asyncio's and uvloop's both do, also under TLS.
        """
        del sizehint
        return self._hub.receive_buffer if self.link.has_asked else self._hub.first_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Takes what was put there."""
        link = self.link
        try:
            commands = self._reader.feed(self._hub.receive_buffer[:nbytes], link.calls)
        except FrameError as error:
            # What came whole before the bad frame is served; its answers have no way back.
            link.receive(self._reader.before_error)
            link.fail("bad_frame", error)
            return
        kept_bytes = self._reader.kept_bytes
        is_frame_whole = self._reader.made_whole
        # Where requests must be signed, who checks them marks when one was good.
        is_guarded = self._hub.first_request_s() > 0
        link.has_asked = link.has_asked or (is_frame_whole and not is_guarded)
        if self._stream.received(nbytes, kept_bytes, is_frame_whole=is_frame_whole):
            frame = self._stream.frames_begun
            self._hub.note_frame(link, kept_bytes, frame)
        if commands:
            link.receive(commands)
