"""A proxy that cuts: it forwards connections to a target, and harms them when it is asked to.

    with Proxy("127.0.0.1:10912") as proxy:
        proxy.address                            # what others connect to
        proxy.change(Way.TO_TARGET, delay_s=0.002)
        proxy.change(Way.TO_CLIENT, cut_after=17)     # after 17 more bytes the connection breaks
        proxy.change(Way.TO_CLIENT, is_black=True)    # half-open: nothing comes, nobody knows
        proxy.change(Way.TO_TARGET, is_paused=True)   # held back until it is not any more
        proxy.cut()                              # every connection breaks now
        proxy.refuse(is_refusing=True)           # whoever connects is closed at once
        proxy.heal()

A change holds for connections that are there and for those that come. Knows sockets, and nothing of
what goes over them. Its thread runs an event loop of its own; every method may be called from any
thread.
"""

import asyncio
import contextlib
import enum
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Self

__all__ = ["Proxy", "Way"]

# Bytes that are read at once, and that wait between two sockets at the most per direction.
_PIECE_BYTES = 64 * 1024
_PIECES_MAX = 16
# Turns a hang of the proxy itself into a failure.
_CALL_TIMEOUT_S = 30.0
# Closing with this lets the system send a reset.
_LINGER_NOT = struct.pack("ii", 1, 0)


class Way(enum.Enum):
    """A direction."""

    TO_TARGET = "to the target"
    TO_CLIENT = "to the client"


@dataclass(frozen=True, slots=True)
class Harm:
    """What is done to the bytes of one direction.

    Attributes:
        cut_after: The connection breaks behind so many more bytes; None: it does not.
        delay_s: Each byte is so late.
        bytes_per_second: No more go through; None: as many as come.
        is_paused: Bytes are held back, and the sender is slowed down when buffers are full.
        is_black: Bytes are lost, and so is the end of the connection: it is half-open.
    """

    cut_after: int | None = None
    delay_s: float = 0.0
    bytes_per_second: int | None = None
    is_paused: bool = False
    is_black: bool = False


@dataclass(slots=True)
class _Direction:
    """The harm of one direction, and what went through it."""

    harm: Harm = field(default_factory=Harm)
    passed: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def change(self, harm: Harm) -> None:
        self.harm = harm
        self.changed.set()
        self.changed = asyncio.Event()


