"""A fast path on a socket of its own, and a raw client: what the tests of the fast path share."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from full_disks import ON_FULL_DISKS
from mqcore.native import (
    BrokerPolicy,
    Command,
    FastPath,
    FastPathProtocol,
    FrameReader,
    GroupPolicy,
    Handed,
    MembersPolicy,
    Store,
    Subscription,
    TopicPolicy,
)

SMALL: dict[str, str | int | Path] = {
    "mappedFileSizeCommitLog": 16 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 4000,
    **ON_FULL_DISKS,
}
ONEWAY = 2


class RecordingProtocol(FastPathProtocol):
    """A connection that keeps what is handed over."""

    def __init__(self, fast_path: FastPath, all_of_them: list["RecordingProtocol"]) -> None:
        """Keeps itself in `all_of_them`."""
        super().__init__(fast_path)
        self.requests: list[Handed] = []
        self.reasons: list[str] = []
        all_of_them.append(self)

    def handed(self, requests: list[Handed]) -> None:
        """Keeps them."""
        self.requests.extend(requests)

    def refused(self, reason: str) -> None:
        """Keeps the reason."""
        self.reasons.append(reason)


class Client:
    """A client that sends and receives commands."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Uses a stream."""
        self.reader = reader
        self.writer = writer
        self.frames = FrameReader()
        self.got: list[Command] = []

    def send(self, *commands: Command) -> None:
        """Sends commands in one write."""
        self.writer.write(b"".join(command.encode() for command in commands))

    async def receive(self, count: int = 1) -> list[Command]:
        """Returns the next answers."""
        while len(self.got) < count:
            data = await self.reader.read(1 << 16)
            if not data:
                raise ConnectionError("closed")
            self.got.extend(self.frames.feed(data))
        received, self.got = self.got[:count], self.got[count:]
        return received

    async def ask(self, command: Command) -> Command:
        """Sends a command and returns the answer."""
        self.send(command)
        [answer] = await self.receive()
        return answer


class FastPathServer:
    """A store, its fast path and a port."""

    def __init__(self, store: Store, fast_path: FastPath) -> None:
        """Serves nobody yet."""
        self.store = store
        self.fast_path = fast_path
        self.served: list[RecordingProtocol] = []
        self.port = 0

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Yields a client that is connected."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield Client(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def serving(path: Path, **config: str | int) -> AsyncIterator[FastPathServer]:
    """Yields a fast path that serves topic `t` with 4 queues to group `g`."""
    with Store(path, config={**SMALL, **config}) as store:
        policy = BrokerPolicy(name="b", cluster="c1", address="127.0.0.1")
        running = FastPathServer(store, FastPath(store, broker=policy))
        topics = {"t": TopicPolicy(read_queues=4, write_queues=4), "%RETRY%g": TopicPolicy()}
        running.fast_path.set_topics(topics)
        running.fast_path.set_groups({"g": GroupPolicy()})
        running.fast_path.set_members("g", MembersPolicy([Subscription("t", "*", "TAG", 1)]))
        loop = asyncio.get_running_loop()
        running.fast_path.start(loop)
        server = await loop.create_server(
            lambda: RecordingProtocol(running.fast_path, running.served), "127.0.0.1", 0
        )
        running.port = server.sockets[0].getsockname()[1]
        try:
            yield running
        finally:
            server.close()
            running.fast_path.stop()


def send(
    opaque: int,
    body: bytes,
    *,
    topic: str = "t",
    queue: int = 0,
    properties: str = "",
    flag: int = 0,
) -> Command:
    """Returns a SEND_MESSAGE_V2 as a client writes it."""
    ext = {
        "a": "p",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue),
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": properties,
        "j": "0",
        "k": "false",
        "m": "false",
    }
    return Command(310, ext=ext, body=body, opaque=opaque, flag=flag)


def pull(
    opaque: int,
    offset: int,
    *,
    topic: str = "t",
    queue: int = 0,
    suspend_ms: int = 0,
    tags: str | None = None,
    count: int = 32,
) -> Command:
    """Returns a PULL_MESSAGE as a client writes it; held when it may wait."""
    flags = (2 if suspend_ms else 0) | (4 if tags is not None else 0)
    ext = {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": str(queue),
        "queueOffset": str(offset),
        "maxMsgNums": str(count),
        "sysFlag": str(flags),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(suspend_ms),
        "subVersion": "1",
    }
    if tags is not None:
        ext["subscription"] = tags
    return Command(11, ext=ext, opaque=opaque)
