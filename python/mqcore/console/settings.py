"""What the console is started with, and what is refused before anything is bound."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqcore.client.instance import TlsOption
from mqcore.errors import ConfigurationError
from mqcore.remoting.signing import Credentials

__all__ = ["DEFAULT_PORT", "ConsoleSettings", "is_loopback"]

DEFAULT_PORT: Final = 8180


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """The settings of a console.

    Attributes:
        namesrv: Name servers, joined by `;`.
        data: Where users and the audit log are kept.
        host: Address to listen on.
        port: Port to listen on, 0 for a free one.
        credentials: Who the console is to brokers that ask.
        tls: How it speaks TLS to the cluster.
        certificate: The certificate of the console itself, None for plain HTTP.
        key: Its private key.
        proxies: Addresses of proxies whose `X-Forwarded-*` are believed; empty for none.
        question_s: The deadline of one question to a server.
        page_s: The deadline of all questions of a page.
    """

    namesrv: str
    data: Path
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    credentials: Credentials | None = None
    tls: TlsOption = None
    certificate: Path | None = None
    key: Path | None = None
    proxies: tuple[str, ...] = ()
    # A broker answers within milliseconds; a page that waits longer than this is not read.
    question_s: float = 1.5
    page_s: float = 3.0

    @property
    def is_secure(self) -> bool:
        """Whether cookies may be kept to TLS: it is spoken here."""
        return self.certificate is not None

    def check(self) -> None:
        """Refuses settings that would show passwords to a network.

        Raises:
            ConfigurationError: They cannot work, or are not safe.
        """
        if (self.certificate is None) != (self.key is None):
            fault = "--tls-cert and --tls-key belong together"
            raise ConfigurationError(fault, faults=(fault,))
        if is_loopback(self.host) or self.certificate is not None or self.proxies:
            return
        fault = (
            f"--host {self.host}: beyond this machine passwords would be readable on the way; "
            "give --tls-cert and --tls-key, or --behind-proxy with the address of the proxy"
        )
        raise ConfigurationError(fault, faults=(fault,))


def is_loopback(host: str) -> bool:
    """Returns whether an address is of this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
