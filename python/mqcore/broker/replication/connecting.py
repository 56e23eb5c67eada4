"""A slave's connections to where its master ships its log. Knows sockets and times, no stream."""

import asyncio
import socket

__all__ = ["connected"]

# As long as the official slave waits for a connection.
_CONNECT_TIMEOUT_S = 5.0


async def connected(address: str) -> socket.socket:
    """Returns a connected socket.

    Raises:
        OSError: There is no connection, or none in time.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    family, kind, protocol, _, target = found[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            await loop.sock_connect(made, target)
    except BaseException:
        made.close()
        raise
    return made
