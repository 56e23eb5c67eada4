"""The asyncio producer of transactions. What each step means is `transactions`'; here they meet.

async with aio.TransactionProducer(group="orders", check=was_it_done) as producer:
async with producer.transaction() as transaction:
await transaction.send(Message("orders", b"one"))
...                                    # the local work; an exception rolls back
"""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Unpack, overload

from mqcore.client.joining import ProducerJoin
from mqcore.client.message import Message, ReceivedMessage, received_of
from mqcore.client.option import check_explicit, shows_options
from mqcore.client.options import ProducerOptions
from mqcore.client.outgoing import TRANSACTION_PREPARED, check_sendable
from mqcore.client.producer import DEFAULT_GROUP, Producer
from mqcore.client.producer_part import ProducerPart
from mqcore.client.properties import MSG_REGION, TRACE_ON
from mqcore.client.results import SendResult, SendStatus
from mqcore.client.sending_forms import Body, message_of
from mqcore.client.settings import ProducerSettings
from mqcore.client.trace_lines import end_transaction_line
from mqcore.client.transactions import (
    CheckCallback,
    LocalWork,
    TransactionResult,
    TransactionState,
    check_asked,
    check_transactional,
    check_work,
    checked_fields,
    decide,
    end_fields,
    half_properties,
)
from mqcore.clock import monotonic_ms, wall_ms
from mqcore.errors import ConnectError, RemotingError, UsageError
from mqcore.native import decode_records
from mqcore.remoting.dispatch import Answer, Request
from mqcore.remoting.request_codes import RequestCode

