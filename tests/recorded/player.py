"""Plays one conversation with one server and writes down what went over the sockets.

Belongs to a process of its own (`play.py`): the numbers of the server's own requests count from the
start of the process.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Mapping
from typing import Final

from mqcore.remoting import RequestCode
from recorded import frames, masks
from recorded.conversation import (
    BINARY,
    Advance,
    Answered,
    Close,
    Conversation,
    Do,
    From,
    Raw,
    Request,
    Restart,
    Step,
    Stop,
)
from recorded.frames import Frame, Header
from recorded.served import LISTENER_PORT, PORT, Served, own_address, served
from recorded.transcript import escaped, frame_lines

__all__ = ["Played", "played"]

# Clients come from here, each by a port of its own: remarks, records and lists name them.
_CLIENT_HOST: Final = "127.77.0.1"
_CLIENT_PORT: Final = 20_001
# A frame that is due comes within milliseconds; this bounds a server that owes one.
_TIMEOUT_S: Final = 20.0
# Requests whose answers mark the end of a step: a code that nobody serves, numbers of their own.
_FENCE_CODE: Final = 9_999
_FENCES_FROM: Final = 0x7000_0000


class Played:
    """What came of a conversation.

    Attributes:
        lines: The transcript.
        faults: What a step expected and did not get, in words.
    """

    def __init__(self) -> None:
        """Begins with nothing."""
        self.lines: list[str] = []
        self.faults: list[str] = []


class _Connection:
    """A client's connection, with the frames that nobody has taken yet."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.fence = 0
        self.is_open = True
        self._fences = _FENCES_FROM
        self._changed = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self, host: str, own_port: int) -> None:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Closed by a reset, so that the next conversation may come from the same port at once.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.bind((_CLIENT_HOST, own_port))
        await asyncio.get_running_loop().sock_connect(sock, (host, PORT))
        self.adopt(*await asyncio.open_connection(sock=sock))

    def adopt(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Takes a connection that is there."""
        self._writer = writer
        self._task = asyncio.get_running_loop().create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        data = bytearray()
        try:
            while more := await reader.read(1 << 16):
                data += more
                for frame in frames.split(data):
                    opaque = frames.read_header(frame).opaque
                    if opaque >= _FENCES_FROM:
                        self.fence = opaque
                    else:
                        self.frames.append(frame)
                self._changed.set()
        except ConnectionError:
            pass
        self.is_open = False
        self._changed.set()

    def send(self, data: bytes) -> None:
        assert self._writer is not None
        self._writer.write(data)

    async def fenced(self) -> None:
        """Returns when everything that was sent has been looked at."""
        if not self.is_open:
            return
        self._fences += 1
        header = Header(code=_FENCE_CODE, opaque=self._fences)
        self.send(frames.write(frames.JSON, header, b"").encode())
        while self.fence < self._fences and self.is_open:
            await self._changed.wait()
            self._changed.clear()

    async def has(self, count: int) -> None:
        """Returns when so many frames are there."""
        while len(self.frames) < count and self.is_open:
            await self._changed.wait()
            self._changed.clear()

    async def closed(self) -> None:
        """Returns when the server has closed it."""
        while self.is_open:
            await self._changed.wait()
            self._changed.clear()

    async def close(self) -> None:
        self.is_open = False
        if self._task is None or self._writer is None:
            return
        self._writer.transport.abort()
        await self._task
        # Until then the port is in use.
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


class _Player:
    def __init__(self, conversation: Conversation, kind: str) -> None:
        self._conversation = conversation
        self._address = own_address()
        self._kind = frames.ROCKETMQ if kind == BINARY else frames.JSON
        self._connections: dict[str, _Connection] = {}
        self._codes: dict[tuple[str, int], Request] = {}
        self._answers: dict[str, Header] = {}
        self._asked: dict[tuple[str, int], Header] = {}
        self._opaque = 0
        self._held_before = 0
        self._listener: asyncio.Server | None = None
        self._accepted = 0
        self._has_accepted = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None
        self.played = Played()
        self.played.lines.append(f"# {conversation.name}, {kind} headers")

    server: Served

    async def start(self) -> None:
        """Listens, where the conversation does, and starts the server."""
        if self._conversation.listens:
            self._listener = await asyncio.start_server(self._accept, self._address, LISTENER_PORT)
        self.server = await served(self._conversation)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._accepted += 1
        connection = self._connections[f"N{self._accepted}"] = _Connection()
        connection.adopt(reader, writer)
        self._has_accepted.set()

    async def play(self, number: int, step: Step) -> None:
        await self._open(step)
        self._held_before = self.server.held()
        lines = self.played.lines
        lines.append(f"== {number} {_title(step)}")
        if isinstance(step, Restart):
            await self._restart(step)
            return
        expected = step.expected if isinstance(step, Request) else step.frames
        if isinstance(step, Request):
            self._send(step)
        elif isinstance(step, Answered):
            self._answer(step)
        elif isinstance(step, Advance):
            self.server.advance(step.by_ms)
        elif isinstance(step, Do):
            await self.server.do(step.work)
        elif isinstance(step, Raw):
            lines += [f"{step.by}> no frame", *(f" r {line}" for line in escaped(step.data))]
            self._connections[step.by].send(step.data)
        elif isinstance(step, Stop):
            self._stopping = asyncio.get_running_loop().create_task(self.server.stop())
        else:
            await self._close(step.by)
        await self._collect(number, step, expected)

    async def _open(self, step: Step) -> None:
        name = step.by if isinstance(step, Request | Answered | Raw) else None
        if name is not None and name not in self._connections:
            connection = self._connections[name] = _Connection()
            await connection.open(self._address, _CLIENT_PORT + ord(name) - ord("A"))

    def _send(self, step: Request) -> None:
        self._opaque += 1
        header = Header(
            code=step.code,
            opaque=self._opaque,
            ext={name: self._text(value) for name, value in step.ext.items()},
            flag=step.flag,
            language=step.language,
            version=step.version,
        )
        self._codes[step.by, self._opaque] = step
        self._write(step.by, header, step.body)

    def _answer(self, step: Answered) -> None:
        asked = self._asked.get((step.by, step.request))
        if asked is None:
            self.played.faults.append(f"nobody asked {step.by} for {step.request}")
            return
        header = Header(
            code=step.code,
            opaque=asked.opaque,
            ext={name: self._text(value) for name, value in step.ext.items()},
            flag=frames.RESPONSE,
        )
        self._write(step.by, header, step.body)

    def _write(self, by: str, header: Header, body: bytes) -> None:
        frame = frames.write(self._kind, header, body)
        self.played.lines += frame_lines(f"{by}>", frame, [])
        self._connections[by].send(masks.owned(frame, self._address).encode())

    async def _close(self, by: str) -> None:
        await self._connections.pop(by).close()
        while self.server.connections() > len(self._connections):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)

    async def _restart(self, step: Restart) -> None:
        await self.end()
        before = self.server
        await (before.kill() if step.is_killed else before.stop())
        self.server = await served(self._conversation, step.settings, before.now_ms)

    async def _collect(self, number: int, step: Step, expected: Mapping[str, int]) -> None:
        """Writes down the frames of a step, those of each connection in their order."""
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await self._until(step, expected)
        except TimeoutError:
            self.played.faults.append(f"step {number}, {_title(step)}: a frame does not come")
        for name in sorted({*self._connections, *expected}):
            connection = self._connections.get(name)
            got = [] if connection is None else connection.frames
            if len(got) != expected.get(name, 0):
                self.played.faults.append(
                    f"step {number}, {_title(step)}: {len(got)} frames for {name}, "
                    f"not {expected.get(name, 0)}"
                )
            for frame in got:
                self._note(number, name, frame)
            got.clear()
            if connection is not None and not connection.is_open:
                self.played.lines.append(f"{name}< closed")
                await self._connections.pop(name).close()

    async def _until(self, step: Step, expected: Mapping[str, int]) -> None:
        """Returns when all frames of a step are there, and no others are under way."""
        for name, count in expected.items():
            while name not in self._connections:
                self._has_accepted.clear()
                await self._has_accepted.wait()
            await self._connections[name].has(count)
        closes = (step.by,) if isinstance(step, Raw) else ()
        for name in step.closes if isinstance(step, Do) else closes:
            await self._connections[name].closed()
        if self._stopping is not None:
            # Whether more frames come is seen at the end: no connection is read any more.
            return
        await self.server.settled()
        for connection in list(self._connections.values()):
            await connection.fenced()
        if isinstance(step, Request) and step.is_held:
            # It may have gone to a thread that reads the disk, and other requests overtake it.
            while self.server.held() <= self._held_before:  # noqa: ASYNC110 - nothing signals it
                await asyncio.sleep(0.001)

    def _note(self, number: int, name: str, frame: Frame) -> None:
        """Writes down a frame that was received, and what later steps need of it."""
        header = frames.read_header(frame)
        names: list[str] = []
        if header.flag & frames.RESPONSE:
            request = self._codes.pop((name, header.opaque), None)
            if request is None:
                self.played.faults.append(f"step {number}: nobody asked for this answer")
            else:
                self._check(number, request, header)
                frame, names = masks.masked(request.code, frame)
        else:
            self._asked[name, header.code] = header
        frame = masks.unowned(frame, self._address)
        self.played.lines += frame_lines(f"{name}<", frame, names)

    def _check(self, number: int, request: Request, header: Header) -> None:
        """Notes an answer, and whether its code is what its request is an example of."""
        if request.name:
            self._answers[request.name] = header
        is_wrong = header.code not in request.answers if request.answers else False
        if not request.answers and request.kind == "refused":
            is_wrong = header.code == 0
        if is_wrong:
            self.played.faults.append(
                f"step {number}, {_title(request)}: code {header.code}, {header.remark}"
            )

    def _text(self, value: object) -> str:
        """Returns a value as a field of a header has it."""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, tuple):
            return " ".join(self._text(each) for each in value)
        if isinstance(value, From):
            found = (self._answers[value.step].ext or {})[value.name]
            return str(int(found[-16:], 16)) if value.is_offset else found
        return str(value)

    async def end(self) -> None:
        """Closes what is open."""
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()
        if self._listener is not None:
            self._listener.close()

    async def stop(self) -> None:
        """Ends the server."""
        await (self.server.stop() if self._stopping is None else self._stopping)


async def played(conversation: Conversation, kind: str) -> Played:
    """Plays a conversation from its beginning; its server works in the working directory.

    Args:
        conversation: The conversation.
        kind: The kind of headers.
    """
    player = _Player(conversation, kind)
    await player.start()
    try:
        for number, step in enumerate(conversation.steps, 1):
            try:
                await player.play(number, step)
            except (KeyError, OSError) as error:
                player.played.faults.append(f"step {number}, {_title(step)}: {error!r}")
                break
    finally:
        await player.end()
        await player.stop()
    return player.played


def _title(step: Step) -> str:
    if isinstance(step, Advance):
        return f"{step.by_ms} ms pass"
    if isinstance(step, Stop):
        return "the server stops"
    if isinstance(step, Do):
        return f"done now: {step.work}"
    if isinstance(step, Close):
        return f"{step.by} closes"
    if isinstance(step, Restart):
        how = "killed and started again" if step.is_killed else "restarted"
        return " ".join([how, *(f"{name}={value}" for name, value in step.settings.items())])
    note = f": {step.note}" if step.note else ""
    if isinstance(step, Raw):
        return f"no frame{note}"
    if isinstance(step, Answered):
        return f"answer to {_code(step.request)}{note}"
    way = " oneway" if step.flag & 2 else ""
    return f"{step.kind} {_code(step.code)}{way}{note}"


def _code(code: int) -> str:
    """Returns a request code with its official name, where it has one."""
    known = {int(each): each.name for each in RequestCode}
    return f"{code} {known[code]}" if code in known else str(code)
