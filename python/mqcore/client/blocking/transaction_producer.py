"""The synchronous producer of transactions: the names of `mqcore.aio.TransactionProducer`."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, Unpack, cast, overload

from mqcore.client.blocking.producer import Producer
from mqcore.client.joining import ProducerJoin
from mqcore.client.message import Message
from mqcore.client.option import shows_options
from mqcore.client.options import ProducerOptions
from mqcore.client.producer import DEFAULT_GROUP
from mqcore.client.results import SendResult, SendStatus
from mqcore.client.sending_forms import Body, message_of
from mqcore.client.settings import ProducerSettings
from mqcore.client.transaction_producer import Transaction as AsyncTransaction
from mqcore.client.transaction_producer import TransactionProducer as AsyncTransactionProducer
from mqcore.client.transactions import (
    CheckCallback,
    Decision,
    TransactionResult,
    TransactionState,
    check_work,
    state_of,
)

__all__ = ["Transaction", "TransactionProducer"]

_log = logging.getLogger(__name__)

BlockingWork: TypeAlias = Callable[[Message, Any], Decision]


class Transaction:
    """Half messages that are ended together."""

    def __init__(self, producer: "TransactionProducer", core: AsyncTransaction) -> None:
        """Takes the asyncio transaction under it."""
        self._producer = producer
        self._core = core

    @property
    def state(self) -> TransactionState:
        """The state that was sent to the brokers; UNKNOWN before the end."""
        return self._core.state

    @overload
    def send(self, message: Message, *, timeout_s: float | None = None) -> SendResult: ...
    @overload
    def send(self, topic: str, body: Body, /, *, timeout_s: float | None = None) -> SendResult: ...
    def send(
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
        half = message_of(message, body)
        return self._producer.thread.run(lambda: self._core.send(half, timeout_s=timeout_s))


class TransactionProducer(Producer):
    """A producer whose messages can be tied to work of its own, from any thread."""

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
            namesrv: Name servers: `host:port`, several with `;` between, or a sequence.
            group: Its group, which brokers ask what became of its transactions.
            check: Returns a transaction's state when a broker asks. See also `on_check`.
            settings: How it sends; options change it.
            options: Those of `Producer`.

        Raises:
            UsageError: An option or the group's name cannot work, or this thread runs an event
                loop.
            AddressError: A name server's address is none.
        """
        self._begin(
            lambda: AsyncTransactionProducer(
                namesrv, group=group, check=check, settings=settings, **options
            )
        )

    @property
    def _transactional(self) -> AsyncTransactionProducer:
        return cast(AsyncTransactionProducer, self.core)

    def on_check(self, check: CheckCallback) -> CheckCallback:
        """Sets the check that returns a transaction's state; may be used as a decorator.

        Args:
            check: Gets the message, and returns the state of its transaction.
        """
        return self._transactional.on_check(check)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Commits what is sent within when the block ends; rolls back when it raises.

        A block that `KeyboardInterrupt` or `SystemExit` ends is left open: the broker asks the
        check callback.
        """
        core = AsyncTransaction(self._transactional)
        try:
            yield Transaction(self, core)
        except Exception:
            self.thread.run(lambda: core.end(TransactionState.ROLLBACK))
            raise
        self.thread.run(lambda: core.end(TransactionState.COMMIT))

    def send_in_transaction(
        self,
        message: Message,
        work: BlockingWork,
        argument: Any = None,
        *,
        timeout_s: float | None = None,
    ) -> TransactionResult:
        """Sends a half message, does the local work in this thread, and ends the transaction.

        Args:
            message: The message.
            work: The local work: called with message and argument. True commits, False rolls
                back, None lets the broker ask later; so does an exception, which is logged.
            argument: Given to the work.
            timeout_s: The deadline of the send, in seconds.

        Raises:
            MessageError: It cannot be sent as it is.
            SendError: It was not acknowledged: the work was not done.
            UsageError: The work cannot be called with message and argument; nothing was sent.
        """
        check_work(work)
        core = self._transactional
        sent = self.thread.run(lambda: core.send_half(message, timeout_s=timeout_s))
        state = TransactionState.ROLLBACK
        if sent.status is SendStatus.SEND_OK:
            try:
                state = state_of(work(message, argument))
            except Exception:
                _log.exception("the local work of transaction %s failed", sent.message_id)
                state = TransactionState.UNKNOWN
        self.thread.run(lambda: core.end(message, sent, state))
        return TransactionResult(sent, state)
