"""What all connections of one server, or of one client, share: who serves, who hears, the bounds.

Lives on one event loop. Opens nothing and closes nothing by itself.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from mqcore.clock import monotonic_s
from mqcore.native import Command
from mqcore.remoting.addresses import Addresses
from mqcore.remoting.dispatch import VERSION, Answer, Dispatcher, Request, failure
from mqcore.remoting.frames import Frames
from mqcore.remoting.limits import Limits
from mqcore.remoting.link import Link
from mqcore.remoting.signing import Credentials, signed
from mqcore.remoting.throttle import Throttle
from mqcore.remoting.users import Users

if TYPE_CHECKING:
    from mqcore.remoting.principals import PrincipalRules

__all__ = ["Hub", "LinkEvents"]

_log = logging.getLogger(__name__)

# Lines about single connections, per ten seconds: enough to see what happens, whatever happens.
_LINES_MAX = 20
_LINES_INTERVAL_S = 10.0

# One read of a socket; a default socket buffer holds not much more.
_RECEIVE_BYTES = 256 << 10

# One read of a connection that has sent no whole frame yet: there may be many of them.
_FIRST_RECEIVE_BYTES = 16 << 10

# A shorter part of a turn is not worth its overhead.
_TURN_MIN_S = 0.0005

# Why links do not read while the whole hub is deaf.
_DEAF = "deaf"
# Why a link is not read yet: too many requests run whose connections have ended.
_ORPHANS = "orphans"
# Why a link is not read: all together hold too much of unfinished frames.
_FRAMES = "frames"
# The same: those of its user do.
_USER = "user"

# An aborted transport reports its end in the next round of the loop.
_ABORT_S = 1.0

# One counter for the process, as official clients have it: an answer that went astray then never
# looks like another's.
_opaques = count(1)
_OPAQUE_MASK = 0x7FFFFFFF


class LinkEvents:
    """Hears what becomes of connections; derive and override. All calls come from the loop.

    `closed` follows every `connected` exactly once, after `idle` and `failed` where they apply.
    """

    def connected(self, link: Link) -> None:
        """A connection is there: a server hears of it at its first byte, or after the handshake."""

    def closed(self, link: Link) -> None:
        """A connection is gone, and everything that waited for it has been notified."""

    def idle(self, link: Link) -> None:
        """A connection moved no byte for too long and is being closed."""

    def failed(self, link: Link, error: Exception) -> None:
        """A connection broke, or sent bytes that are no frames, and is being closed."""


class PerPeerBounds(Protocol):
    """What is asked of settings; `mqcore.config.ListenerSettings` has it."""

    @property
    def connections_per_address(self) -> int:
        """Connections of one address at the most; 0 for any number."""

    @property
    def connections_per_user(self) -> int:
        """Connections of one user at the most; 0 for any number."""

    @property
    def held_bytes_per_user(self) -> int:
        """What the connections of one user may hold; 0 for any amount."""


class Hub:
    """What connections share, and the set of those that are open.

    Attributes:
        dispatcher: Serves requests that come in.
        limits: The bounds.
        version: The version that we report.
        language: The language code in our requests; 0 is JAVA.
        credentials: What our requests are signed with; None for unsigned ones.
        links: The open connections in their order, each with the time at which it came.
        refusals: How many connections and frames were refused, by reason.
        receive_buffer: Where bytes arrive, of whichever connection; empty between two calls.
        first_buffer: The part of it for a connection that has sent no whole frame yet.
        frames: The unfinished frames of all connections.
        clock: Returns seconds that never step back, to bound the turns of connections.
        waiting: Connections whose turn ended with requests left.
        principals: How the certificate of a client becomes a name; there are no names without.
        addresses: How many connections each address has.
        users: What the connections of each user hold, and how many there are.
        per_address: Returns how many one address may have; 0 for any number.
        first_request_s: Returns within how many seconds the first good request of a connection must
            come, where requests must be signed; 0 for no bound.
    """

    def __init__(
        self,
        dispatcher: Dispatcher | None = None,
        *,
        limits: Limits | None = None,
        events: Sequence[LinkEvents] = (),
        version: int = VERSION,
        language: int = 0,
        clock: Callable[[], float] = monotonic_s,
    ) -> None:
        """Takes what is shared."""
        self.dispatcher = dispatcher if dispatcher is not None else Dispatcher()
        self.limits = limits if limits is not None else Limits()
        self.version = version
        self.language = language
        self.credentials: Credentials | None = None
        self.links: dict[Link, float] = {}
        self.refusals: dict[str, int] = {}
        self.receive_buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self.first_buffer = self.receive_buffer[:_FIRST_RECEIVE_BYTES]
        self.clock = clock
        self.waiting = 0
        self.principals: PrincipalRules | None = None
        self.addresses = Addresses()
        self.per_address: Callable[[], int] = lambda: 0
        self.first_request_s: Callable[[], float] = lambda: 0.0
        self.frames: Frames[Link] = Frames(
            self.limits.first_frames_bytes_max,
            self.limits.later_frames_bytes_max,
            pause=self._pause_frame,
            resume=lambda link: link.release_reading(_FRAMES),
        )
        self.users: Users[Link] = Users(
            pause=self._pause_user, resume=lambda link: link.release_reading(_USER)
        )
        self._events = list(events)
        self._tasks: set[asyncio.Task[None]] = set()
        self._throttle = Throttle(_LINES_MAX, _LINES_INTERVAL_S)
        self._held_bytes = 0
        self._orphans = 0
        self._has_orphans = False
        self._is_deaf = False
        self._emptied: asyncio.Future[None] | None = None

    def bound_by(self, settings: Callable[[], PerPeerBounds]) -> None:
        """Takes where the bounds of one address and of one user are now; asked each time."""
        self.per_address = lambda: settings().connections_per_address
        self.users.connections_max = lambda: settings().connections_per_user
        self.users.bytes_max = lambda: settings().held_bytes_per_user

    def request(
        self, code: int, opaque: int, flag: int, ext: Mapping[str, str] | None, body: bytes
    ) -> Command:
        """Returns a request of ours as it is sent: signed, where we have credentials.

        What is changed afterwards is not covered by the signature.

        Args:
            code: What is asked for.
            opaque: Its number, from `next_opaque`.
            flag: 2 for one that wants no answer, else 0.
            ext: The header's fields.
            body: The body, compressed already where it is to be.
        """
        fields = dict(ext) if ext else {}
        if self.credentials is not None:
            fields = signed(self.credentials, fields, body)
        return Command(
            code=int(code),
            opaque=opaque,
            flag=flag,
            language=self.language,
            version=self.version,
            ext=fields,
            body=body,
        )

    def listen(self, events: LinkEvents) -> None:
        """Adds a listener; it hears of connections made from now on."""
        self._events.append(events)

    def notify(self, event: str, link: Link, *facts: object) -> None:
        """Notifies every listener; one that raises is logged and stops nobody."""
        for listener in self._events:
            try:
                getattr(listener, event)(link, *facts)
            except Exception:
                _log.exception("a listener failed at %s of %s", event, link.peer)

    def start(self, link: Link, command: Command) -> Answer | Awaitable[Answer]:
        """Begins a request that came by `link`; returns its answer, or what to await for it.

        Raises:
            RefusedError: It has no handler, or the handler refuses.
        """
        return self.dispatcher.start(Request(command, link))

    def failure(self, link: Link, command: Command, error: Exception) -> Command:
        """Returns the answer that reports an error; logs what is not a refusal."""
        return failure(Request(command, link), error)

    def join(self, link: Link) -> None:
        """Counts a connection in and notifies the listeners."""
        self.links[link] = asyncio.get_running_loop().time()
        if self._is_deaf:
            link.hold_reading(_DEAF)
        if self._has_orphans:
            link.hold_reading(_ORPHANS)
        self.notify("connected", link)

    def leave(self, link: Link) -> None:
        """Counts a connection out and notifies the listeners."""
        self.links.pop(link, None)
        if link.counted_as:
            self.addresses.remove(link.counted_as)
            link.counted_as = ""
        self.users.forget(link)
        self.notify("closed", link)
        if not self.links and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def certificate_name(self, transport: asyncio.BaseTransport) -> str:
        """Returns whom the certificate names that a client has shown; empty without one."""
        protected = transport.get_extra_info("ssl_object")
        if protected is None or self.principals is None:
            return ""
        # Only one that an authority of ours has signed is there.
        shown = protected.getpeercert(True)
        return self.principals.name_of(shown) if shown else ""

    def deafen(self) -> None:
        """Reads from nobody until `hear`: connections stay, and new ones wait for their answers."""
        self._is_deaf = True
        for link in self.links:
            link.hold_reading(_DEAF)

    def hear(self) -> None:
        """Reads again."""
        self._is_deaf = False
        for link in self.links:
            link.release_reading(_DEAF)

    def orphan(self, count: int) -> None:
        """Counts requests that run although their connection has ended; fewer with a minus."""
        self._orphans += count
        most = self.limits.orphans_max
        if not self._has_orphans and self._orphans > most:
            self._has_orphans = True
            why = "%d requests run whose connections have ended: new connections wait"
            self.refuse("orphans", why, self._orphans)
        elif self._has_orphans and self._orphans <= most // 2:
            self._has_orphans = False
            for link in self.links:
                link.release_reading(_ORPHANS)

    def cut(self) -> None:
        """Ends every connection at once, whatever is half done."""
        for link in list(self.links):
            link.abort()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` beside everything else and keeps it alive."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self, grace_s: float) -> int:
        """Lets every connection finish what it has begun, and ends what takes longer.

        Args:
            grace_s: How long requests that run may still take.

        Returns:
            How many connections were cut off.
        """
        for link in list(self.links):
            link.finish()
        await self._until_empty(grace_s)
        cut = list(self.links)
        for link in cut:
            link.abort()
        await self._until_empty(_ABORT_S)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return len(cut)

    async def _until_empty(self, timeout_s: float) -> None:
        if self.links:
            self._emptied = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._emptied], timeout=timeout_s)

    def refuse(self, reason: str, message: str, *facts: object) -> None:
        """Counts a refusal and logs it, unless there are too many lines already."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1
        if self._throttle.allows(asyncio.get_running_loop().time()):
            more = self._throttle.left_out()
            tail = f" ({more} such lines left out)" if more else ""
            _log.warning(message + "%s", *facts, tail)

    def hold(self, delta_bytes: int) -> bool:
        """Counts bytes held for waiting requests; returns whether the bound of all is kept."""
        self._held_bytes += delta_bytes
        return delta_bytes <= 0 or self._held_bytes <= self.limits.held_bytes_max

    @property
    def held_bytes(self) -> int:
        """Bytes of unfinished frames and waiting requests, of all connections."""
        return self._held_bytes + self.frames.held_bytes

    def turn_s(self) -> float:
        """Returns how long a connection may run now: those that wait share one turn."""
        return max(self.limits.turn_s / (self.waiting + 1), _TURN_MIN_S)

    def _pause_frame(self, link: Link) -> None:
        self.refuse(
            "frames_full",
            "%s: unfinished frames of all connections take too much, it is read no further for now",
            link.peer,
        )
        link.hold_reading(_FRAMES)

    def _pause_user(self, link: Link) -> None:
        self.refuse(
            "user_full",
            "%s: the connections of its user hold mqcoreHeldBytesPerUser=%d already, it is read no "
            "further for now",
            link.peer,
            self.users.bytes_max(),
        )
        link.hold_reading(_USER)

    def note_frame(self, link: Link, kept_bytes: int, frame: int) -> None:
        """Counts what a connection holds of an unfinished frame now; see `FramePart.note`."""
        if link.is_lost:
            return
        self.frames.note(link, kept_bytes, frame, has_asked=link.has_asked)
        self.users.note_frames(link, kept_bytes)

    def note_requests(self, link: Link, held_bytes: int) -> None:
        """Counts what a connection holds of requests for its user.

        One that is gone is counted no more: its requests may run for a while, and nobody would
        forget it again.
        """
        if not link.is_lost:
            self.users.note_requests(link, held_bytes)

    def note_user(self, link: Link, user: str) -> bool:
        """Counts a connection as one of the user that has signed its request.

        Returns:
            Whether the user may have it; otherwise it is closed, and its request left unanswered.
        """
        if link.is_lost:
            return True
        is_one_of_few = self.users.seen(link, user)
        if not is_one_of_few:
            self.refuse(
                "per_user",
                "%s: User:%s has mqcoreConnectionsPerUser=%d connections already, closing one more",
                link.peer,
                user,
                self.users.connections_max(),
            )
            link.abort()
        return is_one_of_few

    def next_opaque(self) -> int:
        """Returns the number of our next request."""
        return next(_opaques) & _OPAQUE_MASK
