"""A port that is taken before it is listened on: the store must know it, ids name it."""

import contextlib
import socket
from collections.abc import Iterator

from mqcore.errors import AddressError, AddressReason

__all__ = ["reserved"]


@contextlib.contextmanager
def reserved(host: str, port: int) -> Iterator[int]:
    """Keeps a port until it is listened on: nobody else gets it meanwhile.

    Yields:
        The port; a free one for port 0.

    Raises:
        AddressError: It is taken, or is none of this machine.
    """
    if host.startswith("unix:"):
        yield port
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as kept:
        # Both sockets have the option, and this one never listens: the listener may bind too.
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            kept.bind((host, port))
        except OSError as error:
            why = error.strerror or str(error)
            raise AddressError(
                f"cannot listen on {host}:{port}: {why}",
                address=f"{host}:{port}",
                reason=AddressReason.CANNOT_LISTEN,
            ) from error
        yield int(kept.getsockname()[1])
