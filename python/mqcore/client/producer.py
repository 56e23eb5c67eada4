"""The asyncio producer: sends messages one by one, in batches, or gathered behind the scenes.

After the official `DefaultMQProducer`. What is sent is `outgoing`'s, how it gets there `sender`'s.
Everything belongs to the event loop of its client.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeAlias

from mqcore.client.faults import FaultStrategy
from mqcore.client.hooks import SendHook
from mqcore.client.identity import unique_ids
from mqcore.client.instance import Instance, TlsOption
from mqcore.client.message import Message
from mqcore.client.outgoing import Outgoing, check_sendable, outgoing_of
from mqcore.client.results import QueueRef, SendResult
from mqcore.client.routes import TopicRoute
from mqcore.client.sender import Sender, check_queue
from mqcore.client.settings import ProducerSettings
from mqcore.client.signing import Credentials
from mqcore.client.topics import Target, queue_of_key
from mqcore.clock import wall_ms
from mqcore.errors import ClosedError, NotStartedError, UsageError
from mqcore.model.heartbeats import ConsumerData
from mqcore.remoting.dispatch import Handler

__all__ = ["DEFAULT_GROUP", "Producer", "QueueSelector"]

DEFAULT_GROUP = "MQCORE_PRODUCER"
# Chooses a queue: the queues that may be written, the message, and what the caller gave along.
QueueSelector: TypeAlias = Callable[[Sequence[QueueRef], Message, Any], QueueRef]


class Producer:
    """Sends messages as one group.

    Attributes:
        group: Its group, as the user calls it.
        settings: How it sends.
    """

    def __init__(
        self,
        namesrv: str | Sequence[str] = "127.0.0.1:9876",
        *,
        group: str = DEFAULT_GROUP,
        instance: Instance | None = None,
        settings: ProducerSettings | None = None,
        credentials: Credentials | None = None,
        namespace: str | None = None,
        tls: TlsOption = None,
        faults: FaultStrategy | None = None,
        hooks: Sequence[SendHook] = (),
        **changes: Any,
    ) -> None:
        """Prepares; `start` begins.

        Args:
            namesrv: Name servers: `host:port`, several with `;` between, or a sequence.
            group: Its group.
            instance: The client that it belongs to; one of its own when not given.
            settings: How it sends.
            credentials: Who we are to brokers that ask.
            namespace: Put before topics and groups.
            tls: Speak TLS.
            faults: Leaves slow and failing brokers alone for a while; off when not given.
            hooks: Hear of every try.
            changes: Settings that differ, by the names of `ProducerSettings`.

        Raises:
            UsageError: A setting cannot work.
            AddressError: A name server's address is none.
        """
        self._owns_instance = instance is None
        self._instance = instance or Instance(
            namesrv, credentials=credentials, namespace=namespace, tls=tls
        )
        try:
            self.settings = replace(settings or ProducerSettings(), **changes)
        except TypeError as error:
            raise UsageError(f"a producer has no such setting: {error}") from error
        self.group = group
        self._sender = Sender(
            self._instance,
            self._instance.full_name(group),
            self.settings,
            faults=faults,
            hooks=hooks,
        )
        self._part = _ProducerPart(self._sender)
        self._ids = unique_ids()
        self._is_started = False
        self._is_closed = False

    # Life.

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
        """Begins; connects nowhere yet. Starting again does nothing.

        Raises:
            ClosedError: It was closed.
            GroupError: The group's name is illegal, or its client has such a producer already.
        """
        if self._is_closed:
            raise ClosedError(f"producer {self.group} is closed: make another one")
        if self._is_started:
            return
        await self._instance.start()
        self._instance.register(self._part)
        self._is_started = True

    async def close(self) -> None:
        """Sends what is gathered, tells the brokers, and closes. Closing again does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._is_started:
            await self._instance.unregister(self._part)
        self._sender.close()
        if self._owns_instance:
            await self._instance.close()

    # Sending.

    async def send(
        self,
        message: Message,
        *,
        timeout_s: float | None = None,
        queue: QueueRef | None = None,
        selector: QueueSelector | None = None,
        argument: Any = None,
    ) -> SendResult:
        """Sends a message; returns when a broker has acknowledged it.

        Where it goes: to `queue`; to the queue that `selector` chooses; to that of the message's
        sharding key; else to the next one in a round. Only the last is tried at other brokers.

        Args:
            message: The message.
            timeout_s: The deadline over all tries, in seconds.
            queue: The queue that it must go to.
            selector: Chooses the queue.
            argument: Given to the selector.

        Raises:
            MessageError: It cannot be sent as it is.
            NoRouteError: No broker has the topic.
            SendError: It was not acknowledged; it may be stored all the same where the error says.
        """
        self._check()
        check_sendable(message, self.settings)
        target = await self._sender.target(message.topic)
        fixed = self._fixed(target, message, queue, selector, argument)
        outgoing = self._outgoing(target, message)
        return await self._sender.deliver(
            target, outgoing, message, timeout_s=timeout_s, fixed=fixed
        )

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: QueueRef | None = None,
        selector: QueueSelector | None = None,
        argument: Any = None,
    ) -> None:
        """Sends a message and wants no answer: it may be lost.

        Args:
            message: The message.
            queue: The queue that it must go to.
            selector: Chooses the queue.
            argument: Given to the selector.

        Raises:
            MessageError: It cannot be sent as it is.
            RemotingError: There was no connection, or no room on it.
        """
        self._check()
        check_sendable(message, self.settings)
        target = await self._sender.target(message.topic)
        fixed = self._fixed(target, message, queue, selector, argument)
        await self._sender.oneway(target, self._outgoing(target, message), message, fixed=fixed)

    async def queues(self, topic: str) -> list[QueueRef]:
        """Returns the queues of a topic that may be written.

        Raises:
            NoRouteError: No broker has it.
        """
        self._check()
        return list((await self._sender.target(topic)).queues)

    def _check(self) -> None:
        if self._is_started and not self._is_closed and self._instance.is_usable:
            return
        if self._is_closed:
            raise ClosedError(f"producer {self.group} is closed: make another one")
        if not self._is_started:
            raise NotStartedError(
                f"producer {self.group} is not started: call start(), or use it with `async with`"
            )
        self._instance.check_usable()

    def _outgoing(self, target: Target, message: Message) -> Outgoing:
        now_ms = wall_ms()
        return outgoing_of(
            message,
            topic=target.topic,
            message_id=self._ids.next(now_ms),
            born_ms=now_ms,
            settings=self.settings,
            instance_id=self._instance.namespace,
        )

    def _fixed(
        self,
        target: Target,
        message: Message,
        queue: QueueRef | None,
        selector: QueueSelector | None,
        argument: Any,
    ) -> QueueRef | None:
        """Returns the one queue that a message must go to, None for any."""
        if queue is not None:
            return check_queue(queue, target)
        if selector is not None:
            return check_queue(selector(target.queues, message, argument), target)
        if message.sharding_key is not None and target.queues:
            return queue_of_key(target.queues, message.sharding_key)
        return None


class _ProducerPart:
    """A producer as its instance sees it."""

    def __init__(self, sender: Sender, handlers: Mapping[int, Handler] | None = None) -> None:
        self._sender = sender
        self.handlers: Mapping[int, Handler] = handlers or {}

    @property
    def group(self) -> str:
        return self._sender.group

    def consumer_data(self) -> ConsumerData | None:
        return None

    def topics(self) -> Collection[str]:
        return self._sender.targets.topics

    def on_route(self, topic: str, route: TopicRoute) -> None:
        self._sender.targets.changed(topic, route)
