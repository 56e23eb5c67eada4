"""The requests of the peer on one connection: those that wait, run, and what they hold.

They are executed in order, for a turn; then other connections have theirs. Knows neither what a
request asks for nor how an answer is written: its owner starts requests and sends answers.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeAlias

from mqcore.native import Command
from mqcore.remoting.gates import ReadGate, WriteGate
from mqcore.remoting.limits import Limits

__all__ = ["Answer", "RequestBounds", "RequestOwner", "RequestQueue"]

Answer: TypeAlias = Command | None

# The reason of a connection that has as many requests in flight as it may.
_FULL = "in flight"
# A request without fields and body, with its task, as Python keeps it: about so much.
_REQUEST_BYTES = 2048


class RequestBounds(Protocol):
    """The bounds that requests of all connections share; `mqcore.remoting.hub.Hub` has them."""

    waiting: int

    @property
    def limits(self) -> Limits:
        """The bounds."""

    @property
    def clock(self) -> Callable[[], float]:
        """Returns seconds that never step back."""

    def turn_s(self) -> float:
        """Returns how long a connection may run now."""

    def hold(self, delta_bytes: int) -> bool:
        """Counts bytes held; returns whether the bound of all is kept."""

    def orphan(self, count: int) -> None:
        """Counts requests that run although their connection has ended; fewer with a minus."""

    def refuse(self, reason: str, message: str, *facts: object) -> None:
        """Counts a refusal and logs it."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` beside everything else and keeps it alive."""


class RequestOwner(Protocol):
    """The connection that the requests came by; `mqcore.remoting.link.Link`."""

    peer: str

    def start(self, command: Command) -> Answer | Awaitable[Answer]:
        """Begins a request; returns its answer, or what to await for it."""

    def failure(self, command: Command, error: Exception) -> Command:
        """Returns the answer that reports an error."""

    def holds(self, held_bytes: int) -> None:
        """Hears how many bytes its requests hold now."""

    def send(self, command: Command) -> None:
        """Sends an answer."""

    def close(self) -> None:
        """Closes once everything sent is on its way."""

    def abort(self) -> None:
        """Closes at once."""


class RequestQueue:
    """Executes the requests of one connection while its bounds leave space."""

    def __init__(
        self, owner: RequestOwner, bounds: RequestBounds, reading: ReadGate, writing: WriteGate
    ) -> None:
        """Takes the connection, the bounds of all, and the gates of both directions."""
        self._owner = owner
        self._bounds = bounds
        self._reading = reading
        self._writing = writing
        # Each with what it is counted as.
        self._backlog: deque[tuple[Command, int]] = deque()
        self._running = 0
        self._held_bytes = 0
        self._is_turn_due = False
        self._is_waiting = False
        self._is_finishing = False
        self._is_ended = False

    @property
    def in_flight(self) -> int:
        """Requests that run or wait to run."""
        return self._running + len(self._backlog)

    def add(self, command: Command) -> bool:
        """Lets a request wait; returns whether the bound of all connections is kept."""
        held_bytes = _held_bytes_of(command)
        self._backlog.append((command, held_bytes))
        return self._hold(held_bytes)

    def go_on(self) -> None:
        """Executes what waits, unless a turn is due anyway."""
        if self._backlog and not self._is_turn_due and not self._is_ended:
            self.turn()

    def writable(self, *, is_paused: bool) -> None:
        """Hears that the peer reads no longer what it is sent, or reads again."""
        if not is_paused:
            self._schedule()
        self._balance()

    def finish(self) -> None:
        """Takes no more requests, and closes the connection when those taken are answered."""
        self._is_finishing = True
        self._balance()
        self._close_if_finished()

    def end(self) -> None:
        """Forgets requests that have not begun: the connection ended."""
        self._is_ended = True
        for _, held_bytes in self._backlog:
            self._hold(-held_bytes)
        self._backlog.clear()
        self._wait_turn(is_waiting=False)
        self._bounds.orphan(self._running)

    def turn(self) -> None:
        """Executes requests until a bound; what is left waits for the next turn."""
        self._wait_turn(is_waiting=False)
        running_max, clock = self._bounds.limits.in_flight_max, self._bounds.clock
        end_s = clock() + self._bounds.turn_s()
        while self._backlog and not self._writing.is_paused and self._running < running_max:
            self._execute(*self._backlog.popleft())
            if self._backlog and clock() >= end_s:
                self._wait_turn(is_waiting=True)
                self._schedule()
                break
        self._balance()
        self._close_if_finished()

    def _wait_turn(self, *, is_waiting: bool) -> None:
        """Counts a connection whose turn ended with requests left."""
        self._bounds.waiting += int(is_waiting) - int(self._is_waiting)
        self._is_waiting = is_waiting

    def _schedule(self) -> None:
        if self._backlog and not self._is_turn_due and not self._is_ended:
            self._is_turn_due = True
            asyncio.get_running_loop().call_soon(self._due_turn)

    def _due_turn(self) -> None:
        self._is_turn_due = False
        if not self._is_ended:
            self.turn()

    def _execute(self, command: Command, held_bytes: int) -> None:
        try:
            outcome = self._owner.start(command)
        except Exception as error:
            self._answered(command, held_bytes, self._owner.failure(command, error))
            return
        if outcome is None or isinstance(outcome, Command):
            self._answered(command, held_bytes, outcome)
        else:
            self._running += 1
            self._bounds.spawn(self._await(command, held_bytes, outcome))

    async def _await(self, command: Command, held_bytes: int, outcome: Awaitable[Answer]) -> None:
        answer: Answer = None
        try:
            answer = await outcome
        except Exception as error:
            answer = self._owner.failure(command, error)
        finally:
            self._running -= 1
            if self._is_ended:
                self._bounds.orphan(-1)
            self._answered(command, held_bytes, answer)
            self._schedule()
            self._balance()
            self._close_if_finished()

    def _answered(self, command: Command, held_bytes: int, answer: Answer) -> None:
        self._hold(-held_bytes)
        if answer is not None and not command.is_oneway:
            self._owner.send(answer)

    def _hold(self, delta_bytes: int) -> bool:
        self._held_bytes += delta_bytes
        self._owner.holds(self._held_bytes)
        if self._bounds.hold(delta_bytes):
            return True
        self._bounds.refuse(
            "memory", "%s: all connections together hold too many bytes, closing", self._owner.peer
        )
        self._owner.abort()
        return False

    def _balance(self) -> None:
        """Reads from the peer exactly while there is space for more of its requests."""
        limits = self._bounds.limits
        is_full = (
            self._writing.is_paused
            or self._is_finishing
            or self.in_flight >= limits.in_flight_max
            or (self.in_flight > 0 and self._held_bytes >= limits.in_flight_bytes_max)
        )
        if is_full:
            self._reading.hold(_FULL)
        elif self._reading.is_held(_FULL):
            self._reading.release(_FULL)

    def _close_if_finished(self) -> None:
        if self._is_finishing and self.in_flight == 0:
            self._owner.close()


def _held_bytes_of(command: Command) -> int:
    """Returns what a request is counted as: its parts, and the objects that hold them."""
    return _REQUEST_BYTES + len(command.body) + sum(map(len, command.ext.values()))
