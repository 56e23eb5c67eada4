"""The asyncio producer: sends messages one by one, in batches, or gathered behind the scenes.

After the official `DefaultMQProducer`. What is sent is `outgoing`'s, how it gets there `sender`'s.
Everything belongs to the event loop of its client.
"""

import asyncio
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self, Unpack, overload

from mqcore.client.batches import batch_fault, check_batchable, split
from mqcore.client.detecting import detector
from mqcore.client.gathering import Gatherer, Ticket
from mqcore.client.identity import unique_ids
from mqcore.client.joining import ProducerJoin, taken
from mqcore.client.message import Message, ReceivedMessage
from mqcore.client.namespaces import check_group
from mqcore.client.option import check_explicit, shows_options
from mqcore.client.options import ProducerOptions
from mqcore.client.outgoing import check_sendable
from mqcore.client.preparing import Preparing, QueueSelector
from mqcore.client.producer_part import ProducerPart
from mqcore.client.producer_state import ProducerState
from mqcore.client.properties import CORRELATION_ID
from mqcore.client.recall import recall
from mqcore.client.requests import Reply, Waiting, reply_of, reply_properties, request_properties
from mqcore.client.results import QueueRef, SendResult
from mqcore.client.sender import Sender, check_queue, check_timeout
from mqcore.client.sending_forms import (
    BatchOptions,
    Body,
    QueueOptions,
    SendOptions,
    messages_of,
)
from mqcore.client.settings import ProducerSettings
from mqcore.client.shown import shown
from mqcore.client.topics import queue_of_key
from mqcore.client.trace import TraceHook, Tracer
from mqcore.client.usual_sends import UsualSends
from mqcore.clock import monotonic_ms
from mqcore.errors import ClosedError, ReplyTimeoutError, UsageError

__all__ = ["DEFAULT_GROUP", "Producer", "QueueSelector"]

DEFAULT_GROUP = "MQCORE_PRODUCER"


