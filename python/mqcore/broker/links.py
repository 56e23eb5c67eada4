"""One client's connection: the fast path has its bytes, Python has what that hands over."""

import asyncio
import socket

from mqcore.broker.decisions import Decisions
from mqcore.broker.inside import InsideConnection
from mqcore.config import BrokerSettings
from mqcore.config.allowed import available_processors
from mqcore.config.budget import MemoryPlan
from mqcore.errors import MQError
from mqcore.native import Command, FastPath, FastPathProtocol, Handed, ReactorTransport
from mqcore.remoting import Hub, Limits, Link, ReadGate

# From so many times the bytes on at which reading stops a connection is closed.
_FRAMES_MARGIN = 2
_US_PER_S = 1_000_000
# The kind of refusal of a connection that the fast path closes.
_CLOSED = "fast_path"
# What the fast path wants decided before it executes a request by itself.
_DECIDED = frozenset({"topic", "group", "check"})

# One moves a quarter of a gigabyte per second and more: four of them bring more than disks take.
_REACTORS_MAX = 4
# Twice the time in which a client on the same machine has its answer and sends the next message.
_BUSY_POLL_US = 50


def reactors_of(settings: BrokerSettings) -> int:
    """Returns how many threads move the bytes of plain connections: as set, or by processors."""
    if settings.reactors >= 0:
        return settings.reactors
    return max(1, min(_REACTORS_MAX, available_processors() // 2))


def busy_poll_us_of(settings: BrokerSettings) -> int:
    """Returns for how long they look for more bytes before they sleep: as set, or by processors."""
    if settings.busy_poll_us >= 0:
        return settings.busy_poll_us
    # On the only processor nobody could send anything meanwhile.
    return _BUSY_POLL_US if available_processors() > 1 else 0


def bound_fast_path(fast_path: FastPath, memory: MemoryPlan, limits: Limits) -> None:
    """Gives the fast path its bounds: those of the sockets, and the memory that is left for it."""
    # Reading stops at the sum; each connection may bring one read beyond it.
    frames = _FRAMES_MARGIN * (memory.first_frames_bytes + memory.later_frames_bytes)
    turn_us = int(limits.turn_s * _US_PER_S)
    fast_path.set_bounds(frames, memory.output_bytes, memory.sends_bytes, turn_us)


class BrokerConnection(FastPathProtocol):
    """A connection: hot requests are answered by the fast path, others by the dispatcher.

    It is the byte stream of its link: replies of the fast path and of Python keep their order.

    Attributes:
        link: The connection as handlers see it.
    """

    def __init__(self, fast_path: FastPath, hub: Hub, decisions: Decisions) -> None:
        """Makes a connection that waits for its transport."""
        super().__init__(fast_path)
        self._fast_path = fast_path
        self._has_reactors = fast_path.reactors > 0
        # Made when it is needed: few clients have static topics.
        self._inside: InsideConnection | None = None
        self._peer: object = None
        self._hub = hub
        self._decisions = decisions
        self.link = Link(hub, self, ReadGate())

    def take_socket(self, arrival: socket.socket) -> bool:
        """Gives a plain connection to a reactor; returns False where there is none."""
        if self._has_reactors:
            self.connection_made(ReactorTransport(self, arrival))
        return self._has_reactors

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the transport."""
        super().connection_made(transport)
        self._peer = transport.get_extra_info("peername")
        self.link.made(transport)
        # The fast path knows exactly whether anything is unsent, where it sends by itself.
        self.link.limit_unsent(self._hub.limits.out_high_bytes if self.link.is_tls else 0)
        self._hub.join(self.link)

    def principal_of(self, transport: asyncio.Transport) -> str:
        """Returns the user that the certificate of the client names; "" for nobody."""
        return self._hub.certificate_name(transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Forgets everything that waited for this connection."""
        super().connection_lost(error)
        if self._inside is not None:
            self._inside.close()
        self.link.lost(error)

    def pause_writing(self) -> None:
        """Stops executing: the client does not read what it is sent."""
        super().pause_writing()
        self.link.pause_writing()

    def resume_writing(self) -> None:
        """Goes on."""
        super().resume_writing()
        self.link.resume_writing()

    def is_idle(self) -> bool:
        """Returns whether another reactor may take the connection."""
        return not self.link.in_flight and not self.link.is_reading_held

    def hold_reading(self, why: str) -> None:
        """Stops reading from the client, until every reason to is gone."""
        self.link.hold_reading(why)

    def release_reading(self, why: str) -> None:
        """Reads again, unless there is another reason not to."""
        self.link.release_reading(why)

    def stop_reading(self) -> None:
        """Stops taking bytes for the fast path's reasons; Python's have the same gate."""
        self.link.hold_reading("fast path")

    def go_on_reading(self) -> None:
        """Takes bytes again, unless Python has a reason not to."""
        self.link.release_reading("fast path")

    def unfinished(self, kept_bytes: int, frame: int, has_asked: bool) -> None:
        """Counts what the fast path holds of an unfinished frame."""
        self.link.has_asked = has_asked
        self._hub.note_frame(self.link, kept_bytes, frame)

    def wait_turn(self) -> None:
        """Lets others have their turn; nothing more is read meanwhile."""
        self.link.hold_reading("turn")
        asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self.link.release_reading("turn")
        self.take_turn()

    def execute(self, command: Command) -> bool:
        """Lets the fast path execute a request and answer it.

        What it no longer executes, since the role of the master is handed over, goes the way of
        other requests; returns False then.
        """
        is_executed = super().execute(command)
        if not is_executed:
            self.link.receive([command])
        return is_executed

    def ask_inside(self, command: Command) -> asyncio.Future[Command] | None:
        """Executes a request; returns what becomes its response, None where it is not executed."""
        if self._inside is None:
            if self.link.is_lost:
                return None
            self._inside = InsideConnection(self._fast_path, self._peer)
        return self._inside.ask(command)

    def handed(self, requests: list[Handed]) -> None:
        """Takes what the fast path does not execute by itself."""
        others = []
        for each in requests:
            if each.need in _DECIDED:
                self._decisions.decide(self, each)
            else:
                others.append(each.command)
        if others:
            self.link.receive(others)

    def refused(self, reason: str) -> None:
        """Notes why the fast path closes the connection."""
        # Counted in one: the words have numbers that the peer chose.
        self.link.fail(_CLOSED, MQError(reason))
