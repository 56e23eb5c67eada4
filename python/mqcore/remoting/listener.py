"""Accepts connections on one address, detects TLS, and hands each socket to a protocol.

The first byte is peeked, not read: whatever protocol the factory makes then starts with a socket
nobody has touched, below TLS or without. Knows no request.
"""

import asyncio
import errno
import logging
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mqcore.errors import AddressError, AddressReason
from mqcore.remoting.address import Address, AdvertisedWatch, TcpAddress, UnixAddress
from mqcore.remoting.addresses import Addresses
from mqcore.remoting.crowd import Crowd
from mqcore.remoting.tls import FirstByte, ServerTls, context_now, first_byte_decision

if TYPE_CHECKING:
    from mqcore.remoting.link import Link

__all__ = ["Listener", "SocketOptions", "TakesSockets"]

_log = logging.getLogger(__name__)

# Accepted in one go, so that a flood of connections does not stop the loop.
_ACCEPTS_PER_TURN = 64
# Out of descriptors or memory: trying again at once would only burn the processor.
_ACCEPT_PAUSE_S = 0.5
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# A Unix socket is for its owner; whoever wants more opens it up.
_UNIX_MODE = stat.S_IRUSR | stat.S_IWUSR


@runtime_checkable
class TakesSockets(Protocol):
    """A protocol that may do without a transport of the loop."""

    def take_socket(self, arrival: socket.socket) -> bool:
        """Takes a plain connection's socket; returns False, and leaves it, where it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketOptions:
    """What the system is asked for.

    Attributes:
        backlog: Connections that it keeps for us while the loop is busy; it has a bound of its own.
        send_buffer_bytes: Of each connection; 0 where the system decides.
        receive_buffer_bytes: The same.
    """

    backlog: int = 1024
    send_buffer_bytes: int = 0
    receive_buffer_bytes: int = 0


class Listener:
    """One listening socket; it makes a connection of each that comes in."""

    def __init__(
        self,
        crowd: Crowd,
        factory: Callable[[], asyncio.BaseProtocol],
        *,
        tls: ServerTls | None = None,
        advertised: TcpAddress | None = None,
        options: SocketOptions | None = None,
    ) -> None:
        """Prepares; `open` begins.

        Args:
            crowd: Decides who may come; knows what the connections share.
            factory: Makes the protocol of a connection, with a `Link` that joins the hub.
            tls: How TLS is treated; permissive without a certificate when none.
            advertised: The address in routes, to warn of clients that dial another.
            options: What the system is asked for.
        """
        self._options = options if options is not None else SocketOptions()
        self._crowd = crowd
        self._hub = crowd.hub
        self._factory = factory
        self._tls = tls if tls is not None else ServerTls()
        self._watch = AdvertisedWatch(advertised) if advertised is not None else None
        self._socket: socket.socket | None = None
        self._unix_path: Path | None = None
        self._resume: asyncio.TimerHandle | None = None
        # Sockets whose first byte is awaited, with the timer that gives them up.
        self._arrivals: dict[socket.socket, asyncio.TimerHandle] = {}
        # What those that are no connection yet count as.
        self._keys: dict[socket.socket, str] = {}

    async def open(self, address: Address) -> Address:
        """Listens on an address; returns it with the port that was chosen.

        Raises:
            AddressError: It cannot be listened on.
        """
        try:
            if isinstance(address, UnixAddress):
                self._socket = _unix_listener(Path(address.path), self._options)
                self._unix_path = Path(address.path)
            else:
                self._socket = await _tcp_listener(address, self._options)
        except OSError as error:
            why = error.strerror or str(error)
            raise AddressError(
                f"cannot listen on {address}: {why}",
                address=str(address),
                reason=AddressReason.CANNOT_LISTEN,
            ) from error
        asyncio.get_running_loop().add_reader(self._socket, self._acceptable)
        if isinstance(address, UnixAddress):
            return address
        return TcpAddress(address.host, self._socket.getsockname()[1])

    def stop(self) -> None:
        """Accepts no more; connections that are there stay."""
        listening, self._socket = self._socket, None
        if listening is None:
            return
        loop = asyncio.get_running_loop()
        if self._resume is not None:
            self._resume.cancel()
        loop.remove_reader(listening)
        listening.close()
        if self._unix_path is not None:
            self._unix_path.unlink(missing_ok=True)
        for arrival in list(self._arrivals):
            self._give_up(arrival)

    def _acceptable(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            if self._socket is None:
                return
            try:
                arrival, name = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._accept_failed(error)
                return
            arrival.setblocking(False)
            self._arrived(arrival, name)

    def _accept_failed(self, error: OSError) -> None:
        if error.errno not in _EXHAUSTED:
            self._hub.refuse("accept", "accepting a connection failed: %s", error)
            return
        self._hub.refuse("exhausted", "no more connections can be accepted for now: %s", error)
        loop = asyncio.get_running_loop()
        assert self._socket is not None
        loop.remove_reader(self._socket)
        self._resume = loop.call_later(_ACCEPT_PAUSE_S, self._accept_again)

    def _accept_again(self) -> None:
        self._resume = None
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket, self._acceptable)

    def _arrived(self, arrival: socket.socket, name: object) -> None:
        limits, peer, key = self._hub.limits, _text_of(name), _key_of(name)
        if not self._crowd.admits_from(key):
            arrival.close()
            return
        if not self._crowd.admits(arrival):
            self._hub.refuse(
                "connections",
                "%s: more than %d connections, or no descriptor to spare, closing",
                peer,
                limits.connections_max,
            )
            arrival.close()
            return
        self._keys[arrival] = key
        self._hub.addresses.add(key)
        if self._unix_path is not None:
            self._begin(arrival, peer, FirstByte.PLAIN)
            return
        arrival.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if not self._peeked(arrival, peer):
            loop = asyncio.get_running_loop()
            wait_s = min(limits.idle_s, self._hub.first_request_s() or limits.idle_s)
            self._arrivals[arrival] = loop.call_later(wait_s, self._give_up, arrival)
            self._crowd.awaited[arrival] = (loop.time(), self._give_up)
            loop.add_reader(arrival, self._readable, arrival, peer)

    def _readable(self, arrival: socket.socket, peer: str) -> None:
        # Forgotten first: the protocol that may be made watches the same descriptor.
        since = self._crowd.awaited[arrival]
        timer = self._forget(arrival)
        if self._peeked(arrival, peer):
            timer.cancel()
            return
        self._arrivals[arrival] = timer
        self._crowd.awaited[arrival] = since
        asyncio.get_running_loop().add_reader(arrival, self._readable, arrival, peer)

    def _peeked(self, arrival: socket.socket, peer: str) -> bool:
        """Looks at the first byte; returns whether it was there (or the connection is gone)."""
        try:
            first = arrival.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self._drop(arrival)
            return True
        if not first:
            self._drop(arrival)
            return True
        found = first_byte_decision(first[0], self._tls)
        if found in (FirstByte.PLAIN, FirstByte.TLS):
            self._begin(arrival, peer, found)
            return True
        self._hub.refuse("tls", "%s refused: %s", peer, found.value)
        self._drop(arrival)
        return True

    def _forget(self, arrival: socket.socket) -> asyncio.TimerHandle:
        asyncio.get_running_loop().remove_reader(arrival)
        self._crowd.awaited.pop(arrival, None)
        return self._arrivals.pop(arrival)

    def _give_up(self, arrival: socket.socket) -> None:
        self._forget(arrival).cancel()
        self._drop(arrival)

    def _drop(self, arrival: socket.socket) -> None:
        """Closes one that has not become a connection."""
        self._hub.addresses.remove(self._keys.pop(arrival, ""))
        arrival.close()

    def _begin(self, arrival: socket.socket, peer: str, kind: FirstByte) -> None:
        if self._watch is not None and self._unix_path is None:
            warning = self._watch.dialled(arrival.getsockname()[0].removeprefix("::ffff:"))
            if warning is not None:
                _log.warning("%s", warning)
        self._crowd.handshakes += 1
        self._hub.spawn(self._connect(arrival, peer, kind))

    async def _connect(self, arrival: socket.socket, peer: str, kind: FirstByte) -> None:
        loop = asyncio.get_running_loop()
        key = self._keys.pop(arrival, "")
        link: Link | None = None

        def made() -> asyncio.BaseProtocol:
            nonlocal link
            protocol = self._factory()
            link = getattr(protocol, "link", None)
            if link is not None:
                link.counted_as = key
            return protocol

        try:
            if kind is FirstByte.TLS:
                handshake_s = self._hub.limits.handshake_s
                await loop.connect_accepted_socket(
                    made,
                    arrival,
                    ssl=context_now(self._tls.context),
                    ssl_handshake_timeout=handshake_s,
                    ssl_shutdown_timeout=handshake_s,
                )
            else:
                protocol = made()
                if not (isinstance(protocol, TakesSockets) and protocol.take_socket(arrival)):
                    await loop.connect_accepted_socket(lambda: protocol, arrival)
        except Exception as error:
            self._hub.refuse("handshake", "%s: no connection came about: %r", peer, error)
            arrival.close()
        finally:
            self._crowd.handshakes -= 1
            if link is None or (link not in self._hub.links and link.counted_as):
                self._hub.addresses.remove(key)


def _key_of(name: object) -> str:
    """Returns what a peer's address counts as; empty for a local process."""
    if isinstance(name, tuple) and len(name) >= 2:
        return Addresses.key_of(str(name[0]))
    return ""


