"""Gathers messages into batches behind the scenes; each message's ticket is that of its batch.

A batch leaves at the end of the loop's turn while fewer than `batches_in_flight` of its queue are
unanswered; otherwise it waits for an answer, and grows meanwhile. A linger makes it wait longer.
So one message alone is not held back, and a thousand at once go in one request. Belongs to the
event loop of its producer.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, TypeAlias

from mqcore.client.batches import PART_BYTES, PARTS_MAX, batch_fault
from mqcore.client.message import Message
from mqcore.client.results import SendResult
from mqcore.client.settings import ProducerSettings
from mqcore.errors import (
    ClosedError,
    MessageError,
    MQError,
    SendError,
    SendReason,
    TooBusyError,
    UsageError,
)

__all__ = ["Gatherer", "Ticket"]

_log = logging.getLogger(__name__)

# Sends messages of one topic together: (messages, the sharding key that they share or None).
SendTogether: TypeAlias = Callable[[Sequence[Message], str | None], Awaitable[SendResult]]


class Ticket:
    """What becomes of a batch: await it, as often and from as many tasks as you like.

    It gives the result of the batch: the first message's offset, all their ids. Cancelling who
    awaits it cancels nothing else. A failure that nobody asks about is logged.
    """

    __slots__ = ("_error", "_ids", "_is_seen", "_messages", "_offset_ids", "_result", "_waiters")

    def __init__(self, messages: Sequence[Message]) -> None:
        """Begins unanswered.

        Args:
            messages: What the batch holds, growing.
        """
        self._messages = messages
        self._result: SendResult | None = None
        self._error: MQError | None = None
        self._is_seen = False
        self._waiters: list[asyncio.Future[None]] = []
        # The ids of each message, in order, once somebody asks.
        self._ids: Sequence[str] = ()
        self._offset_ids: Sequence[str] = ()

    @property
    def count(self) -> int:
        """How many messages the batch holds by now; 0 once it is done."""
        return len(self._messages)

    def done(self) -> bool:
        """Whether the batch was acknowledged or given up."""
        return self._result is not None or self._error is not None

    def result(self) -> SendResult:
        """Returns the result of a batch that is done.

        Raises:
            SendError: It was not acknowledged.
            UsageError: It is not done yet.
        """
        if self._result is not None:
            return self._result
        if self._error is None:
            raise UsageError("the batch of this ticket is not done yet: await the ticket")
        self._is_seen = True
        raise self._error

    def __await__(self) -> Generator[Any, None, SendResult]:
        """Waits until the batch is done."""
        if self._result is None and self._error is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            yield from waiter
        return self._result or self.result()

    def part(self, index: int) -> SendResult:
        """Returns the result of one message of a batch that is done, by its index in it.

        Raises:
            SendError: It was not acknowledged.
            UsageError: It is not done yet.
        """
        whole = self.result()
        if not self._ids:
            self._ids = whole.message_id.split(",")
            self._offset_ids = whole.offset_message_id.split(",")
        ids, offset_ids = self._ids, self._offset_ids
        if len(ids) < 2:
            return whole
        if whole.batch_id is not None:
            # One record holds them all.
            offset_ids = [whole.offset_message_id] * len(ids)
        return SendResult(
            whole.status,
            ids[index],
            whole.queue,
            whole.queue_offset + index,
            offset_ids[index] if index < len(offset_ids) else "",
            None,
            None,
            whole.attempts,
            whole.region_id,
            whole.is_trace_on,
            whole.batch_id,
        )

    def resolve(self, result: SendResult | None, error: MQError | None = None) -> None:
        """Answers it; notifies everybody who waits."""
        self._result, self._error = result, error
        self._messages = ()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def __del__(self) -> None:
        """Logs a failure that nobody received."""
        if self._error is not None and not self._is_seen:
            _log.error("a batch that nobody waited for failed: %s", self._error.message)


class _Batch:
    """Messages that leave together."""

    __slots__ = ("messages", "size_bytes", "ticket")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.size_bytes = 0
        self.ticket = Ticket(self.messages)


class _Accumulator:
    """The batches of one destination, in the order that they leave."""

    __slots__ = ("closed", "in_flight", "in_flight_max", "is_due", "key", "open", "timer")

    def __init__(self, key: str | None, in_flight_max: int) -> None:
        self.key = key
        self.in_flight_max = in_flight_max
        self.open: _Batch | None = None
        self.closed: deque[_Batch] = deque()
        self.in_flight = 0
        self.is_due = False
        self.timer: asyncio.TimerHandle | None = None


class Gatherer:
    """The batches of one producer."""

    def __init__(self, settings: ProducerSettings, send_together: SendTogether) -> None:
        """Takes what sends a batch."""
        self._settings = settings
        self._send = send_together
        # By topic; by topic and sharding key where there is one.
        self._accumulators: dict[str | tuple[str, str], _Accumulator] = {}
        self._buffered_bytes = 0
        self._buffered_bytes_max = settings.buffered_bytes_max
        self._batch_bytes = settings.batch_bytes
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def buffered_bytes(self) -> int:
        """Bytes of messages that are not acknowledged yet."""
        return self._buffered_bytes

    def add(self, message: Message) -> Ticket:
        """Takes a checked message; returns its batch's ticket, whose last message it is for now.

        Raises:
            MessageError: It cannot be part of a batch.
            TooBusyError: Too many bytes wait already: await tickets now and then.
            ClosedError: It is closed.
        """
        key = message.sharding_key
        accumulator = self._accumulators.get(message.topic if key is None else (message.topic, key))
        if accumulator is None or message.is_delayed:
            accumulator = self._accumulator_of(message)
        # As `part_bytes` counts; a call of it costs as much as all of this.
        size = PART_BYTES + len(message.body) + 4 * len(message.properties_text)
        batch = accumulator.open
        if batch is None:
            batch = accumulator.open = self._new_batch(accumulator)
        elif batch.size_bytes + size > self._batch_bytes or len(batch.messages) == PARTS_MAX:
            batch = self._next_batch(accumulator)
        batch.messages.append(message)
        batch.size_bytes += size
        self._buffered_bytes += size
        if self._buffered_bytes > self._buffered_bytes_max:
            self._refuse_last(batch, size)
        return batch.ticket

    def _refuse_last(self, batch: _Batch, size: int) -> None:
        batch.messages.pop()
        batch.size_bytes -= size
        self._buffered_bytes -= size
        raise TooBusyError(
            f"{self._buffered_bytes} bytes of messages are not acknowledged yet, of "
            f"{self._buffered_bytes_max} that may be: await tickets, or flush()",
            limit=self._buffered_bytes_max,
        )

    async def flush(self) -> None:
        """Returns when everything taken so far is acknowledged or given up."""
        for accumulator in self._accumulators.values():
            self._close_open(accumulator)
            self._send_closed(accumulator)
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self) -> None:
        """Flushes, and takes no more."""
        self._is_closed = True
        await self.flush()

    def _accumulator_of(self, message: Message) -> _Accumulator:
        """Returns the accumulator of a message that is the first of its kind, or refuses it."""
        if self._is_closed:
            raise ClosedError("the producer is closed: it takes no more messages")
        fault = batch_fault(message)
        if fault is not None:
            raise MessageError(f"topic {message.topic}: {fault}")
        topic, key = message.topic, message.sharding_key
        # Batches of one key keep their order: a batch that is tried again must not be passed.
        limit = 1 if key is not None else self._settings.batches_in_flight
        accumulator = self._accumulators[topic if key is None else (topic, key)] = _Accumulator(
            key, limit
        )
        return accumulator

    def _new_batch(self, accumulator: _Accumulator) -> _Batch:
        loop = asyncio.get_running_loop()
        batch = _Batch()
        if self._settings.linger_s > 0:
            accumulator.timer = loop.call_later(self._settings.linger_s, self._due, accumulator)
        elif not accumulator.is_due:
            accumulator.is_due = True
            loop.call_soon(self._due, accumulator)
        return batch

    def _next_batch(self, accumulator: _Accumulator) -> _Batch:
        """Closes the full batch, sends it where that may be, and begins another."""
        self._close_open(accumulator)
        self._send_closed(accumulator)
        accumulator.open = batch = self._new_batch(accumulator)
        return batch

    def _due(self, accumulator: _Accumulator) -> None:
        accumulator.is_due = False
        accumulator.timer = None
        if accumulator.in_flight < accumulator.in_flight_max:
            self._close_open(accumulator)
            self._send_closed(accumulator)

    def _close_open(self, accumulator: _Accumulator) -> None:
        if accumulator.timer is not None:
            accumulator.timer.cancel()
            accumulator.timer = None
        if accumulator.open is not None and accumulator.open.messages:
            accumulator.closed.append(accumulator.open)
            accumulator.open = None

    def _send_closed(self, accumulator: _Accumulator) -> None:
        loop = asyncio.get_running_loop()
        while accumulator.closed and accumulator.in_flight < accumulator.in_flight_max:
            batch = accumulator.closed.popleft()
            accumulator.in_flight += 1
            task = loop.create_task(self._send_batch(accumulator, batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send_batch(self, accumulator: _Accumulator, batch: _Batch) -> None:
        ticket = batch.ticket
        try:
            ticket.resolve(await self._send(batch.messages, accumulator.key))
        except MQError as error:
            # Its trace would hold the ticket, and a ticket that nobody has must be gone.
            ticket.resolve(None, error.with_traceback(None))
        except BaseException as error:
            # The loop is closing, or there is a fault of ours: whoever waits must hear of it.
            ticket.resolve(None, _lost(batch, error))
            raise
        finally:
            accumulator.in_flight -= 1
            self._buffered_bytes -= batch.size_bytes
            if not accumulator.closed and accumulator.timer is None:
                # What grew meanwhile leaves now, unless it lingers.
                self._close_open(accumulator)
            self._send_closed(accumulator)
            self._drop_idle(accumulator, batch)

    def _drop_idle(self, accumulator: _Accumulator, batch: _Batch) -> None:
        """Forgets the accumulator of a key that is not in use: keys are many."""
        if (
            accumulator.key is not None
            and not accumulator.in_flight
            and not accumulator.closed
            and accumulator.open is None
        ):
            self._accumulators.pop((batch.messages[0].topic, accumulator.key), None)


def _lost(batch: _Batch, error: BaseException) -> SendError:
    topic = batch.messages[0].topic
    return SendError(
        f"topic {topic}: a batch of {len(batch.messages)} messages was not sent to its end: "
        f"{type(error).__name__} {error}",
        reason=SendReason.STOPPED,
        topic=topic,
        attempts=(),
        may_be_stored=True,
    )