class Producer(Preparing):
    """Sends messages as one group.

    Attributes:
        group: Its group, as the user calls it.
        settings: How it sends.
        sender: What sends.
        tracer: Gathers the message trace, or None.
        instance: The client that it belongs to.
    """

    @shows_options(ProducerJoin, ProducerSettings)
    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        group: str = DEFAULT_GROUP,
        settings: ProducerSettings | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """Prepares; `start` begins.

        Args:
            namesrv: Name servers: `host:port`, several with `;` between, or a sequence; those of
                the environment when not given.
            group: Its group.
            settings: How it sends; options change it.
            options: What is not as usual: `docs/client-options.md` has all of them.

        Raises:
            UsageError: An option or the group's name cannot work.
            AddressError: A name server's address is none.
        """
        check_explicit(group=(group, str), settings=(settings, ProducerSettings | None))
        join, self.settings = taken(
            options, "a producer", ProducerJoin, settings or ProducerSettings()
        )
        self._owns_instance = join.instance is None
        self.instance = join.own_or(namesrv)
        self.group = group
        full_group = check_group(self.instance.full_name(group))
        self.tracer = Tracer(self.instance, group) if join.trace else None
        hooks = tuple(join.hooks)
        if self.tracer is not None:
            hooks = (*hooks, TraceHook(self.tracer))
        if join.spans:
            # Imported here: OpenTelemetry is for those who ask for it.
            from mqcore.client.spans import SendSpans

            hooks = (SendSpans(), *hooks)
        self.sender = Sender(
            self.instance, full_group, self.settings, faults=join.faults, hooks=hooks
        )
        self._part = self._make_part()
        self._ids = unique_ids()
        self._usual = UsualSends(self.sender, self._ids, self.prepared)
        self._gatherer = Gatherer(self.settings, self._send_together)
        self._waiting = Waiting()
        self._detecting = None
        if join.faults is not None and join.faults.has_detector:
            self._detecting = detector(self.instance, self.sender, join.faults)
        self._state = ProducerState(group, self.instance, self.settings)

    def __repr__(self) -> str:
        """Returns its group, name servers and state."""
        started, closed = self._state.is_started, self._state.is_closed
        return shown(self, self.instance, group=self.group, is_started=started, is_closed=closed)

    def check_usable(self) -> None:
        """Checks that it can send now.

        Raises:
            UsageError: It is not started, or closed, or of another process.
        """
        self._state.check_usable()

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

    async def start(self, *, timeout_s: float | None = None) -> None:
        """Begins. Starting again does nothing.

        Args:
            timeout_s: For how long to wait for a name server. When not given it returns at once,
                asks in the background until one answers, and logs a warning while none does.

        Raises:
            ClosedError: It was closed.
            UsageError: Its client has such a producer already.
            NameServerError: None answered within `timeout_s`; it may be started again.
        """
        if self._state.is_closed:
            raise ClosedError(f"producer {self.group} is closed: make another one")
        if self._state.is_started:
            return
        await self.instance.start(timeout_s=timeout_s)
        try:
            self.instance.register(self._part)
        except UsageError:
            if self._owns_instance:
                await self.instance.close()
            raise
        self.instance.pushed.take_replies(self._waiting.take)
        if self.tracer is not None:
            self.tracer.start()
        if self._detecting is not None:
            self._detecting.start()
        self._state.started()

    async def close(self) -> None:
        """Sends what is gathered, unregisters at the brokers, and closes. Again: does nothing."""
        if self._state.is_closed:
            return
        self._state.closed()
        if self._state.is_started:
            await self._gatherer.close()
            if self.tracer is not None:
                await self.tracer.close()
            if self._detecting is not None:
                await self._detecting.stop()
            self.instance.pushed.leave_replies(self._waiting.take)
            await self.instance.unregister(self._part)
        if self._owns_instance:
            await self.instance.close()

    # Sending.

    @overload
    async def send(self, message: Message, **options: Unpack[SendOptions]) -> SendResult: ...
    @overload
    async def send(
        self, topic: str, body: Body, /, **options: Unpack[SendOptions]
    ) -> SendResult: ...
    async def send(
        self,
        message: Message | str,
        body: Body | None = None,
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
            message: The message, or a topic.
            body: What is sent to the topic.
            timeout_s: The deadline over all tries, in seconds.
            queue: The queue that it must go to.
            selector: Chooses the queue.
            argument: Given to the selector.

        Raises:
            MessageError: It cannot be sent as it is.
            NoRouteError: No broker has the topic.
            UnsupportedError: It is timed, and a broker of the topic cannot do that.
            SendError: It was not acknowledged; it may be stored all the same; see the error.
        """
        message = self._state.sendable(message, body)
        is_free = queue is None and selector is None and timeout_s is None
        if self.settings.batching and is_free and batch_fault(message) is None:
            ticket = self._gatherer.add(message)
            index = ticket.count - 1
            await ticket
            return ticket.part(index)
        began_ms = None
        target = self.sender.targets.known(message.topic)
        if target is None or not target.queues or timeout_s is not None or message.is_delayed:
            began_ms = monotonic_ms()
            target = await self.sender.target(message.topic, timeout_s)
            if message.is_timed:
                await self.need_timers(target)
        fixed = self.fixed_queue(target, message, queue, selector, argument)
        return await self._usual.send(
            target, message, timeout_s=timeout_s, fixed=fixed, began_ms=began_ms
        )

    @overload
    async def send_oneway(self, message: Message, **options: Unpack[QueueOptions]) -> None: ...
    @overload
    async def send_oneway(
        self, topic: str, body: Body, /, **options: Unpack[QueueOptions]
    ) -> None: ...
    async def send_oneway(
        self,
        message: Message | str,
        body: Body | None = None,
        *,
        queue: QueueRef | None = None,
        selector: QueueSelector | None = None,
        argument: Any = None,
    ) -> None:
        """Sends a message and wants no answer: it may be lost.

        Args:
            message: The message, or a topic.
            body: What is sent to the topic.
            queue: The queue that it must go to.
            selector: Chooses the queue.
            argument: Given to the selector.

        Raises:
            MessageError: It cannot be sent as it is.
            RemotingError: There was no connection, or no space on it.
        """
        message = self._state.sendable(message, body)
        target = await self.sender.target(message.topic)
        fixed = self.fixed_queue(target, message, queue, selector, argument)
        await self.sender.oneway(target, self.prepared(target, message), message, fixed=fixed)

    @overload
    async def send_batch(
        self, messages: Iterable[Message], **options: Unpack[BatchOptions]
    ) -> list[SendResult]: ...
    @overload
    async def send_batch(
        self, topic: str, bodies: Iterable[Body], /, **options: Unpack[BatchOptions]
    ) -> list[SendResult]: ...
    async def send_batch(
        self,
        messages: Iterable[Message] | str,
        bodies: Iterable[Body] | None = None,
        *,
        timeout_s: float | None = None,
        queue: QueueRef | None = None,
    ) -> list[SendResult]:
        """Sends messages of one topic together: each request is stored in a row, or not at all.

        What is more than `body_bytes_max` goes in several requests, in order, to one queue if
        `queue` is given, else to one queue each.

        Args:
            messages: The messages, or their topic.
            bodies: What is sent to the topic.
            timeout_s: The deadline of each request over all its tries, in seconds.
            queue: The queue that they must go to.

        Returns:
            A result per request.

        Raises:
            MessageError: They cannot be sent together.
            NoRouteError: No broker has the topic.
            SendError: A request was not acknowledged; those before it were.
        """
        self.check_usable()
        listed = messages_of(messages, bodies)
        for message in listed:
            check_sendable(message, self.settings)
        check_batchable(listed)
        target = await self.sender.target(listed[0].topic, timeout_s)
        fixed = None if queue is None else check_queue(queue, target)
        return [
            await self.sender.deliver(
                target,
                self.prepared_batch(target, part),
                part[0],
                timeout_s=timeout_s,
                fixed=fixed,
            )
            for part in split(listed, self.settings.body_bytes_max)
        ]

    @overload
    def send_soon(self, message: Message) -> Ticket: ...
    @overload
    def send_soon(self, topic: str, body: Body, /) -> Ticket: ...
    def send_soon(self, message: Message | str, body: Body | None = None) -> Ticket:
        """Gives a message to the next batch of its queue; returns the ticket of that batch.

        Args:
            message: The message, or a topic.
            body: What is sent to the topic.

        Raises:
            MessageError: It cannot be sent as it is, or not in a batch.
            TooBusyError: Too many bytes are not acknowledged yet: await tickets, or `flush`.
        """
        message = self._state.sendable(message, body)
        return self._gatherer.add(message)

    @property
    def buffered_bytes(self) -> int:
        """Bytes given to `send_soon` that are not acknowledged yet."""
        return self._gatherer.buffered_bytes

    async def flush(self) -> None:
        """Returns when everything given to `send_soon` so far is acknowledged or given up."""
        self.check_usable()
        await self._gatherer.flush()

    @overload
    async def request(self, message: Message, *, timeout_s: float = 3.0) -> Reply: ...
    @overload
    async def request(self, topic: str, body: Body, /, *, timeout_s: float = 3.0) -> Reply: ...
    async def request(
        self, message: Message | str, body: Body | None = None, *, timeout_s: float = 3.0
    ) -> Reply:
        """Sends a message and returns what a consumer replies to it.

        Args:
            message: The request, or its topic.
            body: What is sent to the topic.
            timeout_s: The deadline of both, in seconds.

        Raises:
            MessageError: It cannot be sent as it is.
            NoRouteError: No broker has the topic.
            SendError: It was not acknowledged.
            ReplyTimeoutError: Nobody replied in time.
        """
        message = self._state.sendable(message, body)
        check_timeout(timeout_s)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        target = await self.sender.target(message.topic, timeout_s)
        # A reply comes back on a connection that its broker knows by our heartbeat.
        await self.instance.until_known(set(map(self.instance.broker_of, target.queues)))
        more = request_properties(self.instance.client_id, timeout_s)
        outgoing = self.prepared(target, message, more)
        reply = self._waiting.begin(more[CORRELATION_ID])
        try:
            left_s = max(0.0, deadline_s - loop.time())
            await self.sender.deliver(
                target,
                outgoing,
                message,
                timeout_s=left_s,
                fixed=self.fixed_queue(target, message, None, None, None),
            )
            async with asyncio.timeout_at(deadline_s):
                return await reply
        except TimeoutError as error:
            raise ReplyTimeoutError(
                f"topic {message.topic}: nobody replied to message {outgoing.message_id} within "
                f"{timeout_s:g} s: is a consumer of the topic there that replies?",
                topic=message.topic,
                message_id=outgoing.message_id,
            ) from error
        finally:
            self._waiting.end(more[CORRELATION_ID])

    async def reply(self, request: ReceivedMessage, body: bytes | str) -> SendResult:
        """Replies to a request that was received.

        Args:
            request: The request, as it was received.
            body: The reply; `str` becomes UTF-8.

        Raises:
            MessageError: It is no request.
            SendError: The broker could not give it to who asked: it may be gone.
        """
        self.check_usable()
        message = reply_of(request, body)
        target = await self.sender.target(message.topic)
        # Only the broker that the request went through knows who asked.
        name = request.queue.broker_name
        queues = [queue for queue in target.queues if queue.broker_name == name]
        fixed = queues[0] if queues else QueueRef(target.topic, name, 0)
        outgoing = self.prepared(target, message, reply_properties(request))
        return await self.sender.deliver(target, outgoing, message, fixed=fixed)

    async def recall(self, handle: str, *, timeout_s: float = 3.0) -> str:
        """Takes a timed message back, by the `recall_handle` of its send; returns its unique id.

        Args:
            handle: The handle.
            timeout_s: The deadline, in seconds.

        Raises:
            MessageError: It is no handle.
            NoRouteError: The broker that keeps the message is not known.
            ResponseError: The broker does not allow recalls, or it is too late.
        """
        self.check_usable()
        return await recall(self.instance, self.sender.group, handle, timeout_s)

    async def queues(self, topic: str) -> list[QueueRef]:
        """Returns the queues of a topic that may be written.

        Args:
            topic: The topic.

        Raises:
            NoRouteError: No broker has it.
        """
        self.check_usable()
        return list((await self.sender.target(topic)).queues)

    def _make_part(self) -> ProducerPart:
        return ProducerPart(self.sender)

    async def _send_together(self, messages: Sequence[Message], key: str | None) -> SendResult:
        """Sends what the gatherer gathered: one message as it is, several as a batch."""
        first = messages[0]
        began_ms = monotonic_ms()
        target = await self.sender.target(first.topic)
        is_alone = len(messages) == 1
        outgoing = (
            self.prepared(target, first) if is_alone else self.prepared_batch(target, messages)
        )
        fixed = queue_of_key(target.queues, key) if key is not None and target.queues else None
        return await self.sender.deliver(target, outgoing, first, fixed=fixed, began_ms=began_ms)
