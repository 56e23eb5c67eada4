"""The asyncio client: one instance, and the producers and consumers that share it.

    async with aio.Client("127.0.0.1:9876") as client:
        producer = client.producer(group="orders")
        await producer.start()

What it made is closed with it.
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from mqcore.client.instance import Instance
from mqcore.client.producer import DEFAULT_GROUP, Producer
from mqcore.client.pull_consumer import PullConsumer
from mqcore.client.push_consumer import PushConsumer
from mqcore.client.transaction_producer import TransactionProducer

if TYPE_CHECKING:
    from mqcore.client.route_table import RouteTable

__all__ = ["Client"]


class _Closable(Protocol):
    async def close(self) -> None: ...


_PartT = TypeVar("_PartT", bound=_Closable)


class Client:
    """One client of a cluster.

    Attributes:
        instance: Its connections, routes and heartbeats.
    """

    def __init__(self, namesrv: str | Sequence[str] = "127.0.0.1:9876", **options: Any) -> None:
        """Prepares; `start` begins.

        Args:
            namesrv: Name servers: `host:port`, several with `;` between, or a sequence.
            options: Those of `mqcore.client.instance.Instance`: credentials, namespace, tls,
                instance_name, unit_name and more.

        Raises:
            AddressError: A name server's address is none.
            UsageError: An option cannot work.
        """
        self.instance = Instance(namesrv, **options)
        self._made: list[_Closable] = []

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

    async def start(self) -> None:
        """Begins; connects nowhere yet.

        Raises:
            ClosedError: It was closed.
        """
        await self.instance.start()

    async def close(self) -> None:
        """Closes what it made, the last first, then itself."""
        made, self._made = self._made, []
        for part in reversed(made):
            await part.close()
        await self.instance.close()

    @property
    def routes(self) -> "RouteTable":
        """What the name servers said."""
        return self.instance.routes

    def producer(self, *, group: str = DEFAULT_GROUP, **options: Any) -> Producer:
        """Returns a producer that is closed with the client; start it.

        Args:
            group: Its group.
            options: Those of `Producer`.
        """
        return self.adopt(Producer(group=group, instance=self.instance, **options))

    def transaction_producer(self, *, group: str, **options: Any) -> TransactionProducer:
        """Returns a producer of transactions that is closed with the client; start it.

        Args:
            group: Its group, which brokers ask what became of its transactions.
            options: Those of `TransactionProducer`.
        """
        return self.adopt(TransactionProducer(group=group, instance=self.instance, **options))

    def push_consumer(
        self, *, group: str, handler: Callable[[Any], Any], **options: Any
    ) -> PushConsumer:
        """Returns a push consumer that is closed with the client; start it.

        Args:
            group: Its group.
            handler: What gets the messages.
            options: Those of `PushConsumer`: topics, orderly, batch, broadcast and more.
        """
        return self.adopt(
            PushConsumer(group=group, handler=handler, instance=self.instance, **options)
        )

    def pull_consumer(self, *, group: str, **options: Any) -> PullConsumer:
        """Returns a pull consumer that is closed with the client; start it.

        Args:
            group: Its group.
            options: Those of `PullConsumer`: topics, auto_commit and more.
        """
        return self.adopt(PullConsumer(group=group, instance=self.instance, **options))

    def adopt(self, part: _PartT) -> _PartT:
        """Closes a part with the client, and returns it."""
        self._made.append(part)
        return part
