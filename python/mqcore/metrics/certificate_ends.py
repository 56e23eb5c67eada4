"""When the certificates of a program's files end. Reads files; for a thread."""

import logging
from pathlib import Path

from mqcore.config import ListenerSettings
from mqcore.remoting.certificates import ends_in

__all__ = ["certificate_ends"]

_log = logging.getLogger("mqcore.metrics")


def certificate_ends(listener: ListenerSettings) -> dict[str, int]:
    """Returns by kind of file the end of the certificate in it that ends first, Unix seconds.

    A file that cannot be read is left out: connections that need it fail, and their log names it.
    """
    files = {
        "server": listener.tls_certificate,
        "server_trusted": listener.tls_trusted,
        "client": listener.tls_client_certificate,
        "client_trusted": listener.tls_client_trusted,
    }
    found = {}
    for kind, path in files.items():
        if not path or not str(path):
            continue
        try:
            ends = ends_in(Path(path))
        except (OSError, ValueError) as error:
            _log.debug("%s: %s", path, error)
            continue
        if ends:
            found[kind] = min(ends)
    return found
