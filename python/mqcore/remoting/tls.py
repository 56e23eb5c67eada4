"""What TLS needs: contexts from files, and the decision on a connection's first byte.

Plain and TLS share one port: a ClientHello begins with 0x16, and no frame that is allowed does,
for its length would be 369 MB. Knows no event loop.
"""

import ssl
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TypeAlias

from mqcore.errors import TlsError
from mqcore.remoting.principals import PrincipalRules
from mqcore.remoting.renewal import Renewed

__all__ = [
    "FirstByte",
    "ServerTls",
    "TlsContext",
    "TlsFiles",
    "TlsMode",
    "client_context",
    "context_now",
    "first_byte_decision",
    "renewed_client_context",
    "renewed_server_context",
    "server_context",
]

CLIENT_HELLO = 0x16

# What protects connections: as it is, or made of files that may be renewed.
TlsContext: TypeAlias = ssl.SSLContext | Renewed[ssl.SSLContext]


class TlsMode(Enum):
    """The official `tls.server.mode`."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class FirstByte(Enum):
    """What to do with a connection once its first byte is known."""

    PLAIN = "plain"
    TLS = "tls"
    # Official servers make a certificate that proves nothing in their test mode, which is their
    # default, and official clients take it: here that would be TLS without its promise.
    NO_CERTIFICATE = (
        "it begins TLS, and there is no certificate: set tls.server.certPath and "
        "tls.server.keyPath (none is made by itself, as tls.test.mode.enable does officially)"
    )
    TLS_DISABLED = "it begins TLS, and tls.server.mode is disabled"
    PLAIN_REFUSED = "it is plain, and tls.server.mode is enforcing"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Where certificates and keys are, all PEM.

    Attributes:
        certificate: Our chain, leaf first.
        key: Our private key; the certificate's file when none.
        key_password: Its password, if it has one.
        trusted: Authorities that the other side's certificate must come from.
        is_peer_required: A server demands a certificate of its clients.
        checks_host: A client refuses a certificate that does not name the host that it dialled.
            False is for certificates that name no addresses, as official clients take them: anybody
            whom the authorities trust can then pose as the server.
    """

    certificate: Path | None = None
    key: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    trusted: Path | None = None
    is_peer_required: bool = False
    checks_host: bool = True
    ciphers: str = ""

    @property
    def paths(self) -> tuple[Path | None, ...]:
        """The files; None for those that there are not."""
        return (self.certificate, self.key, self.trusted)


@dataclass(frozen=True, slots=True)
class ServerTls:
    """How a listener treats TLS; permissive without a certificate unless set otherwise.

    Attributes:
        mode: Whether it is spoken.
        context: What protects connections.
        principals: How a client's certificate becomes a name; there are no names without.
    """

    mode: TlsMode = TlsMode.PERMISSIVE
    context: TlsContext | None = None
    principals: PrincipalRules | None = None


def first_byte_decision(first_byte: int, tls: ServerTls) -> FirstByte:
    """Returns what becomes of a connection that begins with `first_byte`."""
    if first_byte != CLIENT_HELLO:
        return FirstByte.PLAIN_REFUSED if tls.mode is TlsMode.ENFORCING else FirstByte.PLAIN
    if tls.mode is TlsMode.DISABLED:
        return FirstByte.TLS_DISABLED
    return FirstByte.TLS if tls.context is not None else FirstByte.NO_CERTIFICATE


def context_now(tls: TlsContext | None) -> ssl.SSLContext | None:
    """Returns what protects the next connection; None for a plain one."""
    return tls.now() if isinstance(tls, Renewed) else tls


def renewed_server_context(
    files: TlsFiles, what: str = "certificates of the listener"
) -> Renewed[ssl.SSLContext]:
    """Returns the context of a server that follows its files.

    Args:
        files: The files.
        what: What to call it in the log.

    Raises:
        TlsError: A file is missing, unreadable or not what it should be.
    """
    return Renewed(what, files.paths, lambda: server_context(files))


def renewed_client_context(files: TlsFiles) -> Renewed[ssl.SSLContext]:
    """Returns the context of a client that follows its files.

    Raises:
        TlsError: A file is missing, unreadable or not what it should be.
    """
    return Renewed("certificates of a client", files.paths, lambda: client_context(files))


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Returns the context of a server.

    Raises:
        TlsError: A file is missing, unreadable or not what it should be.
    """
    if files.certificate is None:
        raise TlsError("a TLS server needs a certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _set_ciphers(context, files.ciphers)
    _load_own(context, files)
    if files.trusted is not None:
        _load_trusted(context, files.trusted)
        context.verify_mode = ssl.CERT_REQUIRED if files.is_peer_required else ssl.CERT_OPTIONAL
    elif files.is_peer_required:
        raise TlsError("clients must show a certificate, and no authority is configured for it")
    return context


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """Returns the context of a client.

    Args:
        files: Without `trusted`, the machine's own authorities are trusted.

    Raises:
        TlsError: A file is missing, unreadable or not what it should be.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = files.checks_host
    _set_ciphers(context, files.ciphers)
    if files.trusted is not None:
        _load_trusted(context, files.trusted)
    if files.certificate is not None:
        _load_own(context, files)
    return context


def _set_ciphers(context: ssl.SSLContext, ciphers: str) -> None:
    if not ciphers:
        return
    try:
        context.set_ciphers(ciphers)
    except ssl.SSLError as error:
        raise TlsError(f"none of the ciphers {ciphers} is known (openssl ciphers -v)") from error


def _load_own(context: ssl.SSLContext, files: TlsFiles) -> None:
    assert files.certificate is not None
    # Without a password given, an encrypted key would otherwise be asked for at the terminal.
    password = files.key_password or ""
    try:
        context.load_cert_chain(files.certificate, files.key, password)
    except (OSError, ValueError) as error:
        raise TlsError(
            f"certificate {files.certificate} with key {files.key or files.certificate} "
            f"cannot be used: {error}"
        ) from error


def _load_trusted(context: ssl.SSLContext, path: Path) -> None:
    try:
        context.load_verify_locations(path)
    except (OSError, ValueError) as error:
        raise TlsError(f"the authorities in {path} cannot be used: {error}") from error