class _Connection:
    """One connection from a client, and the one to the target that belongs to it."""

    def __init__(self, proxy: "Proxy", client: socket.socket, owner: str) -> None:
        self._proxy = proxy
        self._client = client
        self.owner = owner
        self._target: socket.socket | None = None
        # Nothing that was lost may be followed by something: a healed connection breaks.
        self.has_lost = False
        self.task = asyncio.get_running_loop().create_task(self._run(), name="forward")

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        target = self._target = socket.socket()
        target.setblocking(False)
        try:
            host, _, port = self._proxy.target.rpartition(":")
            await loop.sock_connect(target, (host, int(port)))
            for one in (self._client, target):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(self._client, target, Way.TO_TARGET))
                group.create_task(self._forward(target, self._client, Way.TO_CLIENT))
        except* (OSError, _CutError):
            self._reset()
        finally:
            self._client.close()
            target.close()
            self._proxy.forget(self)

    def _reset(self) -> None:
        for one in (self._client, self._target):
            if one is not None and one.fileno() >= 0:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)

    def cut(self) -> None:
        """Breaks both connections."""
        self._reset()
        self.task.cancel()

    async def _forward(self, source: socket.socket, sink: socket.socket, way: Way) -> None:
        """Forwards one direction until its sender ends it."""
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_PIECES_MAX)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(source, way, pieces))
            group.create_task(self._write(sink, way, pieces))

    async def _read(
        self, source: socket.socket, way: Way, pieces: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        loop = asyncio.get_running_loop()
        direction = self._proxy.direction(way, self.owner)
        while True:
            piece = await loop.sock_recv(source, _PIECE_BYTES)
            await pieces.put((loop.time() + direction.harm.delay_s, piece))
            if not piece:
                return

    async def _write(
        self, sink: socket.socket, way: Way, pieces: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        loop = asyncio.get_running_loop()
        direction = self._proxy.direction(way, self.owner)
        while True:
            due_s, piece = await pieces.get()
            await asyncio.sleep(max(0.0, due_s - loop.time()))
            while direction.harm.is_paused:
                await direction.changed.wait()
            if direction.harm.is_black:
                self.has_lost = True
                if not piece:
                    # The end is lost like everything else: the other side is not closed.
                    await asyncio.Event().wait()
                continue
            if not piece:
                # A reset that has come already closes both ways.
                with contextlib.suppress(OSError):
                    sink.shutdown(socket.SHUT_WR)
                return
            await self._send(sink, direction, piece)

    async def _send(self, sink: socket.socket, direction: _Direction, piece: bytes) -> None:
        loop = asyncio.get_running_loop()
        rate = direction.harm.bytes_per_second
        if rate is not None:
            await asyncio.sleep(len(piece) / rate)
        left = direction.harm.cut_after
        passed = piece if left is None else piece[:left]
        direction.passed += len(passed)
        if left is not None:
            # Changed before the bytes are seen at the other end.
            direction.change(replace(direction.harm, cut_after=left - len(passed)))
        await loop.sock_sendall(sink, passed)
        if left is not None and len(passed) == left:
            direction.change(replace(direction.harm, cut_after=None))
            raise _CutError


class _CutError(Exception):
    """A connection breaks at a byte."""


class Proxy:
    """Listens on a free port of this machine and forwards to a target."""

    def __init__(
        self,
        target: str,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        owner_of: Callable[[int], str] = lambda _port: "",
    ) -> None:
        """Prepares it; as a context manager it listens.

        Args:
            target: `host:port` to forward to; it may be changed later.
            port: Where to listen; 0: a free port.
            host: The address to listen on.
            owner_of: Returns whose a connection is, by the port that it comes from.
        """
        self.target = target
        self._listener = socket.create_server((host, port))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"{host}:{self.port}"
        self._owner_of = owner_of
        self._refused: set[str | None] = set()
        self._loop = asyncio.new_event_loop()
        # What is done to connections of each owner, and to those of owners that are not known yet.
        self._directions: dict[tuple[str, Way], _Direction] = {}
        self._usual: dict[Way, Harm] = dict.fromkeys(Way, Harm())
        self._connections: set[_Connection] = set()
        self._accepting: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._serve, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        """Begins to listen."""
        self._thread.start()
        self._call(self._begin)
        return self

    def __exit__(self, *_: object) -> None:
        """Closes everything."""
        self._wait(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_TIMEOUT_S)

    def change(self, way: Way, owner: str | None = None, **harm: Any) -> None:
        """Changes what is done to a direction; names and meaning as in `Harm`.

        Args:
            way: The direction.
            owner: Whose connections; None: everybody's.
            harm: What changes.
        """

        def work() -> None:
            if owner is None:
                self._usual[way] = replace(self._usual[way], **harm)
            for direction in self._chosen(owner, way):
                direction.change(replace(direction.harm, **harm))

        self._call(work)

    def cut(self, owner: str | None = None) -> None:
        """Breaks the connections of an owner, or all, now."""

        def work() -> None:
            for each in list(self._connections):
                if owner in (None, each.owner):
                    each.cut()

        self._call(work)

    def refuse(self, owner: str | None = None, *, is_refusing: bool) -> None:
        """Lets connections of an owner, or all, be closed as they come, or not any more."""
        self._call(lambda: (self._refused.add if is_refusing else self._refused.discard)(owner))

    def heal(self) -> None:
        """Takes all harm back; connections that have lost bytes break."""

        def work() -> None:
            self._refused.clear()
            self._usual = dict.fromkeys(Way, Harm())
            for direction in self._directions.values():
                direction.change(Harm())
            for each in list(self._connections):
                if each.has_lost:
                    each.cut()

        self._call(work)

    def connections(self, owner: str | None = None) -> int:
        """Returns how many connections of an owner, or of all, are forwarded now."""
        return sum(owner in (None, each.owner) for each in tuple(self._connections))

    def passed(self, way: Way) -> int:
        """Returns how many bytes have gone through."""
        return sum(each.passed for (_, one), each in tuple(self._directions.items()) if one is way)

    def direction(self, way: Way, owner: str) -> _Direction:
        """Returns what is done to a direction. For its own loop."""
        known = self._directions.get((owner, way))
        if known is None:
            known = self._directions[owner, way] = _Direction(self._usual[way])
        return known

    def _chosen(self, owner: str | None, way: Way) -> list[_Direction]:
        if owner is not None:
            return [self.direction(way, owner)]
        return [each for (_, one), each in self._directions.items() if one is way]

    def forget(self, connection: _Connection) -> None:
        """Notes that a connection has ended. For its own loop."""
        self._connections.discard(connection)

    def _call(self, work: Callable[[], object]) -> None:
        """Does something on the loop, and waits for it."""

        async def done() -> None:
            self._check()
            work()

        self._wait(done())

    def _check(self) -> None:
        """Raises what ended the accepting: nobody would be forwarded any more."""
        accepting = self._accepting
        if accepting is not None and accepting.done() and not accepting.cancelled():
            accepting.result()

    def _wait(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_TIMEOUT_S)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _begin(self) -> None:
        self._listener.setblocking(False)
        self._accepting = self._loop.create_task(self._accept(), name="accept")

    async def _accept(self) -> None:
        while True:
            try:
                client, address = await self._loop.sock_accept(self._listener)
            except ConnectionError:  # Who connected has gone already.
                continue
            client.setblocking(False)
            try:
                owner = self._owner_of(address[1])
            except Exception:
                client.close()
                raise
            if self._refused & {None, owner}:
                client.close()
            else:
                self._connections.add(_Connection(self, client, owner))

    async def _end(self) -> None:
        tasks = [each.task for each in self._connections]
        tasks += [self._accepting] if self._accepting is not None else []
        for each in list(self._connections):
            each.cut()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()
