"""The fast path: hot requests executed natively, between an event loop's sockets and the store.

A fast path belongs to one loop; its methods are called from that loop's thread, but for
`deliver_due`, `half_messages.check`, `pops.revive`, `offsets.snapshot` and those before `start`.
What the policy does not allow comes up as `Handed`.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import NamedTuple, Self, cast

from mqcore.native._native import Command, FastPathConnection, Handed, NativeFastPath
from mqcore.native.policies import BrokerPolicy
from mqcore.native.store import Store

__all__ = [
    "FastPath",
    "FastPathProtocol",
    "GroupPolicy",
    "ReactorTransport",
    "TopicPolicy",
]

_log = logging.getLogger("mqcore.fast path")

# Times on the wire of asyncio are seconds.
_MS_PER_SECOND = 1_000


class TopicPolicy(NamedTuple):
    """One topic, as the fast path needs it.

    Attributes:
        perm: Its permission: 4 read, 2 write, 1 inherit.
        read_queues: Queues that consumers read.
        write_queues: Queues that producers write.
        sys_flag: Its flags.
        is_ordered: Whether it is an order topic.
        has_multi_tags: Whether its filter type is MULTI_TAG.
        needs_check: Hand over every request for it first.
        has_priorities: Whether pops read its queues by their numbers.
    """

    perm: int = 6
    read_queues: int = 8
    write_queues: int = 8
    sys_flag: int = 0
    is_ordered: bool = False
    has_multi_tags: bool = False
    needs_check: bool = False
    has_priorities: bool = False


class GroupPolicy(NamedTuple):
    """One subscription group, as the fast path needs it.

    Attributes:
        is_consume_enabled: Whether its consumers may pull.
        is_broadcast_enabled: Whether they may consume by broadcast.
        retry_queues: Queues of its retry topic.
        max_retries: How often a message is tried again before it is a dead letter.
        broker_id: The broker it should pull from.
        slow_broker_id: The one it should pull from when it is far behind.
        needs_check: Hand over every pull of it first.
        priority_percent: In how many of a hundred pops priorities count.
    """

    is_consume_enabled: bool = True
    is_broadcast_enabled: bool = True
    retry_queues: int = 1
    max_retries: int = 16
    broker_id: int = 0
    slow_broker_id: int = 1
    needs_check: bool = False
    priority_percent: int = 100


class FastPath(NativeFastPath):
    """Executes hot requests of the connections of one loop.

    `set_bounds` sets how many bytes of unfinished frames, of answers that wait and of sends that
    wait for a log file all connections may have, and for how many microseconds one of them is
    executed before others.

    `set_broker`, `set_topics`, `set_groups` replace a whole table, `set_topic`, `set_group` and
    `set_members` one row (None: it is not known any more, or nobody is online); requests for what
    is not known are handed over. `set_group_lock` sets until when, Unix ms, somebody holds a queue
    for a group that consumes in order: what it gives up is a dead letter. `set_timers` lets sends
    ask how full a step of time is, `set_access` lets every request be checked,
    `set_delay_levels` replaces the levels of delay,
    `set_filter_bits` those expressions that set bits of messages. `remember` answers sends that
    come again within so many milliseconds with the result of the first, in so many bytes of memory.

    `offsets` are the live consumer offsets, `half_messages` the transactions that are not ended,
    `pops` what is popped and not acknowledged.

    Args:
        store: The store.
        broker: The broker's own state.
        reader_threads: Threads for records that are not in memory; 0 reads them in the loop.
        reactors: Threads that move the bytes of plain connections; 0: the loop's transports do.
        busy_poll_us: For how long a reactor looks for events before it sleeps, while that pays.

    Attributes:
        reactors: How many there are.
    """

    _store: Store
    _loop: asyncio.AbstractEventLoop | None
    _timer: asyncio.TimerHandle | None
    _busy_poll_us: int
    reactors: int

    def __new__(
        cls,
        store: Store,
        *,
        broker: BrokerPolicy,
        reader_threads: int = 2,
        reactors: int = 0,
        busy_poll_us: int = 0,
    ) -> Self:
        """Makes a fast path over an open store."""
        fast_path = super().__new__(
            cls, store, broker, reader_threads=reader_threads, reactors=reactors
        )
        fast_path.reactors = reactors
        fast_path._busy_poll_us = busy_poll_us
        fast_path._store = store
        fast_path._loop = None
        fast_path._timer = None
        return fast_path

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watches the store for the connections of `loop`."""
        self._loop = loop
        # The store's own waiters (`Store.durable`) are answered from here too.
        self._store.watch_for(loop, self._woken)
        self.start_reactors(self._busy_poll_us)
        self._woken()

    def close(self) -> None:
        """Ends the reactors and the watching."""
        self.stop_reactors()
        self.stop()

    def stop(self) -> None:
        """Answers what can be answered, and ends the watching; reactors go on."""
        self.drain()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._loop is not None:
            self._store.unwatch()
            self._loop = None

    def drain(self, now_ms: int | None = None) -> int | None:
        """Answers what can be answered now, and hands over requests that turned out to need it.

        Args:
            now_ms: The time from now on, for tests that turn the hands; the clock's otherwise.

        Returns:
            Milliseconds until the next call is due although nothing is announced.
        """
        drained = self.drain_all(now_ms)
        if drained.statuses:
            self._store.resolve(drained.statuses)
        for each in drained.handed:
            cast(FastPathProtocol, each.connection).handed([each.request])
        return drained.next_ms

    def stats(self) -> dict[str, int]:
        """Returns what was done and what waits, by name."""
        return self.numbers()

    def _woken(self) -> None:
        next_ms = self.drain()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if next_ms is not None and self._loop is not None:
            self._timer = self._loop.call_later(next_ms / _MS_PER_SECOND, self._woken)


