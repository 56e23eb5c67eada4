"""Certificates for brokers of a test, and the settings that name them.

    papers = Papers(tmp_path / "papers")
    async with live(tmp_path / "m", **papers.keys("master"), mqcoreHaTls="enforcing"): ...

Knows no broker.
"""

import datetime
import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

from mqcore.remoting import ServerTls, TlsFiles, TlsMode, client_context, server_context

__all__ = ["Pair", "Papers"]


@dataclass(frozen=True)
class Pair:
    """A certificate with its chain, and its key, both PEM."""

    certificate: bytes
    key: bytes


def _in(days: int | None) -> datetime.datetime | None:
    if days is None:
        return None
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)


class Papers:
    """An authority, and what it has signed.

    Attributes:
        trusted: The file of the authority.
    """

    def __init__(self, folder: Path) -> None:
        """Makes an authority."""
        folder.mkdir(parents=True)
        self._folder = folder
        self._authority = trustme.CA()
        self.trusted = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self.trusted))

    def issued(
        self, name: str, *hosts: str, is_expired: bool = False, days: int | None = None
    ) -> Path:
        """Returns a file with a certificate for hosts and its key; 127.0.0.1 without any."""
        path = self._folder / f"{name}.pem"
        hosts = hosts or ("127.0.0.1", "localhost")
        if is_expired:
            begin, end = datetime.datetime(2020, 1, 1), datetime.datetime(2021, 1, 1)
            made = self._authority.issue_cert(*hosts, not_before=begin, not_after=end)
        else:
            made = self._authority.issue_cert(*hosts, not_after=_in(days))
        path.unlink(missing_ok=True)
        made.private_key_and_cert_chain_pem.write_to_path(str(path))
        return path

    def pair(self, days: int | None = None) -> Pair:
        """Returns a certificate for 127.0.0.1 and its key, for files of their own."""
        made = self._authority.issue_cert("127.0.0.1", "localhost", not_after=_in(days))
        chain = b"".join(each.bytes() for each in made.cert_chain_pems)
        key = serialization.load_pem_private_key(made.private_key_pem.bytes(), None)
        # What Java reads.
        form = serialization.PrivateFormat.PKCS8
        clear = serialization.NoEncryption()
        return Pair(chain, key.private_bytes(serialization.Encoding.PEM, form, clear))

    def keys(self, name: str, *hosts: str, is_expired: bool = False) -> dict[str, str]:
        """Returns the settings of a server or broker with a certificate of its own."""
        return {
            "tls.server.certPath": str(self.issued(name, *hosts, is_expired=is_expired)),
            "tls.server.trustCertPath": str(self.trusted),
        }

    def serving(self, mode: TlsMode = TlsMode.ENFORCING) -> ServerTls:
        """Returns how a server of the test treats TLS."""
        return ServerTls(mode, server_context(TlsFiles(certificate=self.issued("server"))))

    def context(self) -> ssl.SSLContext:
        """Returns the context of a client that trusts the authority."""
        return client_context(TlsFiles(trusted=self.trusted))
