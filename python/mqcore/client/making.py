"""What both clients share: one instance, and the producers and consumers that they make of it.

Knows neither a loop nor a thread: starting and closing is the faces'.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mqcore.client.instance import Instance
from mqcore.client.producer import DEFAULT_GROUP

__all__ = ["Kinds", "Maker"]

_ProducerT = TypeVar("_ProducerT")
_TransactionT = TypeVar("_TransactionT")
_PushT = TypeVar("_PushT")
_PullT = TypeVar("_PullT")
_PartT = TypeVar("_PartT")


@dataclass(frozen=True, slots=True)
class Kinds(Generic[_ProducerT, _TransactionT, _PushT, _PullT]):
    """The classes of one face, as functions that make one of each."""

    producer: Callable[..., _ProducerT]
    transaction_producer: Callable[..., _TransactionT]
    push_consumer: Callable[..., _PushT]
    pull_consumer: Callable[..., _PullT]


class Maker(Generic[_ProducerT, _TransactionT, _PushT, _PullT]):
    """One client of a cluster, and what it made.

    Attributes:
        instance: Its connections, routes and heartbeats.
    """

    def __init__(
        self,
        namesrv: str | Sequence[str] | None,
        options: dict[str, Any],
        kinds: Kinds[_ProducerT, _TransactionT, _PushT, _PullT],
    ) -> None:
        """Prepares.

        Raises:
            AddressError: A name server's address is none.
            UsageError: An option cannot work.
        """
        self.instance = Instance(namesrv, **options)
        self._kinds = kinds
        self._made: list[Any] = []

    def producer(self, *, group: str = DEFAULT_GROUP, **options: Any) -> _ProducerT:
        """Returns a producer that is closed with the client; start it.

        Args:
            group: Its group.
            options: Those of `Producer`.
        """
        return self.adopt(self._kinds.producer(group=group, instance=self.instance, **options))

    def transaction_producer(self, *, group: str, **options: Any) -> _TransactionT:
        """Returns a producer of transactions that is closed with the client; start it.

        Args:
            group: Its group, which brokers ask what became of its transactions.
            options: Those of `TransactionProducer`.
        """
        made = self._kinds.transaction_producer(group=group, instance=self.instance, **options)
        return self.adopt(made)

    def push_consumer(self, *, group: str, handler: Callable[[Any], Any], **options: Any) -> _PushT:
        """Returns a push consumer that is closed with the client; start it.

        Args:
            group: Its group.
            handler: What gets the messages.
            options: Those of `PushConsumer`: topics, orderly, batch, broadcast and more.
        """
        made = self._kinds.push_consumer(
            group=group, handler=handler, instance=self.instance, **options
        )
        return self.adopt(made)

    def pull_consumer(self, *, group: str, **options: Any) -> _PullT:
        """Returns a pull consumer that is closed with the client; start it.

        Args:
            group: Its group.
            options: Those of `PullConsumer`: topics, auto_commit and more.
        """
        return self.adopt(self._kinds.pull_consumer(group=group, instance=self.instance, **options))

    def adopt(self, part: _PartT) -> _PartT:
        """Closes a part with the client, and returns it."""
        self._made.append(part)
        return part

    def _take_made(self) -> list[Any]:
        """Returns what is to be closed now, the last first."""
        made, self._made = self._made, []
        return made[::-1]
