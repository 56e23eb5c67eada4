"""What both clients share: one instance, and the producers and consumers that they make of it.

Knows neither a loop nor a thread: starting and closing is the faces'.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Unpack, overload

from mqcore.client.client_options import ClientOptions
from mqcore.client.consumer_settings import PullConsumerSettings, PushConsumerSettings
from mqcore.client.handlers import BatchHandler, Handler
from mqcore.client.instance import Instance
from mqcore.client.joining import ConsumerJoin, ProducerJoin
from mqcore.client.option import shows_options
from mqcore.client.options import (
    ProducerOptions,
    PullConsumerOptions,
    PushConsumerOptions,
)
from mqcore.client.producer import DEFAULT_GROUP
from mqcore.client.settings import ProducerSettings
from mqcore.client.shown import shown
from mqcore.client.subscribing import Topics
from mqcore.client.transactions import CheckCallback

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
        options: ClientOptions,
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

    def __repr__(self) -> str:
        """Returns its name servers and state."""
        is_started = self.instance.loop is not None
        is_closed = is_started and not self.instance.is_open
        return shown(self, self.instance, is_started=is_started, is_closed=is_closed)

    @shows_options(ProducerJoin, ProducerSettings)
    def producer(
        self,
        *,
        group: str = DEFAULT_GROUP,
        settings: ProducerSettings | None = None,
        **options: Unpack[ProducerOptions],
    ) -> _ProducerT:
        """Returns a producer that is closed with the client; start it.

        Args:
            group: Its group.
            settings: How it sends; options change it.
            options: Those of `Producer`.
        """
        return self._made_of(self._kinds.producer, options, group=group, settings=settings)

    @shows_options(ProducerJoin, ProducerSettings)
    def transaction_producer(
        self,
        *,
        group: str,
        check: CheckCallback | None = None,
        settings: ProducerSettings | None = None,
        **options: Unpack[ProducerOptions],
    ) -> _TransactionT:
        """Returns a producer of transactions that is closed with the client; start it.

        Args:
            group: Its group, which brokers ask what became of its transactions.
            check: Returns a transaction's state when a broker asks.
            settings: How it sends; options change it.
            options: Those of `TransactionProducer`.
        """
        kind = self._kinds.transaction_producer
        return self._made_of(kind, options, group=group, check=check, settings=settings)

    @overload
    def push_consumer(
        self,
        *,
        group: str,
        handler: Handler,
        topics: Topics = (),
        batch: None = None,
        settings: None = None,
        **options: Unpack[PushConsumerOptions],
    ) -> _PushT: ...

    @overload
    def push_consumer(
        self,
        *,
        group: str,
        handler: BatchHandler,
        topics: Topics = (),
        batch: int,
        settings: PushConsumerSettings | None = None,
        **options: Unpack[PushConsumerOptions],
    ) -> _PushT: ...

    @overload
    def push_consumer(
        self,
        *,
        group: str,
        handler: Handler | BatchHandler,
        topics: Topics = (),
        batch: int | None = None,
        settings: PushConsumerSettings,
        **options: Unpack[PushConsumerOptions],
    ) -> _PushT: ...

    @shows_options(ConsumerJoin, PushConsumerSettings)
    def push_consumer(
        self,
        *,
        group: str,
        handler: Handler | BatchHandler,
        topics: Topics = (),
        batch: int | None = None,
        settings: PushConsumerSettings | None = None,
        **options: Unpack[PushConsumerOptions],
    ) -> _PushT:
        """Returns a push consumer that is closed with the client; start it.

        Args:
            group: Its group.
            handler: What gets the messages: one, or with `batch` a list.
            topics: What is consumed: names, or names with expressions.
            batch: Messages of one call.
            settings: How it consumes; options change it.
            options: Those of `PushConsumer`.
        """
        return self._made_of(
            self._kinds.push_consumer,
            options,
            group=group,
            handler=handler,
            topics=topics,
            batch=batch,
            settings=settings,
        )

    @shows_options(ConsumerJoin, PullConsumerSettings)
    def pull_consumer(
        self,
        *,
        group: str,
        topics: Topics = (),
        settings: PullConsumerSettings | None = None,
        **options: Unpack[PullConsumerOptions],
    ) -> _PullT:
        """Returns a pull consumer that is closed with the client; start it.

        Args:
            group: Its group.
            topics: What is consumed: names, or names with expressions.
            settings: How it consumes; options change it.
            options: Those of `PullConsumer`.
        """
        kind = self._kinds.pull_consumer
        return self._made_of(kind, options, group=group, topics=topics, settings=settings)

    def _made_of(
        self, kind: Callable[..., _PartT], options: Mapping[str, Any], **explicit: Any
    ) -> _PartT:
        """Returns a part of this client; it is closed with the client."""
        return self.adopt(kind(**explicit, **{**options, "instance": self.instance}))

    def adopt(self, part: _PartT) -> _PartT:
        """Closes a part with the client, and returns it."""
        self._made.append(part)
        return part

    def _take_made(self) -> list[Any]:
        """Returns what is to be closed now, the last first."""
        made, self._made = self._made, []
        return made[::-1]