__all__ = ["Transaction", "TransactionProducer"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Ended:
    """What the trace records of an end."""

    region_id: str
    message: Message | ReceivedMessage
    message_id: str
    transaction_id: str | None
    address: str
    state: TransactionState


class Transaction:
    """Half messages that are ended together.

    Attributes:
        state: What they will be ended with.
    """

    def __init__(self, producer: "TransactionProducer") -> None:
        """Begins without messages."""
        self._producer = producer
        self._halves: list[tuple[Message, SendResult]] = []
        self._is_ended = False
        self.state = TransactionState.UNKNOWN

    @overload
    async def send(self, message: Message, *, timeout_s: float | None = None) -> SendResult: ...
    @overload
    async def send(
        self, topic: str, body: Body, /, *, timeout_s: float | None = None
    ) -> SendResult: ...
    async def send(
        self, message: Message | str, body: Body | None = None, *, timeout_s: float | None = None
    ) -> SendResult:
        """Sends a half message: consumers see it once the transaction is committed.

        Args:
            message: The message, or a topic.
            body: What is sent to the topic.
            timeout_s: The deadline over all tries, in seconds.

        Raises:
            MessageError: It cannot be sent as it is.
            SendError: It was not acknowledged; a broker without transactions refuses it.
            UsageError: The transaction was ended: nothing would end the message.
        """
        message = message_of(message, body)
        if self._is_ended:
            raise UsageError(
                f"topic {message.topic}: the transaction was ended: send within its block, or "
                "begin another one"
            )
        sent = await self._producer.send_half(message, timeout_s=timeout_s)
        self._halves.append((message, sent))
        return sent

    async def end(self, state: TransactionState) -> None:
        """Sends the state to the brokers; one that does not receive it asks back later.

        Args:
            state: What became of the work.
        """
        self._is_ended = True
        self.state = state
        for message, sent in self._halves:
            # What was stored late or without its replica is rolled back, as the official client
            # does: the next check may find it gone.
            end_state = state if sent.status is SendStatus.SEND_OK else TransactionState.ROLLBACK
            await self._producer.end(message, sent, end_state)


class TransactionProducer(Producer):
    """A producer whose messages can be tied to work of its own."""

    @shows_options(ProducerJoin, ProducerSettings)
    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        group: str = DEFAULT_GROUP,
        check: CheckCallback | None = None,
        settings: ProducerSettings | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """Prepares; `start` begins.

        Args:
            namesrv: Name servers; those of the environment when not given.
            group: Its group, which brokers ask what became of its transactions.
            check: Returns a transaction's state when a broker asks; a plain function runs in
                a thread. See also `on_check`.
            settings: How it sends; options change it.
            options: Those of `Producer`.

        Raises:
            UsageError: An option or the group's name cannot work.
            AddressError: A name server's address is none.
        """
        check_explicit(check=(check, Callable[..., Any] | None))
        if check is not None:
            check_asked(check)
        self._check_callback = check
        super().__init__(namesrv, group=group, settings=settings, **options)

    def on_check(self, check: CheckCallback) -> CheckCallback:
        """Sets the check that returns a transaction's state; may be used as a decorator.

        Args:
            check: Gets the message, and returns the state of its transaction.

        Raises:
            UsageError: It cannot be called with a message.
        """
        check_asked(check)
        self._check_callback = check
        return check

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Commits what is sent within when the block ends; rolls back when it raises.

        A block that is cancelled leaves the end open: the broker asks the check callback.
        """
        transaction = Transaction(self)
        try:
            yield transaction
        except Exception:
            await transaction.end(TransactionState.ROLLBACK)
            raise
        await transaction.end(TransactionState.COMMIT)

    async def send_in_transaction(
        self,
        message: Message,
        work: LocalWork,
        argument: Any = None,
        *,
        timeout_s: float | None = None,
    ) -> TransactionResult:
        """Sends a half message, does the local work, and ends the transaction by its result.

        Args:
            message: The message.
            work: The local work: called with message and argument; a plain function runs in a
                thread. True commits, False rolls back, None lets the broker ask later; so does an
                exception, which is logged.
            argument: Given to the work.
            timeout_s: The deadline of the send, in seconds.

        Raises:
            MessageError: It cannot be sent as it is.
            SendError: It was not acknowledged: the work was not done.
            UsageError: The work cannot be called with message and argument; nothing was sent.
        """
        check_work(work)
        sent = await self.send_half(message, timeout_s=timeout_s)
        state = TransactionState.ROLLBACK
        if sent.status is SendStatus.SEND_OK:
            try:
                state = await decide(work, message, argument)
            except Exception:
                _log.exception("the local work of transaction %s failed", sent.message_id)
                state = TransactionState.UNKNOWN
        await self.end(message, sent, state)
        return TransactionResult(sent, state)

    async def send_half(self, message: Message, *, timeout_s: float | None = None) -> SendResult:
        """Sends a half message, which `end` must follow.

        Args:
            message: The message.
            timeout_s: The deadline over all tries, in seconds.

        Raises:
            MessageError: It cannot be sent as it is.
            SendError: It was not acknowledged.
        """
        self.check_usable()
        check_sendable(message, self.settings)
        check_transactional(message)
        began_ms = monotonic_ms()
        target = await self.sender.target(message.topic, timeout_s)
        # A broker that asks back does so on a connection that it knows by our heartbeat.
        await self.instance.until_known(set(map(self.instance.broker_of, target.queues)))
        outgoing = self.prepared(
            target, message, half_properties(self.sender.group), TRANSACTION_PREPARED
        )
        fixed = self.fixed_queue(target, message, None, None, None)
        return await self.sender.deliver(
            target, outgoing, message, timeout_s=timeout_s, fixed=fixed, began_ms=began_ms
        )

    async def end(self, message: Message, sent: SendResult, state: TransactionState) -> None:
        """Sends the broker of a half message its end state; a failure is logged only.

        Args:
            message: The message.
            sent: What `send_half` gave.
            state: What became of the work.
        """
        topic = self.instance.full_name(message.topic)
        fields = end_fields(sent, topic=topic, group=self.sender.group, state=state)
        try:
            address = self.instance.address_of(self.instance.broker_of(sent.queue))
            if address is None:
                name = sent.queue.broker_name
                raise ConnectError(f"broker {name} has no master now", address=name)
            await self.instance.oneway(address, RequestCode.END_TRANSACTION, fields)
        except RemotingError as error:
            # The broker asks back: nothing is lost but time.
            _log.warning("the end of transaction %s: %s", sent.message_id, error.message)
            return
        if sent.is_trace_on:
            ended = _Ended(
                sent.region_id, message, sent.message_id, sent.transaction_id, address, state
            )
            self._trace_end(ended)

    def _trace_end(self, ended: "_Ended", *, is_from_check: bool = False) -> None:
        if self.tracer is None:
            return
        message = ended.message
        line = end_transaction_line(
            now_ms=wall_ms(),
            region_id=ended.region_id,
            group=self.group,
            topic=message.topic,
            message_id=ended.message_id,
            tags=message.tags,
            keys=" ".join(message.keys) or None,
            address=ended.address,
            transaction_id=ended.transaction_id,
            state=ended.state.value,
            is_from_check=is_from_check,
        )
        self.tracer.append(line, (ended.message_id, *message.keys))

    def _make_part(self) -> ProducerPart:
        handlers = {int(RequestCode.CHECK_TRANSACTION_STATE): self._checked}
        return ProducerPart(self.sender, handlers)

    async def _checked(self, request: Request) -> Answer:
        """Serves a broker that asks what became of a transaction."""
        record = decode_records(request.body)[0]
        message = received_of(
            record,
            request.ext.get("bname", ""),
            topic=self.instance.short_name(record.topic),
        )
        if self._check_callback is None:
            _log.warning(
                "%s asks what became of %s, and producer %s has no check callback: set `check`",
                request.link.peer,
                message.message_id,
                self.group,
            )
            return None
        try:
            state = await decide(self._check_callback, message)
        except Exception:
            _log.exception("the check callback failed for %s", message.message_id)
            state = TransactionState.UNKNOWN
        fields = checked_fields(request, message, group=self.sender.group, state=state)
        try:
            await request.link.oneway(RequestCode.END_TRANSACTION, fields)
        except RemotingError as error:
            # Whoever is master next asks again.
            _log.info("%s: what became of it was not sent: %s", message.message_id, error)
            return None
        if message.properties.get(TRACE_ON) != "false":
            # Brokers of 4.9 leave it out (`MixAll.DEFAULT_TRACE_REGION_ID`).
            region = message.properties.get(MSG_REGION) or "DefaultRegion"
            transaction_id = request.ext.get("transactionId") or message.message_id
            ended = _Ended(
                region, message, message.message_id, transaction_id, request.link.peer, state
            )
            self._trace_end(ended, is_from_check=True)
        return None
