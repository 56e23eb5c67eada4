"""TLS between a master and its slaves, from files of certificates and keys, by `mqcoreHaTls`.

The files are those of the port for requests (`tls.server.*`), and of outgoing connections
(`tls.client.*`). A file that has changed is read again for the next connection, so that a
certificate is renewed without a stop. Knows no socket and no stream.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from mqcore.config import BrokerSettings
from mqcore.errors import TlsError
from mqcore.native import ReplicationTls
from mqcore.remoting.renewal import Renewed

__all__ = ["HA_TLS", "ReplicationProtection"]

# The setting by which a master serves TLS at the port for slaves.
HA_TLS: Final = "mqcoreHaTls"


class ReplicationProtection:
    """Both ends of one broker: it may be a master now and a slave later."""

    def __init__(self, settings: BrokerSettings) -> None:
        """Reads the files; reads none where TLS is disabled.

        Raises:
            TlsError: They cannot be used.
        """
        self.mode = settings.replication_tls
        if self.mode == "disabled":
            self._serving = self._asking = None
            return
        listener = settings.listener
        certificate = Path(listener.tls_certificate)
        key = Path(listener.tls_key) if listener.tls_key else certificate
        server_trust, client_trust = listener.tls_trusted, listener.tls_client_trusted
        shown = Path(listener.tls_client_certificate) if listener.tls_client_certificate else None
        shown_key = Path(listener.tls_client_key) if listener.tls_client_key else shown
        password = listener.tls_key_password or None
        shown_password = (listener.tls_client_key_password or None) if shown else password
        takes_plain = self.mode == "permissive"
        demanded = settings.replication_tls_client_auth == "require"

        def serving(files: dict[Path, bytes]) -> ReplicationTls:
            return ReplicationTls.serving(
                files[certificate],
                files[key],
                password=password,
                trusted=files[Path(server_trust or client_trust)] if demanded else None,
                takes_plain=takes_plain,
            )

        def asking(files: dict[Path, bytes]) -> ReplicationTls:
            return ReplicationTls.asking(
                files[Path(client_trust or server_trust)],
                certificate=files[shown or certificate],
                key=files[shown_key or key],
                password=shown_password,
            )

        paths = {certificate, key, Path(server_trust or client_trust)}
        self._serving = _followed(serving, paths)
        asked_paths = {shown or certificate, shown_key or key, Path(client_trust or server_trust)}
        self._asking = _followed(asking, asked_paths)

    @property
    def ends(self) -> tuple[Renewed[ReplicationTls], ...]:
        """What follows the files; nothing where TLS is disabled."""
        return tuple(each for each in (self._serving, self._asking) if each is not None)

    def serving(self) -> ReplicationTls | None:
        """Returns what protects the next connection of a slave; None for a plain port."""
        return self._serving.now() if self._serving is not None else None

    def asking(self) -> ReplicationTls | None:
        """Returns what protects the next connection to a master; None for a plain one."""
        return self._asking.now() if self._asking is not None else None


def _followed(
    make: Callable[[dict[Path, bytes]], ReplicationTls], paths: set[Path]
) -> Renewed[ReplicationTls]:
    """Returns what is made from some files, made anew when they have changed."""
    return Renewed("certificates of replication", paths, lambda: _read(make, paths))


def _read(make: Callable[[dict[Path, bytes]], ReplicationTls], paths: set[Path]) -> ReplicationTls:
    try:
        return make({path: path.read_bytes() for path in paths})
    except OSError as error:
        raise TlsError(f"{error.filename}: {error.strerror}") from error
    except ValueError as error:
        names = ", ".join(map(str, sorted(paths)))
        raise TlsError(f"TLS of the port for slaves cannot be used: {error} ({names})") from error