def _text_of(name: object) -> str:
    """Returns a peer's name for a log line."""
    if isinstance(name, tuple) and len(name) >= 2:
        return str(TcpAddress(str(name[0]), int(name[1])))
    return "a local process"


async def _tcp_listener(address: TcpAddress, options: SocketOptions) -> socket.socket:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, protocol, _, name = found[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setblocking(False)
        # A port of connections that have just ended may be listened on again.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Before it listens: the window of a connection is settled when it is made.
        _set_buffers(listening, options)
        listening.bind(name)
        listening.listen(options.backlog)
    except OSError:
        listening.close()
        raise
    return listening


def _unix_listener(path: Path, options: SocketOptions) -> socket.socket:
    """Binds a Unix socket; what a process that was killed left behind is replaced."""
    if path.is_socket():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            if probe.connect_ex(str(path)) == errno.ECONNREFUSED:
                path.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.bind(str(path))
        # Before it listens, so that nobody else connects in between.
        path.chmod(_UNIX_MODE)
        listening.listen(options.backlog)
    except OSError:
        listening.close()
        raise
    return listening


def _set_buffers(listening: socket.socket, options: SocketOptions) -> None:
    """Sets what connections inherit."""
    for name, size in (
        (socket.SO_SNDBUF, options.send_buffer_bytes),
        (socket.SO_RCVBUF, options.receive_buffer_bytes),
    ):
        if size > 0:
            listening.setsockopt(socket.SOL_SOCKET, name, size)
