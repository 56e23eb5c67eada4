"""The synchronous client: one instance, and the producers and consumers that share it."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from mqcore.client.blocking.consumers import PullConsumer, PushConsumer
from mqcore.client.blocking.loop_thread import LoopThread, loop_thread
from mqcore.client.blocking.producer import Producer
from mqcore.client.blocking.transaction_producer import TransactionProducer
from mqcore.client.client_options import ClientOptions
from mqcore.client.client_settings import ClientSettings
from mqcore.client.making import Kinds, Maker
from mqcore.client.option import shows_options

__all__ = ["Client"]


class Client(Maker[Producer, TransactionProducer, PushConsumer, PullConsumer]):
    """One client of a cluster, for any thread.

    Attributes:
        thread: The loop that it shares with all synchronous clients of the process.
        instance: Its connections, routes and heartbeats; they belong to that loop.
    """

    @shows_options(ClientSettings)
    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        """Prepares; `start` begins.

        Args and errors are those of `mqcore.aio.Client`.
        """
        self.thread: LoopThread = loop_thread()
        kinds = Kinds(Producer, TransactionProducer, PushConsumer, PullConsumer)
        super().__init__(namesrv, options, kinds)

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

    def start(self, *, timeout_s: float | None = None) -> None:
        """Begins; args and errors are those of `mqcore.aio.Client.start`."""
        self.thread.run(lambda: self.instance.start(timeout_s=timeout_s))
        self.thread.close_at_exit(self, self.instance.close, is_last=True)

    def close(self) -> None:
        """Closes what it made, the last first, then itself."""
        self.thread.forget(self)
        for part in self._take_made():
            part.close()
        self.thread.run(self.instance.close)