class ReactorTransport(asyncio.Transport):
    """A socket whose bytes a reactor moves, to be paused, resumed and closed.

    Nothing is written through it: `FastPathProtocol.write` does.

    Args:
        connection: The connection; its fast path has reactors.
        sock: The socket, which is the reactor's from `detach` on.
    """

    def __init__(self, connection: "FastPathProtocol", sock: socket.socket) -> None:
        """Takes an accepted socket, on the running loop."""
        super().__init__(
            extra={"peername": _name_of(sock.getpeername), "sockname": sock.getsockname()}
        )
        self._connection = connection
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._is_closing = False

    def detach(self) -> int:
        """Gives the socket away; returns its descriptor."""
        return self._socket.detach()

    def pause_reading(self) -> None:
        """Lets the reactor read no more."""
        self._connection.hold()

    def resume_reading(self) -> None:
        """Lets the reactor read again."""
        self._connection.release()

    def is_closing(self) -> bool:
        """Returns whether it ends, or has ended."""
        return self._is_closing

    def close(self) -> None:
        """Ends the connection; what the socket takes at once is written."""
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._connection.connection_lost, None)

    def abort(self) -> None:
        """Ends the connection."""
        self.close()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Does nothing: the fast path bounds what it holds."""


class FastPathProtocol(FastPathConnection, asyncio.BufferedProtocol):
    """A connection of the fast path; derive from it and override `handed` and `refused`.

    `get_buffer`, `buffer_updated`, `pause_writing` and `resume_writing` are native. While the
    transport has nothing queued, replies go to the socket without it, so that nothing else may
    write to the transport: use `write` (whole frames, behind what was sent before) or `respond`.
    `execute` does what was decided on and answers here; what is still undecided gets the
    official refusal; False when the fast path does not execute requests of that code, or another
    broker is to. `traffic` is how many bytes were received and sent.

    With a `ReactorTransport` a reactor of the fast path reads and writes the socket.
    """

    _fast_path_transport: asyncio.Transport | None

    def __init__(self, fast_path: FastPath) -> None:
        """Makes a connection that waits for its transport."""
        self._fast_path_transport = None
        fast_path.bind(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the transport."""
        plain = cast(asyncio.Transport, transport)
        self._fast_path_transport = plain
        if isinstance(plain, ReactorTransport):
            peer, born_host = _peer_of(plain.get_extra_info("peername"))
            self.attach_socket(plain.detach(), peer=peer, born_host=born_host)
            return
        sock = plain.get_extra_info("socket")
        is_tls = plain.get_extra_info("sslcontext") is not None
        if not is_tls:
            # Pause and resume are exact then: full at the first byte queued, resumed when all are
            # out. Under TLS, where nothing goes past the transport, 0 would mean always full.
            plain.set_write_buffer_limits(high=0)
        peer, born_host = _peer_of(plain.get_extra_info("peername"))
        self.attach(
            plain.write,
            descriptor=-1 if is_tls or sock is None else sock.fileno(),
            peer=peer,
            born_host=born_host,
        )
        self.identify(is_tls, self.principal_of(plain) if is_tls else "")

    def principal_of(self, transport: asyncio.Transport) -> str:
        """Returns the user that the checked certificate of a TLS connection names; "" for nobody.

        Override where certificates name users.
        """
        del transport
        return ""

    def connection_lost(self, error: Exception | None) -> None:
        """Forgets everything that waits for this connection."""
        del error
        self.detach()
        self._fast_path_transport = None

    def handed(self, requests: list[Handed]) -> None:
        """Takes requests that the fast path does not execute, in their order. Override."""
        raise NotImplementedError(f"nobody takes {requests}")

    def refused(self, reason: str) -> None:
        """Hears why the connection is closed: bad bytes, or it does not read. Override."""
        _log.warning("connection closed: %s", reason)

    def respond(self, response: Command) -> None:
        """Sends a reply, behind what was sent before."""
        self.write(response.encode())

    def frame_age_s(self, now_s: float) -> float:
        """Returns for how long a frame has been incomplete; 0 without one."""
        del now_s
        return self.half_frame_ms() / _MS_PER_SECOND

    def is_idle(self) -> bool:
        """Returns whether another reactor may take the connection: nothing of it is under way here.

        Override where requests are executed elsewhere.
        """
        return True

    # What the native half calls.

    def give_up(self, reason: str) -> None:
        """Closes the connection."""
        self.refused(reason)
        if self._fast_path_transport is not None:
            self._fast_path_transport.abort()

    def ended(self) -> None:
        """Closes the connection: its reactor has read the peer's end of it."""
        if self._fast_path_transport is not None:
            self._fast_path_transport.abort()

    def unfinished(self, kept_bytes: int, frame: int, has_asked: bool) -> None:
        """Hears how much of an unfinished frame is held now, and of the first whole one. Override.

        Args:
            kept_bytes: How much, 0 where it is not worth counting.
            frame: Another number for another frame.
            has_asked: Whether a whole frame of the connection has come.
        """

    def wait_turn(self) -> None:
        """Goes on with the requests that are left when others have had their turn. Override."""
        asyncio.get_running_loop().call_soon(self.take_turn)

    def stop_reading(self) -> None:
        """Stops taking bytes: the peer does not read its replies."""
        transport = self._fast_path_transport
        if transport is not None and not transport.is_closing():
            transport.pause_reading()

    def go_on_reading(self) -> None:
        """Takes bytes again."""
        transport = self._fast_path_transport
        if transport is not None and not transport.is_closing():
            transport.resume_reading()


def _name_of(asked: Callable[[], object]) -> object:
    """Returns the name of a socket's other side; None when it is gone already."""
    try:
        return asked()
    except OSError:
        return None


def _peer_of(name: object) -> tuple[str, str | None]:
    """Returns the other side as remarks spell it, and as messages keep it."""
    if isinstance(name, tuple) and len(name) >= 2:
        host = str(name[0]).partition("%")[0]
        text = f"[{host}]:{name[1]}" if ":" in host else f"{host}:{name[1]}"
        return text, text
    return f"unix:{name or ''}", None
