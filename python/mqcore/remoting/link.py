"""One connection as handlers and callers see it: requests go out, answers come, readings stop.

It is made of parts that own their state: the bytes (`stream`), the gates of both directions
(`gates`), our calls that wait (`mqcore.native.CallTable`), the peer's requests (`request_queue`).
The protocol that an event loop drives owns it: `mqcore.remoting.connection.Connection` where Python
splits frames, `mqcore.broker.links.BrokerConnection` where the fast path does. Knows no topic and
no message.

All methods belong to the event loop's thread.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, NoReturn, Protocol, TypeAlias, cast

from mqcore.errors import CallTimeoutError, ConnectionLostError, TooBusyError
from mqcore.native import CallTable, Command, FrameForm, SendAnswer
from mqcore.remoting.frames import Frames
from mqcore.remoting.gates import ReadGate, WriteGate
from mqcore.remoting.request_codes import code_name
from mqcore.remoting.request_queue import Answer, RequestBounds, RequestQueue
from mqcore.remoting.stream import ByteStream

__all__ = ["Asked", "Link", "LinkHub"]

_log = logging.getLogger(__name__)

# What becomes of an asked request: its answer, or None when its deadline passed without one.
Asked: TypeAlias = asyncio.Future[Command | SendAnswer | None]

# Deadlines of asked requests are kept to within this: whoever has lost a broker waits seconds, and
# a timer per request costs more than the request.
_TICK_S = 0.1

# The flag bit of a request that wants no answer.
_ONEWAY = 2


class _EndedStream:
    """The bytes of a connection that has ended: what is sent is dropped."""

    def write(self, data: bytes) -> None:
        """Drops them."""

    def traffic(self) -> int:
        """Returns the same number at all times."""
        return 0

    def frame_age_s(self, now_s: float) -> float:
        """Returns 0."""
        del now_s
        return 0.0


_ENDED = _EndedStream()


class LinkHub(RequestBounds, Protocol):
    """What a connection asks of what it shares with others; `mqcore.remoting.hub.Hub`."""

    version: int
    language: int
    frames: Frames["Link"]

    def next_opaque(self) -> int:
        """Returns the number of our next request."""

    def note_user(self, link: "Link", user: str) -> bool:
        """Counts a connection as one of a user; closes one that is too many, and returns False."""

    def note_requests(self, link: "Link", held_bytes: int) -> None:
        """Counts what a connection holds of requests for its user."""

    def join(self, link: "Link") -> None:
        """Counts a connection in and notifies the listeners."""

    def leave(self, link: "Link") -> None:
        """Counts a connection out and notifies the listeners."""

    def notify(self, event: str, link: "Link", *facts: object) -> None:
        """Notifies every listener of an event."""

    def request(
        self, code: int, opaque: int, flag: int, ext: Mapping[str, str] | None, body: bytes
    ) -> Command:
        """Returns a request of ours as it is sent: signed, where we have credentials."""

    def start(self, link: "Link", command: Command) -> Answer | Awaitable[Answer]:
        """Begins a request of the peer; returns its answer, or what to await for it."""

    def certificate_name(self, transport: asyncio.BaseTransport) -> str:
        """Returns whom the certificate names that the peer has shown; empty without one."""

    def failure(self, link: "Link", command: Command, error: Exception) -> Command:
        """Returns the answer that reports an error; logs what is not a refusal."""


class Link:
    """A connection as handlers and callers see it.

    Attributes:
        hub: What it shares with others.
        peer: The other side, `host:port` or `unix:...`.
        peer_host: The other side's host alone.
        local_host: The number of our interface that it came in on; empty for a Unix socket.
        is_tls: Whether TLS protects it.
        certificate_name: Whom the certificate of the peer names, by `mqcoreTlsPrincipal`; empty
            where it has shown none, or no rule makes a name of it.
        is_lost: Whether it has ended.
        has_asked: Whether a whole frame of the peer has come (a good request, where they must be
            signed), or it is we who ask.
        counted_as: The address that it is counted for; empty for none.
        facts: Whatever a handler wants to remember about it; it ends with the connection.
        requests: Requests of the peer that run or wait to run.
        calls: Our requests that wait for their answer.
    """

    def __init__(self, hub: LinkHub, stream: ByteStream, reading: ReadGate) -> None:
        """Makes a connection that waits for its transport.

        Args:
            hub: What it shares with others.
            stream: Who writes and counts its bytes.
            reading: Whether it is read.
        """
        self.hub = hub
        self.peer = "?"
        self.peer_host = ""
        self.local_host = ""
        self.is_tls = False
        self.certificate_name = ""
        self.is_lost = False
        self.has_asked = False
        self.counted_as = ""
        self.facts: dict[str, Any] = {}
        self._stream = stream
        self._reading = reading
        self._writing = WriteGate()
        self.requests = RequestQueue(self, hub, reading, self._writing)
        self.calls = CallTable()
        self._calls_max = hub.limits.calls_max
        self._transport: asyncio.Transport | None = None
        # Kept: asking for it costs a system call before Python 3.12.
        self._loop: asyncio.AbstractEventLoop | None = None
        # Frames of asked requests that stand before those that the table has written.
        self._asked: list[bytes] = []
        self._is_due = False
        self._timer: asyncio.TimerHandle | None = None

    # What the protocol of the connection calls.

    def made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the transport; the protocol joins the hub once it is ready itself."""
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self._reading.open(self._transport)
        self.is_tls = transport.get_extra_info("sslcontext") is not None
        if self.is_tls:
            self.certificate_name = self.hub.certificate_name(transport)
        self.peer, self.peer_host = _address_of(transport.get_extra_info("peername"))
        self.local_host = _address_of(transport.get_extra_info("sockname"))[1]

    def limit_unsent(self, high_bytes: int) -> None:
        """Sets how many unsent bytes pause the writing."""
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=high_bytes, low=high_bytes // 2)

    def lost(self, error: Exception | None) -> None:
        """Fails every call that waits, forgets requests not begun, and notifies the listeners."""
        self.is_lost = True
        self._stream = _ENDED
        self._reading.end()
        if self._timer is not None:
            self._timer.cancel()
        self._asked.clear()
        self.calls.take_unsent()
        for future in self.calls.take_all():
            if not future.done():
                # One each: an exception that is raised twice collects both traces.
                why = f"{self.peer}: the connection ended"
                future.set_exception(ConnectionLostError(why, address=self.peer))
        self.requests.end()
        self.hub.frames.forget(self)
        self._writing.end()
        if error is not None:
            self.hub.notify("failed", self, error)
        self.hub.leave(self)

    def pause_writing(self) -> None:
        """Stops executing requests: the peer does not read what it is sent."""
        self._writing.pause()
        self.requests.writable(is_paused=True)

    def resume_writing(self) -> None:
        """Goes on."""
        self._writing.resume()
        self.requests.writable(is_paused=False)

    def receive(self, commands: Iterable[Command]) -> None:
        """Takes whole commands: answers go to who waits, requests are executed in order."""
        has_requests = False
        for command in commands:
            if not command.is_response:
                has_requests = True
                if command.user and not self.hub.note_user(self, command.user):
                    return
                if not self.requests.add(command):
                    return
            elif not self.calls.resolve(command):
                _log.debug("%s: nobody waits for answer %d", self.peer, command.opaque)
        if has_requests:
            self.requests.go_on()

    def fail(self, reason: str, error: Exception) -> None:
        """Closes a connection whose bytes cannot be understood."""
        self.hub.refuse(reason, "%s: %s, closing", self.peer, error)
        self.hub.notify("failed", self, error)
        self.abort()

    # What the queue of requests calls.

    def start(self, command: Command) -> Answer | Awaitable[Answer]:
        """Begins a request of the peer; returns its answer, or what to await for it."""
        return self.hub.start(self, command)

    def holds(self, held_bytes: int) -> None:
        """Hears how many bytes its requests hold now."""
        self.hub.note_requests(self, held_bytes)

    def failure(self, command: Command, error: Exception) -> Command:
        """Returns the answer that reports an error."""
        return self.hub.failure(self, command, error)

    # What handlers and callers ask.

    @property
    def is_open(self) -> bool:
        """Whether what is sent now has a chance to arrive."""
        transport = self._transport
        return transport is not None and not self.is_lost and not transport.is_closing()

    @property
    def in_flight(self) -> int:
        """Requests of the peer that run or wait to run."""
        return self.requests.in_flight

    @property
    def is_reading_held(self) -> bool:
        """Whether it is not read, for one reason or several."""
        return self._reading.is_paused

    @property
    def stream(self) -> ByteStream:
        """Who writes its bytes: the protocol of the connection."""
        return self._stream

    def send(self, command: Command) -> None:
        """Sends an answer or a request; what cannot be sent any more is dropped."""
        self._stream.write(command.encode())

    def write(self, data: bytes) -> None:
        """Sends bytes that are whole frames, behind everything sent before."""
        self._stream.write(data)

    def ask(self, opaque: int, frame: bytes, deadline_s: float) -> Asked:
        """Sends a request that is encoded already; returns what its answer will resolve.

        Frames asked in one turn of the loop go out in one write. The future gives None when the
        deadline has passed without an answer; the caller calls `forget` when it waits no longer.

        Args:
            opaque: The request's number, from `hub.next_opaque()`.
            frame: The whole frame.
            deadline_s: When the answer is late, by the loop's clock; kept to within `_TICK_S`.

        Raises:
            ConnectionLostError: The connection is closed.
            TooBusyError: Too many calls wait already.
        """
        future: Asked = self._begin().create_future()
        self.calls.begin(opaque, future, deadline_s)
        if before := self.calls.take_unsent():
            self._asked.append(before)
        self._asked.append(frame)
        return future

    def ask_send(
        self,
        form: FrameForm,
        opaque: int,
        values: tuple[Any, ...],
        body: bytes,
        deadline_s: float,
    ) -> Asked:
        """The same for a small send; the usual answer is given as a `SendAnswer`.

        Args:
            form: The form of its frame.
            opaque: The request's number.
            values: The values of the form's fields.
            body: The body.
            deadline_s: When the answer is late.

        Raises:
            ConnectionLostError: The connection is closed.
            FrameError: A part is too long for its place.
            TooBusyError: Too many calls wait already.
        """
        future: Asked = self._begin().create_future()
        self.calls.ask_send(form, opaque, values, body, future, deadline_s)
        return future

    def _begin(self) -> asyncio.AbstractEventLoop:
        """Returns the loop, when a request may be asked now; sends at the end of its turn."""
        loop, transport = self._loop, self._transport
        if loop is None or transport is None or self.is_lost or transport.is_closing():
            raise ConnectionLostError(f"{self.peer}: the connection is closed", address=self.peer)
        if len(self.calls) >= self._calls_max:
            self._refuse_call()
        if not self._is_due:
            self._is_due = True
            # Its frames are what we asked for.
            self.has_asked = True
            loop.call_soon(self._send_asked)
            if self._timer is None:
                self._timer = loop.call_later(_TICK_S, self._look_for_late)
        return loop

    def _refuse_call(self) -> NoReturn:
        raise TooBusyError(
            f"{self.peer}: {self._calls_max} requests already wait for an answer",
            address=self.peer,
            limit=self._calls_max,
        )

    def _send_asked(self) -> None:
        self._is_due = False
        frames, self._asked = self._asked, []
        if last := self.calls.take_unsent():
            frames.append(last)
        if frames:
            self._stream.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def _look_for_late(self) -> None:
        self._timer = None
        loop = self._loop
        if loop is None:
            return
        for future in self.calls.take_late(loop.time()):
            if not future.done():
                future.set_result(None)
        if self.calls.has_deadlines:
            self._timer = loop.call_later(_TICK_S, self._look_for_late)

    def forget(self, opaque: int) -> None:
        """Waits no longer for the answer to a request; it may come and is dropped then."""
        self.calls.end(opaque)

    @property
    def is_write_paused(self) -> bool:
        """Whether the peer does not read what it is sent; `until_writable` waits for that."""
        return self._writing.is_paused

    async def until_writable(self) -> None:
        """Returns when there is space for more, or has ended."""
        await self._writing.until_writable()

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
        if len(self.calls) >= self._calls_max:
            self._refuse_call()
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self.calls.begin(opaque, future)
        self.has_asked = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._writing.until_writable()
                self.send(self.hub.request(code, opaque, 0, ext, body))
                return await future
        except TimeoutError as error:
            raise CallTimeoutError(
                f"{self.peer}: no answer to {code_name(code)} within {timeout_s:g} s",
                address=self.peer,
                code=code,
                timeout_s=timeout_s,
            ) from error
        finally:
            self.calls.end(opaque)
            if future.done() and not future.cancelled():
                # The connection may have ended while the deadline passed: that is known now.
                future.exception()

    async def oneway(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b""
    ) -> None:
        """Sends a request that has no answer; returns when there is space for it.

        Raises:
            ConnectionLostError: The connection is closed.
        """
        await self._writing.until_writable()
        if not self.is_open:
            raise ConnectionLostError(f"{self.peer}: the connection is closed", address=self.peer)
        self.notify(code, ext, body)

    def notify(self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        """Sends a request that has no answer, now or never."""
        self.send(self.hub.request(code, self.hub.next_opaque(), _ONEWAY, ext, body))

    def hold_reading(self, why: str) -> None:
        """Stops reading from the peer, until every reason to is gone.

        Args:
            why: The reason, for `release_reading`; holding twice for one reason is holding once.
        """
        self._reading.hold(why)

    def release_reading(self, why: str) -> None:
        """Reads again, unless another reason holds it."""
        self._reading.release(why)

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
        self.requests.finish()

    # What the sweep asks.

    def traffic(self) -> int:
        """Returns a number that differs whenever a byte came in or went out."""
        return self._stream.traffic()

    def frame_age_s(self, now_s: float) -> float:
        """Returns for how long a frame has been incomplete; 0 without one."""
        return self._stream.frame_age_s(now_s)


def _address_of(name: object) -> tuple[str, str]:
    """Returns a socket's name as routes write it, and its host alone."""
    if isinstance(name, tuple) and len(name) >= 2:
        host = str(name[0]).removeprefix("::ffff:")
        return (f"[{host}]:{name[1]}" if ":" in host else f"{host}:{name[1]}"), host
    # A connection that is gone already has no name.
    return "?" if name is None else f"unix:{name or ''}", ""
