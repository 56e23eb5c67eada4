"""The synchronous producer: the names, arguments and retries of `mqcore.aio.Producer`.

Any thread may use it. Plain sends go by blocking sockets in the caller's thread; whatever waits for
more than one answer runs on the loop's thread.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, Unpack, overload

from mqcore.client.batches import batch_fault, check_batchable, split
from mqcore.client.blocking.loop_thread import LoopThread, loop_thread
from mqcore.client.blocking.sender import BlockingSender
from mqcore.client.gathering import Ticket
from mqcore.client.joining import ProducerJoin
from mqcore.client.message import Message, ReceivedMessage
from mqcore.client.option import shows_options
from mqcore.client.options import ProducerOptions
from mqcore.client.outgoing import SEND_BATCH, check_sendable
from mqcore.client.preparing import QueueSelector
from mqcore.client.producer import DEFAULT_GROUP
from mqcore.client.producer import Producer as AsyncProducer
from mqcore.client.requests import Reply
from mqcore.client.results import QueueRef, SendResult
from mqcore.client.sender import check_queue, check_timeout
from mqcore.client.sending_forms import (
    BatchOptions,
    Body,
    QueueOptions,
    SendOptions,
    message_of,
    messages_of,
)
from mqcore.client.settings import ProducerSettings
from mqcore.clock import monotonic_ms
from mqcore.errors import CallTimeoutError, MessageError, MQError, UsageError

__all__ = ["BlockingTicket", "Producer"]


class BlockingTicket:
    """What becomes of the batch of a message; any thread may ask."""

    __slots__ = ("_error", "_producer", "_ticket", "message")

    def __init__(self, producer: "Producer", message: Message) -> None:
        """Begins before the message is in a batch."""
        self.message = message
        self._producer = producer
        self._ticket: Ticket | None = None
        self._error: MQError | None = None

    def done(self) -> bool:
        """Whether the batch was acknowledged or given up."""
        return self._error is not None or (self._ticket is not None and self._ticket.done())

    def result(self, timeout_s: float | None = None) -> SendResult:
        """Returns the result of the batch; waits for it, no longer than its tries may take.

        Args:
            timeout_s: How long to wait at the most, in seconds.

        Raises:
            SendError: It was not acknowledged.
            CallTimeoutError: It was not answered in this time; ask again, or take it as unknown.
        """
        if timeout_s is not None:
            check_timeout(timeout_s)
        if self._error is None and (self._ticket is None or not self._ticket.done()):
            self._producer.thread.run(lambda: self._wait(timeout_s))
        if self._error is not None:
            raise self._error
        if self._ticket is None:
            raise UsageError("the message of this ticket was never given to a batch")
        return self._ticket.result()

    def begin(self, ticket: Ticket | None, error: MQError | None = None) -> None:
        """Learns which batch it is, or why it is in none."""
        self._ticket, self._error = ticket, error

    async def _wait(self, timeout_s: float | None) -> None:
        self._producer.hand_over()
        if self._ticket is None:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._ticket
        except TimeoutError:
            raise CallTimeoutError(
                f"topic {self.message.topic}: the batch of this ticket has no answer after "
                f"{timeout_s:g} s; its tries go on",
                code=SEND_BATCH,
                timeout_s=timeout_s,
            ) from None


class Producer:
    """Sends messages as one group, from any thread.

    Attributes:
        thread: The loop that it shares with all synchronous clients of the process.
        core: The asyncio producer under it.
    """

    _core_type: type[AsyncProducer] = AsyncProducer

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
            UsageError: An option or the group's name cannot work, or this thread runs an event
                loop.
            AddressError: A name server's address is none.
        """
        self._begin(lambda: AsyncProducer(namesrv, group=group, settings=settings, **options))

    def _begin(self, make: Callable[[], AsyncProducer]) -> None:
        # First the thread: it refuses to be used under an event loop.
        self.thread: LoopThread = loop_thread()
        self.core = make()
        self._sender = BlockingSender(self.thread, self.core.sender)
        self._soon: deque[BlockingTicket] = deque()
        self._is_closed = False

    def __repr__(self) -> str:
        """Returns its group, name servers and state."""
        return repr(self.core)

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

    @property
    def group(self) -> str:
        """Its group, as the user calls it."""
        return self.core.group

    @property
    def settings(self) -> ProducerSettings:
        """How it sends."""
        return self.core.settings

    def start(self, *, timeout_s: float | None = None) -> None:
        """Begins. Starting again does nothing.

        Args:
            timeout_s: For how long to wait for a name server. When not given it returns at once,
                asks in the background until one answers, and logs a warning while none does.

        Raises:
            ClosedError: It was closed.
            UsageError: Its client has such a producer already.
            NameServerError: None answered within `timeout_s`; it may be started again.
        """
        self.thread.run(lambda: self.core.start(timeout_s=timeout_s))
        self.thread.close_at_exit(self, self._close_core)

    def close(self) -> None:
        """Sends what is gathered, unregisters at the brokers, and closes. Again: does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self.thread.forget(self)
        try:
            self.thread.run(self._close_core)
        finally:
            self._sender.close()

    async def _close_core(self) -> None:
        self.hand_over()
        await self.core.close()

    # Sending.

    @overload
    def send(self, message: Message, **options: Unpack[SendOptions]) -> SendResult: ...
    @overload
    def send(self, topic: str, body: Body, /, **options: Unpack[SendOptions]) -> SendResult: ...
    def send(
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
        core = self.core
        self._check()
        sent = message = message_of(message, body)
        check_sendable(message, core.settings)
        if core.settings.batching:
            return self.thread.run(
                lambda: core.send(
                    sent,
                    timeout_s=timeout_s,
                    queue=queue,
                    selector=selector,
                    argument=argument,
                )
            )
        began_ms = monotonic_ms()
        target = self._sender.target(message.topic, timeout_s)
        if message.is_timed:
            self.thread.run(lambda: core.need_timers(target))
        fixed = core.fixed_queue(target, message, queue, selector, argument)
        outgoing = core.prepared(target, message)
        return self._sender.deliver(
            target, outgoing, message, timeout_s=timeout_s, fixed=fixed, began_ms=began_ms
        )

    @overload
    def send_oneway(self, message: Message, **options: Unpack[QueueOptions]) -> None: ...
    @overload
    def send_oneway(self, topic: str, body: Body, /, **options: Unpack[QueueOptions]) -> None: ...
    def send_oneway(
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
        core = self.core
        self._check()
        message = message_of(message, body)
        check_sendable(message, core.settings)
        target = self._sender.target(message.topic)
        fixed = core.fixed_queue(target, message, queue, selector, argument)
        self._sender.oneway(target, core.prepared(target, message), message, fixed=fixed)

    @overload
    def send_batch(
        self, messages: Iterable[Message], **options: Unpack[BatchOptions]
    ) -> list[SendResult]: ...
    @overload
    def send_batch(
        self, topic: str, bodies: Iterable[Body], /, **options: Unpack[BatchOptions]
    ) -> list[SendResult]: ...
    def send_batch(
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
        core = self.core
        self._check()
        listed = messages_of(messages, bodies)
        for message in listed:
            check_sendable(message, core.settings)
        check_batchable(listed)
        target = self._sender.target(listed[0].topic, timeout_s)
        fixed = None if queue is None else check_queue(queue, target)
        return [
            self._sender.deliver(
                target,
                core.prepared_batch(target, part),
                part[0],
                timeout_s=timeout_s,
                fixed=fixed,
            )
            for part in split(listed, core.settings.body_bytes_max)
        ]

    @overload
    def send_soon(self, message: Message) -> BlockingTicket: ...
    @overload
    def send_soon(self, topic: str, body: Body, /) -> BlockingTicket: ...
    def send_soon(self, message: Message | str, body: Body | None = None) -> BlockingTicket:
        """Gives a message to the next batch of its queue; returns a ticket.

        Waits only where more than half of `buffered_bytes_max` is not acknowledged yet.

        Args:
            message: The message, or a topic.
            body: What is sent to the topic.

        Raises:
            MessageError: It cannot be sent as it is, or not in a batch.
        """
        core = self.core
        self._check()
        message = message_of(message, body)
        check_sendable(message, core.settings)
        fault = batch_fault(message)
        if fault is not None:
            raise MessageError(f"topic {message.topic}: {fault}")
        if core.buffered_bytes > core.settings.buffered_bytes_max // 2:
            self.flush()
        ticket = BlockingTicket(self, message)
        self._soon.append(ticket)
        if len(self._soon) == 1:
            self.thread.soon(self.hand_over)
        return ticket

    def _check(self) -> None:
        # First what is known of this thread: a loop that runs here is not the core's.
        self.thread.check_usable()
        self.core.check_usable()

    def hand_over(self) -> None:
        """Gives what threads left to the gatherer. Belongs to the loop's thread."""
        while self._soon:
            ticket = self._soon.popleft()
            try:
                ticket.begin(self.core.send_soon(ticket.message))
            except MQError as error:
                ticket.begin(None, error)

    def flush(self) -> None:
        """Returns when everything given to `send_soon` so far is acknowledged or given up."""
        self.thread.run(self._flush)

    async def _flush(self) -> None:
        self.hand_over()
        await self.core.flush()

    @overload
    def request(self, message: Message, *, timeout_s: float = 3.0) -> Reply: ...
    @overload
    def request(self, topic: str, body: Body, /, *, timeout_s: float = 3.0) -> Reply: ...
    def request(
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
        sent = message_of(message, body)
        return self.thread.run(lambda: self.core.request(sent, timeout_s=timeout_s))

    def reply(self, request: ReceivedMessage, body: bytes | str) -> SendResult:
        """Replies to a request that was received.

        Args:
            request: The request, as it was received.
            body: The reply; `str` becomes UTF-8.

        Raises:
            MessageError: It is no request.
            SendError: The broker could not give it to who asked: it may be gone.
        """
        return self.thread.run(lambda: self.core.reply(request, body))

    def recall(self, handle: str, *, timeout_s: float = 3.0) -> str:
        """Takes a timed message back, by the `recall_handle` of its send; returns its unique id.

        Args:
            handle: The handle.
            timeout_s: The deadline, in seconds.

        Raises:
            MessageError: It is no handle.
            NoRouteError: The broker that keeps the message is not known.
            ResponseError: The broker does not allow recalls, or it is too late.
        """
        return self.thread.run(lambda: self.core.recall(handle, timeout_s=timeout_s))

    def queues(self, topic: str) -> list[QueueRef]:
        """Returns the queues of a topic that may be written.

        Args:
            topic: The topic.

        Raises:
            NoRouteError: No broker has it.
        """
        return self.thread.run(lambda: self.core.queues(topic))
