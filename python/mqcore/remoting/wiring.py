"""From a program's listener settings to a listening server: broker and name server alike.

Knows the settings by their shape alone: `mqcore.config` is a layer beside this one.
"""

from pathlib import Path
from typing import Protocol

from mqcore.errors import TlsError
from mqcore.remoting.address import Address, TcpAddress, UnixAddress
from mqcore.remoting.descriptors import connections_within, descriptors_within
from mqcore.remoting.limits import Limits
from mqcore.remoting.listener import SocketOptions
from mqcore.remoting.principals import principal_rules
from mqcore.remoting.server import Server
from mqcore.remoting.tls import (
    ServerTls,
    TlsContext,
    TlsFiles,
    TlsMode,
    renewed_client_context,
    renewed_server_context,
)

__all__ = [
    "ListenerLike",
    "MemoryLike",
    "OutgoingLike",
    "limits_of",
    "listen_as",
    "outgoing_tls_of",
    "tls_of",
]

_UNIX_PREFIX = "unix:"


class ListenerLike(Protocol):
    """What is asked of settings; `mqcore.config.ListenerSettings` has it."""

    @property
    def host(self) -> str:
        """Where to listen: a host, or `unix:/path`."""

    @property
    def port(self) -> int:
        """0 for any free one."""

    @property
    def idle_s(self) -> int:
        """Silent connections are closed after it."""

    @property
    def backlog(self) -> int:
        """Connections that may wait to be accepted."""

    @property
    def connections_max(self) -> int:
        """Connections at the most."""

    @property
    def send_buffer_bytes(self) -> int:
        """Of a socket; 0 where the system decides."""

    @property
    def receive_buffer_bytes(self) -> int:
        """Of a socket; 0 where the system decides."""

    @property
    def tls_mode(self) -> str:
        """disabled, permissive or enforcing."""

    @property
    def tls_certificate(self) -> Path | str:
        """The chain; empty without TLS."""

    @property
    def tls_key(self) -> Path | str:
        """Its key."""

    @property
    def tls_key_password(self) -> str:
        """The key's password, or nothing."""

    @property
    def tls_trusted(self) -> Path | str:
        """Who signs the certificates of clients."""

    @property
    def tls_need_client_auth(self) -> str:
        """none, optional or require."""

    @property
    def tls_principal(self) -> str:
        """Rules that make a name of a client's certificate; empty for no names."""

    @property
    def tls_ciphers(self) -> str:
        """What TLS 1.2 may use; those of the library where empty."""


class OutgoingLike(ListenerLike, Protocol):
    """What is asked of the settings of outgoing connections, beside those of a listener."""

    @property
    def uses_tls(self) -> bool:
        """Whether outgoing connections speak TLS."""

    @property
    def tls_enable(self) -> bool:
        """The same, by the name that official clients have for it."""

    @property
    def tls_client_verifies_host(self) -> bool:
        """Whether a server's certificate must name the host that is dialled."""

    @property
    def tls_client_certificate(self) -> Path | str:
        """The chain that is shown; empty for the listener's."""

    @property
    def tls_client_key(self) -> Path | str:
        """Its key; empty where it is in the same file."""

    @property
    def tls_client_key_password(self) -> str:
        """The key's password, or nothing."""

    @property
    def tls_client_trusted(self) -> Path | str:
        """Who signs the certificates of servers; empty for the listener's, else the machine's."""


class MemoryLike(Protocol):
    """What is asked of the division of memory; `mqcore.config.budget.MemoryPlan` has it."""

    @property
    def first_frames_bytes(self) -> int:
        """For unfinished frames of connections that have sent no whole one yet."""

    @property
    def later_frames_bytes(self) -> int:
        """For those of all other connections."""

    @property
    def requests_bytes(self) -> int:
        """For requests that wait to run."""


def limits_of(settings: ListenerLike, memory: MemoryLike, *, queue_files: int = 0) -> Limits:
    """Returns the bounds of connections.

    Args:
        settings: Of the listener.
        memory: How memory is divided.
        queue_files: Files that the store may keep open at once.
    """
    return Limits(
        idle_s=settings.idle_s,
        held_bytes_max=memory.requests_bytes,
        first_frames_bytes_max=memory.first_frames_bytes,
        later_frames_bytes_max=memory.later_frames_bytes,
        connections_max=connections_within(settings.connections_max, queue_files=queue_files),
        descriptors_max=descriptors_within(),
    )


def tls_of(settings: ListenerLike) -> ServerTls:
    """Returns how TLS is treated, with the certificates loaded.

    Raises:
        TlsError: They cannot be used.
    """
    mode = TlsMode(settings.tls_mode)
    if not settings.tls_certificate or mode is TlsMode.DISABLED:
        return ServerTls(mode)
    asks = settings.tls_need_client_auth != "none"
    files = TlsFiles(
        certificate=Path(settings.tls_certificate),
        key=Path(settings.tls_key) if settings.tls_key else None,
        key_password=settings.tls_key_password or None,
        trusted=Path(settings.tls_trusted) if asks and settings.tls_trusted else None,
        is_peer_required=settings.tls_need_client_auth == "require",
        ciphers=settings.tls_ciphers,
    )
    try:
        rules = principal_rules(settings.tls_principal)
    except ValueError as error:
        raise TlsError(f"mqcoreTlsPrincipal: {error}") from error
    return ServerTls(mode, renewed_server_context(files), rules if rules.rules else None)


def outgoing_tls_of(settings: OutgoingLike) -> TlsContext | None:
    """Returns what protects connections to other servers; None where they are plain.

    Raises:
        TlsError: Certificates or keys cannot be used.
    """
    if not (settings.uses_tls or settings.tls_enable):
        return None
    own = (
        settings.tls_client_certificate,
        settings.tls_client_key,
        settings.tls_client_key_password,
    )
    if not settings.tls_client_certificate:
        own = (settings.tls_certificate, settings.tls_key, settings.tls_key_password)
    certificate, key, password = own
    trusted = settings.tls_client_trusted or settings.tls_trusted
    return renewed_client_context(
        TlsFiles(
            certificate=Path(certificate) if certificate else None,
            key=Path(key) if key else None,
            key_password=password or None,
            trusted=Path(trusted) if trusted else None,
            checks_host=settings.tls_client_verifies_host,
            ciphers=settings.tls_ciphers,
        )
    )


async def listen_as(
    server: Server, settings: ListenerLike, *, advertised: TcpAddress | None = None
) -> Address:
    """Listens where and how it is set; returns the address with the chosen port.

    Args:
        server: Who listens.
        settings: Where and how.
        advertised: The address in routes, to warn of clients that dial another.

    Raises:
        AddressError: The address cannot be listened on.
        TlsError: Certificates or keys cannot be used.
    """
    address: Address = TcpAddress(settings.host, settings.port)
    if settings.host.startswith(_UNIX_PREFIX):
        address = UnixAddress(settings.host.removeprefix(_UNIX_PREFIX))
    return await server.listen(
        address,
        tls=tls_of(settings),
        advertised=advertised,
        options=SocketOptions(
            backlog=settings.backlog,
            send_buffer_bytes=settings.send_buffer_bytes,
            receive_buffer_bytes=settings.receive_buffer_bytes,
        ),
    )
