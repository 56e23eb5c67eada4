"""A server: listeners, their connections, and a stop that lets half-done requests be answered.

    server = Server(dispatcher)
    address = await server.listen(parse_address("127.0.0.1:0"))     # the chosen port is in it
    ...
    await server.close(grace_s=1.0)

A broker gives its own `factory`, whose connections are read by the fast path.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from mqcore.remoting.address import Address, TcpAddress
from mqcore.remoting.connection import Connection
from mqcore.remoting.crowd import Crowd
from mqcore.remoting.dispatch import VERSION, Dispatcher
from mqcore.remoting.hub import Hub, LinkEvents
from mqcore.remoting.limits import Limits
from mqcore.remoting.listener import Listener, SocketOptions
from mqcore.remoting.sweep import Sweep
from mqcore.remoting.tls import ServerTls

__all__ = ["GRACE_S", "Server"]

_log = logging.getLogger(__name__)

# Half-done requests get this long at a stop; a stop is meant to take less than a second.
GRACE_S = 0.8


class Server:
    """Serves a dispatcher on any number of addresses.

    Attributes:
        hub: What its connections share: the open ones, the counts of refusals.
        tls: How TLS is treated on its addresses.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        limits: Limits | None = None,
        events: Sequence[LinkEvents] = (),
        version: int = VERSION,
        factory: Callable[[Hub], asyncio.BaseProtocol] = Connection,
    ) -> None:
        """Prepares; `listen` begins.

        Args:
            dispatcher: Serves the requests.
            limits: The bounds of connections.
            events: Who hears of connections.
            version: The version in answers.
            factory: Makes the protocol of a connection.
        """
        self.hub = Hub(dispatcher, limits=limits, events=events, version=version)
        self._factory = factory
        self.tls: list[ServerTls] = []
        self._listeners: list[Listener] = []
        self._sweep = Sweep(self.hub)
        self._crowd = Crowd(self.hub, self._sweep)

    async def listen(
        self,
        address: Address,
        *,
        tls: ServerTls | None = None,
        advertised: TcpAddress | None = None,
        options: SocketOptions | None = None,
    ) -> Address:
        """Listens on one more address; returns it with the port that was chosen.

        Args:
            address: Where.
            tls: How TLS is treated there.
            advertised: The address in routes, to warn of clients that dial another.
            options: What the system is asked for.

        Raises:
            AddressError: It cannot be listened on.
        """
        listener = Listener(
            self._crowd,
            lambda: self._factory(self.hub),
            tls=tls,
            advertised=advertised,
            options=options,
        )
        opened = await listener.open(address)
        if tls is not None:
            # One rule for all listeners of a server: a name means the same wherever it comes in.
            self.hub.principals = tls.principals
            self.tls.append(tls)
        self._listeners.append(listener)
        self._sweep.start()
        return opened

    async def close(self, *, grace_s: float = GRACE_S) -> None:
        """Accepts nothing more, lets requests that have begun be answered, closes everything.

        Args:
            grace_s: How long that may take before connections are cut off.
        """
        for listener in self._listeners:
            listener.stop()
        self._listeners.clear()
        cut = await self.hub.end(grace_s)
        await self._sweep.stop()
        if cut:
            _log.warning("%d connections were cut off with requests unanswered", cut)
