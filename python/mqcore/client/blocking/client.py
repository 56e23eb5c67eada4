"""The synchronous client: one instance, and the producers and consumers that share it."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from mqcore.client.blocking.consumers import PullConsumer, PushConsumer
from mqcore.client.blocking.loop_thread import LoopThread, loop_thread
from mqcore.client.blocking.producer import Producer
from mqcore.client.blocking.transaction_producer import TransactionProducer
from mqcore.client.instance import Instance
from mqcore.client.producer import DEFAULT_GROUP

__all__ = ["Client"]


class _Closable(Protocol):
    def close(self) -> None: ...


_PartT = TypeVar("_PartT", bound=_Closable)


class Client:
    """One client of a cluster, for any thread.

    Attributes:
        thread: The loop that it shares with all synchronous clients of the process.
        instance: Its connections, routes and heartbeats; they belong to that loop.
    """

    def __init__(self, namesrv: str | Sequence[str] = "127.0.0.1:9876", **options: Any) -> None:
        """Prepares; `start` begins.

        Args and errors are those of `mqcore.aio.Client`.
        """
        self.thread: LoopThread = loop_thread()
        self.instance = Instance(namesrv, **options)
        self._made: list[_Closable] = []

    def __enter__(self) -> Self:
        """Starts it."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes it."""
        self.close()

    def start(self) -> None:
        """Begins; connects nowhere yet.

        Raises:
            ClosedError: It was closed.
        """
        self.thread.run(self.instance.start)
        self.thread.close_at_exit(self, self.instance.close, is_last=True)

    def close(self) -> None:
        """Closes what it made, the last first, then itself."""
        self.thread.forget(self)
        made, self._made = self._made, []
        for part in reversed(made):
            part.close()
        self.thread.run(self.instance.close)

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
