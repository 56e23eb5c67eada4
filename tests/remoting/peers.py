"""A server to talk to, and a peer that can send anything: raw bytes, halves, nonsense."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mqcore.native import Command, FrameReader
from mqcore.remoting import (
    Dispatcher,
    Limits,
    LinkEvents,
    Request,
    Server,
    ServerTls,
    TcpAddress,
    expect,
)

ECHO = 1
FAIL = 2
LATER = 3
ONEWAY_FLAG = 2


class Served:
    """A server with three requests: one answers at once, one fails, one waits to be let go."""

    def __init__(self, limits: Limits | None = None, events: LinkEvents | None = None) -> None:
        self.gate = asyncio.Event()
        self.seen: list[Request] = []
        dispatcher = Dispatcher({ECHO: self.echo, FAIL: self.fail, LATER: self.later})
        self.server = Server(dispatcher, limits=limits, events=[events] if events else [])
        self.address = ""

    def echo(self, request: Request) -> Command:
        self.seen.append(request)
        return request.answer(ext=request.ext, body=request.body)

    def fail(self, request: Request) -> Command:
        self.seen.append(request)
        raise KeyError("no such thing")

    async def later(self, request: Request) -> Command:
        self.seen.append(request)
        await self.gate.wait()
        return request.answer(body=request.body)

    @property
    def refusals(self) -> dict[str, int]:
        return self.server.hub.refusals


@asynccontextmanager
async def served(
    limits: Limits | None = None,
    *,
    tls: ServerTls | None = None,
    events: LinkEvents | None = None,
) -> AsyncIterator[Served]:
    """Serves on a free port of the loopback address until the end of the block."""
    it = Served(limits, events)
    it.address = str(await it.server.listen(TcpAddress("127.0.0.1", 0), tls=tls))
    try:
        yield it
    finally:
        it.gate.set()
        await it.server.close()


class Peer:
    """A connection that sends what the test gives it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self._ready: list[Command] = []

    def send(self, *parts: bytes | Command) -> None:
        for part in parts:
            self._writer.write(part if isinstance(part, bytes) else part.encode())

    def end(self) -> None:
        """Ends the sending side: nothing more comes."""
        self._writer.write_eof()

    async def drain(self) -> None:
        await self._writer.drain()

    async def hear(self) -> Command | None:
        """Returns the next command, or None at the end of the connection."""
        while not self._ready:
            try:
                data = await self._reader.read(1 << 16)
            except OSError:
                # Reset, or (uvloop, when it shuts its side down) no longer connected.
                return None
            if not data:
                return None
            self._ready = self._frames.feed(data)
        return self._ready.pop(0)

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            # The other side was faster; that is what some tests are about.
            return


@asynccontextmanager
async def peer_of(
    address: str, context: ssl.SSLContext | None = None, *, host: str | None = None
) -> AsyncIterator[Peer]:
    """Connects to an address for the length of the block."""
    name, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(
        name, int(port), ssl=context, server_hostname=host if context else None
    )
    peer = Peer(reader, writer)
    try:
        yield peer
    finally:
        await peer.close()


async def attack(address: str, stream: bytes) -> None:
    """Sends a stream on a connection of its own, and hears whatever comes until its end."""
    async with peer_of(address) as peer:
        peer.send(stream)
        peer.end()
        while await peer.hear() is not None:
            continue


def ask(opaque: int, code: int = ECHO, body: bytes = b"", flag: int = 0) -> Command:
    """Returns a request."""
    return Command(code=code, opaque=opaque, flag=flag, body=body)


async def assert_alive(peer: Peer, opaque: int = 4711) -> None:
    """A connection still answers."""
    peer.send(ask(opaque, body=b"still there?"))
    answer = await peer.hear()
    assert answer is not None
    assert (answer.opaque, answer.body) == (opaque, b"still there?")
    expect(answer, "peer")
