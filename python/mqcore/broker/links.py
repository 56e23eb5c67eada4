"""One client's connection: its bytes are the lane's, what the lane hands over is Python's."""

import asyncio

from mqcore.broker.decisions import Decisions
from mqcore.config.budget import MemoryPlan
from mqcore.errors import MQError
from mqcore.native import Handed, Lane, LaneProtocol
from mqcore.remoting import Hub, Limits, Link

# From so many times the bytes on at which reading stops a connection is closed.
_FRAMES_MARGIN = 2
_US_PER_S = 1_000_000
# What the lane wants decided before it executes a request by itself.
_DECIDED = frozenset({"topic", "group", "check"})


def bound_lane(lane: Lane, memory: MemoryPlan, limits: Limits) -> None:
    """Gives the lane its bounds: those of the sockets, and the memory that is left for it."""
    # Reading stops at the sum; each connection may bring one read beyond it.
    frames = _FRAMES_MARGIN * (memory.first_frames_bytes + memory.later_frames_bytes)
    turn_us = int(limits.turn_s * _US_PER_S)
    lane.set_bounds(frames, memory.output_bytes, memory.sends_bytes, turn_us)


class BrokerLink(LaneProtocol, Link):
    """A connection: hot requests are answered by the lane, others by the dispatcher.

    `write` and `traffic` are the lane's: its replies and ours keep their order.
    """

    def __init__(self, lane: Lane, hub: Hub, decisions: Decisions) -> None:
        """Makes a connection that waits for its transport."""
        LaneProtocol.__init__(self, lane)
        Link.__init__(self, hub)
        self._decisions = decisions

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the transport."""
        LaneProtocol.connection_made(self, transport)
        Link.connection_made(self, transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Forgets everything that waited for this connection."""
        LaneProtocol.connection_lost(self, error)
        Link.connection_lost(self, error)

    def pause_writing(self) -> None:
        """Stops executing: the client does not read what it is sent."""
        LaneProtocol.pause_writing(self)
        Link.pause_writing(self)

    def resume_writing(self) -> None:
        """Goes on."""
        LaneProtocol.resume_writing(self)
        Link.resume_writing(self)

    def write_high_bytes(self) -> int:
        """Lets the lane know exactly whether anything is unsent, where it sends by itself."""
        return Link.write_high_bytes(self) if self.is_tls else 0

    def stop_reading(self) -> None:
        """Stops taking bytes for the lane's reasons; Python's have the same gate."""
        self.hold_reading("lane")

    def go_on_reading(self) -> None:
        """Takes bytes again, unless Python has a reason not to."""
        self.release_reading("lane")

    def unfinished(self, kept_bytes: int, frame: int, has_asked: bool) -> None:
        """Counts what the lane holds of an unfinished frame."""
        self.has_asked = has_asked
        self.hub.frames.note(self, kept_bytes, frame, has_asked=has_asked)

    def wait_turn(self) -> None:
        """Lets others have their turn; nothing more is read meanwhile."""
        self.hold_reading("turn")
        asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self.release_reading("turn")
        self.take_turn()

    def handed(self, requests: list[Handed]) -> None:
        """Takes what the lane does not execute by itself."""
        others = []
        for each in requests:
            if each.need in _DECIDED:
                self._decisions.decide(self, each)
            else:
                others.append(each.command)
        if others:
            self.receive(others)

    def refused(self, reason: str) -> None:
        """Notes why the lane closes the connection."""
        self.fail(reason, MQError(reason))
