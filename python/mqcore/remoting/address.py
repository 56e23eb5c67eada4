"""Addresses as configurations and routes write them, and a watch over the advertised one.

`host:port`, `[v6]:port`, `unix:/path`. Knows no socket.
"""

from dataclasses import dataclass
from typing import TypeAlias

from mqcore.errors import AddressError

__all__ = ["Address", "AdvertisedWatch", "TcpAddress", "UnixAddress", "parse_address"]

_PORT_MAX = 65535
_UNIX_PREFIX = "unix:"
# One warning per address dialled; a machine has few, a scanner behind address translation many.
_WARNED_MAX = 16


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A host, by name or number, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Returns it as a route writes it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket in the file system."""

    path: str

    def __str__(self) -> str:
        """Returns it as a configuration writes it."""
        return f"{_UNIX_PREFIX}{self.path}"


Address: TypeAlias = TcpAddress | UnixAddress


def parse_address(text: str) -> Address:
    """Returns the address that a text means.

    Args:
        text: `host:port`, `[v6]:port` or `unix:/path`.

    Raises:
        AddressError: It is none of these.
    """
    text = text.strip()
    if text.startswith(_UNIX_PREFIX):
        path = text[len(_UNIX_PREFIX) :]
        if not path:
            raise AddressError(f"{text!r}: unix:/path expected", address=text)
        return UnixAddress(path)
    host, separator, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= _PORT_MAX
    if "/" in text:
        raise AddressError(
            f"{text!r}: host:port expected, such as 127.0.0.1:9876, without http:// or a path",
            address=text,
        )
    if host and port.isascii() and port.isdigit() and not is_port:
        raise AddressError(f"{text!r}: a port is at most {_PORT_MAX}", address=text)
    if not separator or not host or not is_port or any(char.isspace() for char in host):
        raise AddressError(f"{text!r}: host:port expected, such as 127.0.0.1:9876", address=text)
    return TcpAddress(host, int(port))


class AdvertisedWatch:
    """Notices clients that dial another address than the one in routes.

    Such a client reached us by a port mapping or a second interface; what it learns from a route
    will send it elsewhere, where it may reach nobody.
    """

    def __init__(self, advertised: TcpAddress) -> None:
        """Takes the address in routes."""
        self.advertised = advertised
        self._warned: set[str] = set()

    def dialled(self, local_host: str) -> str | None:
        """Notes the local address of a new connection; returns a warning the first time it differs.

        Args:
            local_host: The number of the interface that the connection came in on.
        """
        is_same = local_host in ("", self.advertised.host)
        if is_same or local_host in self._warned or len(self._warned) >= _WARNED_MAX:
            return None
        self._warned.add(local_host)
        return (
            f"a client dialled {local_host}, but routes will send it to {self.advertised}: "
            "if it cannot reach that, set brokerIP1 to an address that it can"
        )
