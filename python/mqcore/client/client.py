"""The asyncio client: one instance, and the producers and consumers that share it.

    async with aio.Client("127.0.0.1:9876") as client:
        producer = client.producer(group="orders")
        await producer.start()

What it made is closed with it.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from mqcore.client.client_options import ClientOptions
from mqcore.client.client_settings import ClientSettings
from mqcore.client.making import Kinds, Maker
from mqcore.client.option import shows_options
from mqcore.client.producer import Producer
from mqcore.client.pull_consumer import PullConsumer
from mqcore.client.push_consumer import PushConsumer
from mqcore.client.transaction_producer import TransactionProducer

if TYPE_CHECKING:
    from mqcore.client.route_table import RouteTable

__all__ = ["Client"]


class Client(Maker[Producer, TransactionProducer, PushConsumer, PullConsumer]):
    """One client of a cluster.

    Attributes:
        instance: Its connections, routes and heartbeats.
    """

    @shows_options(ClientSettings)
    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        """Prepares; `start` begins.

        Args:
            namesrv: Name servers: `host:port`, several with `;` between, or a sequence; those of
                the environment when not given.
            options: What is not as usual: `docs/client-options.md` has all of them.

        Raises:
            AddressError: A name server's address is none.
            UsageError: An option cannot work.
        """
        kinds = Kinds(Producer, TransactionProducer, PushConsumer, PullConsumer)
        super().__init__(namesrv, options, kinds)

    async def __aenter__(self) -> Self:
        """Starts it."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes it."""
        await self.close()

    async def start(self, *, timeout_s: float | None = None) -> None:
        """Begins.

        Args:
            timeout_s: For how long to wait for a name server; asked in the background without it.

        Raises:
            ClosedError: It was closed.
            NameServerError: None answered within `timeout_s`; it may be started again.
        """
        await self.instance.start(timeout_s=timeout_s)

    async def close(self) -> None:
        """Closes what it made, the last first, then itself."""
        for part in self._take_made():
            await part.close()
        await self.instance.close()

    @property
    def routes(self) -> "RouteTable":
        """The routes that the name servers returned."""
        return self.instance.routes
