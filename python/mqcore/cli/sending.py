"""Sends many messages in batches, in their order per queue; counts them, shows how far it is.

Knows nothing of where they come from.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from mqcore.client.batches import batch_fault
from mqcore.client.message import Message
from mqcore.client.producer import Producer
from mqcore.client.results import SendResult
from mqcore.clock import monotonic_ms
from mqcore.errors import MQError, TooBusyError

if TYPE_CHECKING:
    from mqcore.client.gathering import Ticket

__all__ = ["Sending"]

# Batches that wait for their answer: enough for every queue, little in memory.
_BATCHES_MAX = 128
_MS_PER_S = 1_000
# A person sees no more than ten changes a second.
_SHOW_INTERVAL_MS = 100


class Sending:
    """A producer with a bound of batches in flight; the first failure ends it.

    Attributes:
        sent: Messages that are acknowledged.
        given: Messages that were given to it.
    """

    def __init__(
        self, producer: Producer, *, is_shown: bool, on_sent: Callable[[SendResult], None] | None
    ) -> None:
        """Prepares.

        Args:
            producer: Sends.
            is_shown: Whether to show progress on standard error.
            on_sent: Is called with every acknowledged message.
        """
        self.sent = 0
        self.given = 0
        self._producer = producer
        self._on_sent = on_sent
        # Each batch with how many messages were put into it, oldest first.
        self._batches: dict[Ticket, int] = {}
        self._error: MQError | None = None
        self._is_ending = False
        self._given = asyncio.Event()
        self._settled = asyncio.Event()
        self._settling: asyncio.Task[None] | None = None
        self._began_ms = monotonic_ms()
        self._shown_ms = 0
        self._is_shown = is_shown

    async def __aenter__(self) -> Self:
        """Returns itself."""
        self._settling = asyncio.get_running_loop().create_task(self._settle_all())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Waits for what is in flight.

        Raises:
            MQError: A message was not acknowledged.
        """
        self._is_ending = True
        self._given.set()
        if self._settling is not None:
            await self._settling
        if self._is_shown:
            self._show(" " * len(self.summary))
        if error is None:
            self._check()

    async def send(self, message: Message) -> None:
        """Gives a message to the next batch; waits where too many are in flight.

        Raises:
            MQError: An earlier one was not acknowledged.
        """
        self._check()
        self.given += 1
        if batch_fault(message) is not None:
            self._acknowledged(await self._producer.send(message))
            return
        try:
            ticket = self._producer.send_soon(message)
        except TooBusyError:
            await self._producer.flush()
            ticket = self._producer.send_soon(message)
        self._batches[ticket] = self._batches.get(ticket, 0) + 1
        self._given.set()
        while len(self._batches) > _BATCHES_MAX:
            self._settled.clear()
            await self._settled.wait()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    async def _settle_all(self) -> None:
        """Takes the answers as they come, oldest batch first."""
        while self._batches or not self._is_ending:
            if not self._batches:
                self._given.clear()
                await self._given.wait()
                continue
            ticket = next(iter(self._batches))
            try:
                await ticket
                # Nothing is put into a batch that is answered.
                for index in range(self._batches[ticket]):
                    self._acknowledged(ticket.part(index) if self._on_sent else None)
            except MQError as error:
                self._error = self._error or error
            del self._batches[ticket]
            self._settled.set()

    def _acknowledged(self, result: SendResult | None) -> None:
        self.sent += 1
        if self._on_sent is not None and result is not None:
            self._on_sent(result)
        if self._is_shown and monotonic_ms() - self._shown_ms >= _SHOW_INTERVAL_MS:
            self._show(self.summary)

    @property
    def summary(self) -> str:
        """How many were sent, and how fast."""
        passed_s = max(1, monotonic_ms() - self._began_ms) / _MS_PER_S
        noun = "message" if self.sent == 1 else "messages"
        return f"{self.sent:,} {noun} sent, {self.sent / passed_s:,.0f}/s"

    def _show(self, text: str) -> None:
        from mqcore.cli.tables import console

        self._shown_ms = monotonic_ms()
        console(stderr=True).print(text, end="\r")
