"""One connection, without its receiving half: requests run, answers go out, calls wait.

Everything but the way from bytes to commands, so that it serves both kinds of connection: the plain
one (`mqcore.remoting.connection`) and one whose bytes the lane reads:

    class BrokerLink(LaneProtocol, Link):
        def __init__(self, lane, hub):
            LaneProtocol.__init__(self, lane); Link.__init__(self, hub)
        def connection_made(self, transport):
            LaneProtocol.connection_made(self, transport); Link.connection_made(self, transport)
        def connection_lost(self, error):                  # and likewise pause/resume_writing
            LaneProtocol.connection_lost(self, error); Link.connection_lost(self, error)
        def write(self, data): LaneProtocol.write(self, data)      # keeps the order of replies
        def write_high_bytes(self): ...                            # 0 where it is not TLS: exact
        def stop_reading(self): self.hold_reading("lane")          # one gate for both halves
        def go_on_reading(self): self.release_reading("lane")
        def handed(self, requests):
            self.receive([request.command for request in requests])

All methods belong to the event loop's thread.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, cast

from mqcore.errors import CallTimeoutError, ConnectionLostError
from mqcore.native import Command
from mqcore.remoting.calls import Calls
from mqcore.remoting.dispatch import Answer, Request, failure
from mqcore.remoting.hub import Hub
from mqcore.remoting.request_codes import code_name

__all__ = ["Link"]

_log = logging.getLogger(__name__)

# The reason of a connection that has as many requests in flight as it may.
_FULL = "in flight"
# A request without fields and body, with its task, as Python keeps it: about so much.
_REQUEST_BYTES = 2048
# The flag bit of a request that wants no answer.
_ONEWAY = 2


class Link(asyncio.BaseProtocol):
    """A connection as handlers and callers see it.

    Attributes:
        hub: What it shares with others.
        peer: The other side, `host:port` or `unix:...`.
        peer_host: The other side's host alone.
        local_host: The number of our interface that it came in on; empty for a Unix socket.
        is_tls: Whether TLS protects it.
        has_asked: Whether a whole frame of the peer has come, or it is we who ask.
        facts: Whatever a handler wants to remember about it; it ends with the connection.
    """

    def __init__(self, hub: Hub) -> None:
        """Makes a connection that waits for its transport."""
        self.hub = hub
        self.peer = "?"
        self.peer_host = ""
        self.local_host = ""
        self.is_tls = False
        self.has_asked = False
        self.facts: dict[str, Any] = {}
        self._transport: asyncio.Transport | None = None
        # Kept: asking for it costs a system call before Python 3.12.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls = Calls(hub.limits.calls_max)
        self._backlog: deque[Request] = deque()
        self._asked: list[bytes] = []
        self._running = 0
        self._held_bytes = 0
        self._frames_begun = 0
        self._moved = 0
        self._frame_began_s: float | None = None
        self._is_write_paused = False
        self._is_read_paused = False
        self._read_holds: set[str] = set()
        self._is_turn_due = False
        self._is_waiting = False
        self._is_finishing = False
        self._is_lost = False
        self._writable: asyncio.Future[None] | None = None

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the transport, and tells the listeners."""
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self.is_tls = transport.get_extra_info("sslcontext") is not None
        high = self.write_high_bytes()
        self._transport.set_write_buffer_limits(high=high, low=high // 2)
        self.peer, self.peer_host = _address_of(transport.get_extra_info("peername"))
        self.local_host = _address_of(transport.get_extra_info("sockname"))[1]
        self.hub.join(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Fails every call that waits, forgets requests not begun, and tells the listeners."""
        self._is_lost = True
        self._calls.fail(
            ConnectionLostError(f"{self.peer}: the connection ended", address=self.peer)
        )
        for request in self._backlog:
            self._hold(-request.held_bytes)
        self._backlog.clear()
        self.hub.frames.forget(self)
        self._wait_turn(is_waiting=False)
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if error is not None:
            self.hub.tell("failed", self, error)
        self.hub.leave(self)

    def pause_writing(self) -> None:
        """Stops executing requests: the peer does not read what it is sent."""
        self._is_write_paused = True
        self._balance()

    def resume_writing(self) -> None:
        """Goes on."""
        self._is_write_paused = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None
        self._schedule()
        self._balance()

    # What handlers and callers ask.

    @property
    def is_open(self) -> bool:
        """Whether what is sent now has a chance to arrive."""
        return self._transport is not None and not self._is_lost and not self._is_closing()

    @property
    def is_lost(self) -> bool:
        """Whether the connection has ended."""
        return self._is_lost

    @property
    def in_flight(self) -> int:
        """Requests of the peer that run or wait to run."""
        return self._running + len(self._backlog)

    def send(self, command: Command) -> None:
        """Sends an answer or a request; what cannot be sent any more is dropped."""
        self.write(command.encode())

    def write(self, data: bytes) -> None:
        """Sends bytes that are whole frames, behind everything sent before."""
        transport = self._transport
        if transport is None or self._is_lost or transport.is_closing():
            return
        self._moved += len(data)
        transport.write(data)
        if transport.get_write_buffer_size() > self.hub.limits.out_bytes_max:
            self.hub.refuse(
                "slow_reader",
                "%s does not read: %d unsent bytes, closing",
                self.peer,
                transport.get_write_buffer_size(),
            )
            self.abort()

    def ask(self, opaque: int, frame: bytes) -> asyncio.Future[Command]:
        """Sends a request that is encoded already; returns what its answer will resolve.

        Frames asked in one turn of the loop go out in one write. The caller minds the deadline, and
        calls `forget` when it waits no longer.

        Args:
            opaque: The request's number, from `hub.next_opaque()`.
            frame: The whole frame.

        Raises:
            ConnectionLostError: The connection is closed.
            TooBusyError: Too many calls wait already.
        """
        loop = self._loop
        if loop is None or not self.is_open:
            raise ConnectionLostError(f"{self.peer}: the connection is closed", address=self.peer)
        future = self._calls.begin(opaque, self.peer, loop)
        # Its frames are what we asked for.
        self.has_asked = True
        if not self._asked:
            loop.call_soon(self._send_asked)
        self._asked.append(frame)
        return future

    def _send_asked(self) -> None:
        frames, self._asked = self._asked, []
        self.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def forget(self, opaque: int) -> None:
        """Waits no longer for the answer to a request; it may come and is dropped then."""
        self._calls.end(opaque)

    @property
    def is_write_paused(self) -> bool:
        """Whether the peer does not read what it is sent; `until_writable` waits for that."""
        return self._is_write_paused

    async def until_writable(self) -> None:
        """Returns when the connection has room, or has ended."""
        await self._until_writable()

    async def call(
        self,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_s: float,
    ) -> Command:
        """Sends a request and returns its answer, whatever its code.

        Cancelling forgets the request; the peer may have done it all the same.

        Raises:
            CallTimeoutError: No answer in time.
            ConnectionLostError: The connection ended, or had ended before.
            TooBusyError: Too many calls wait already.
        """
        opaque = self.hub.next_opaque()
        if not self.is_open:
            raise ConnectionLostError(f"{self.peer}: the connection is closed", address=self.peer)
        future = self._calls.begin(opaque, self.peer, asyncio.get_running_loop())
        self.has_asked = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._until_writable()
                self.send(self._request(code, opaque, 0, ext, body))
                return await future
        except TimeoutError as error:
            raise CallTimeoutError(
                f"{self.peer}: no answer to {code_name(code)} within {timeout_s:g} s",
                address=self.peer,
                code=code,
                timeout_s=timeout_s,
            ) from error
        finally:
            self._calls.end(opaque)
            if future.done() and not future.cancelled():
                # The connection may have ended while the deadline passed: that is known now.
                future.exception()

    async def oneway(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b""
    ) -> None:
        """Sends a request that has no answer; returns when the connection has room for it.

        Raises:
            ConnectionLostError: The connection is closed.
        """
        await self._until_writable()
        if not self.is_open:
            raise ConnectionLostError(f"{self.peer}: the connection is closed", address=self.peer)
        self.notify(code, ext, body)

    def notify(self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        """Sends a request that has no answer, now or never."""
        self.send(self._request(code, self.hub.next_opaque(), _ONEWAY, ext, body))

    def write_high_bytes(self) -> int:
        """Returns how many unsent bytes pause the writing; override where another rule holds."""
        return self.hub.limits.out_high_bytes

    def hold_reading(self, why: str) -> None:
        """Stops reading from the peer, until every reason to is gone.

        Args:
            why: The reason, for `release_reading`; holding twice for one reason is holding once.
        """
        self._read_holds.add(why)
        self._apply_read_holds()

    def release_reading(self, why: str) -> None:
        """Reads again, unless another reason holds it."""
        self._read_holds.discard(why)
        self._apply_read_holds()

    def close(self) -> None:
        """Closes once everything sent is on its way."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Closes at once."""
        if self._transport is not None:
            self._transport.abort()

    def finish(self) -> None:
        """Takes no more requests, and closes when those taken are answered."""
        self._is_finishing = True
        self._balance()
        self._close_if_finished()

    # What the receiving half calls.

    def receive(self, commands: Iterable[Command]) -> None:
        """Takes whole commands: answers go to who waits, requests are executed in order."""
        for command in commands:
            if not command.is_response:
                held_bytes = _held_bytes_of(command)
                self._backlog.append(Request(command, self, held_bytes))
                if not self._hold(held_bytes):
                    return
            elif not self._calls.resolve(command):
                _log.debug("%s: nobody waits for answer %d", self.peer, command.opaque)
        if self._backlog and not self._is_turn_due and not self._is_lost:
            self._turn()

    def received(
        self, byte_count: int, *, partial_bytes: int, is_frame_whole: bool, now_s: float
    ) -> None:
        """Notes bytes that came in.

        Args:
            byte_count: How many.
            partial_bytes: How many of an unfinished frame are held now.
            is_frame_whole: Whether they made a frame whole.
            now_s: The loop's time.
        """
        self._moved += byte_count
        self.has_asked = self.has_asked or is_frame_whole
        had_partial = self._frame_began_s is not None
        if partial_bytes == 0:
            self._frame_began_s = None
        elif is_frame_whole or not had_partial:
            self._frame_began_s = now_s
            self._frames_begun += 1
        if partial_bytes or had_partial:
            self.hub.frames.note(self, partial_bytes, self._frames_begun, has_asked=self.has_asked)

    def fail(self, reason: str, error: Exception) -> None:
        """Closes a connection whose bytes cannot be understood."""
        self.hub.refuse(reason, "%s: %s, closing", self.peer, error)
        self.hub.tell("failed", self, error)
        self.abort()

    # What the sweep asks.

    def traffic(self) -> int:
        """Returns a number that differs whenever a byte came in or went out."""
        unsent = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._moved - unsent

    def frame_age_s(self, now_s: float) -> float:
        """Returns for how long a frame has been incomplete; 0 without one."""
        # While we do not read, it is not the peer who is slow.
        if self._frame_began_s is None or self._is_read_paused:
            return 0.0
        return now_s - self._frame_began_s

    # Executing.

    def _turn(self) -> None:
        """Executes requests until a bound; what is left waits for the next turn."""
        self._wait_turn(is_waiting=False)
        running_max, clock = self.hub.limits.in_flight_max, self.hub.clock
        end_s = clock() + self.hub.turn_s()
        while self._backlog and not self._is_write_paused and self._running < running_max:
            self._execute(self._backlog.popleft())
            if self._backlog and clock() >= end_s:
                self._wait_turn(is_waiting=True)
                self._schedule()
                break
        self._balance()
        self._close_if_finished()

    def _wait_turn(self, *, is_waiting: bool) -> None:
        """Counts a connection whose turn ended with requests left."""
        self.hub.waiting += int(is_waiting) - int(self._is_waiting)
        self._is_waiting = is_waiting

    def _schedule(self) -> None:
        if self._backlog and not self._is_turn_due and not self._is_lost:
            self._is_turn_due = True
            asyncio.get_running_loop().call_soon(self._due_turn)

    def _due_turn(self) -> None:
        self._is_turn_due = False
        if not self._is_lost:
            self._turn()

    def _execute(self, request: Request) -> None:
        try:
            outcome = self.hub.dispatcher.start(request)
        except Exception as error:
            self._ended(request, failure(request, error))
            return
        if outcome is None or isinstance(outcome, Command):
            self._ended(request, outcome)
        else:
            self._running += 1
            self.hub.spawn(self._await(request, outcome))

    async def _await(self, request: Request, outcome: Awaitable[Answer]) -> None:
        answer: Answer = None
        try:
            answer = await outcome
        except Exception as error:
            answer = failure(request, error)
        finally:
            self._running -= 1
            self._ended(request, answer)
            self._schedule()
            self._balance()
            self._close_if_finished()

    def _ended(self, request: Request, answer: Answer) -> None:
        self._hold(-request.held_bytes)
        if answer is not None and not request.command.is_oneway:
            self.send(answer)

    # Bounds.

    def _hold(self, delta_bytes: int) -> bool:
        self._held_bytes += delta_bytes
        if self.hub.hold(delta_bytes):
            return True
        self.hub.refuse(
            "memory", "%s: all connections together hold too many bytes, closing", self.peer
        )
        self.abort()
        return False

    def _balance(self) -> None:
        """Reads from the peer exactly while there is room for more of its requests."""
        limits = self.hub.limits
        is_full = (
            self._is_write_paused
            or self._is_finishing
            or self.in_flight >= limits.in_flight_max
            or (self.in_flight > 0 and self._held_bytes >= limits.in_flight_bytes_max)
        )
        if is_full:
            self.hold_reading(_FULL)
        elif _FULL in self._read_holds:
            self.release_reading(_FULL)

    def _apply_read_holds(self) -> None:
        transport = self._transport
        if transport is None or self._is_lost or transport.is_closing():
            return
        if self._read_holds and not self._is_read_paused:
            self._is_read_paused = True
            transport.pause_reading()
        elif not self._read_holds and self._is_read_paused:
            self._is_read_paused = False
            # A new age: the pause was ours.
            if self._frame_began_s is not None:
                self._frame_began_s = asyncio.get_running_loop().time()
            transport.resume_reading()

    def _close_if_finished(self) -> None:
        if self._is_finishing and self.in_flight == 0:
            self.close()

    def _is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    async def _until_writable(self) -> None:
        while self._is_write_paused and not self._is_lost:
            if self._writable is None:
                self._writable = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._writable)

    def _request(
        self, code: int, opaque: int, flag: int, ext: Mapping[str, str] | None, body: bytes
    ) -> Command:
        return Command(
            code=int(code),
            opaque=opaque,
            flag=flag,
            language=self.hub.language,
            version=self.hub.version,
            ext=dict(ext) if ext else {},
            body=body,
        )


def _held_bytes_of(command: Command) -> int:
    """Returns what a request is counted as: its parts, and the objects that hold them."""
    return _REQUEST_BYTES + len(command.body) + sum(map(len, command.ext.values()))


def _address_of(name: object) -> tuple[str, str]:
    """Returns a socket's name as routes write it, and its host alone."""
    if isinstance(name, tuple) and len(name) >= 2:
        host = str(name[0]).removeprefix("::ffff:")
        return (f"[{host}]:{name[1]}" if ":" in host else f"{host}:{name[1]}"), host
    # A connection that is gone already has no name.
    return "?" if name is None else f"unix:{name or ''}", ""
