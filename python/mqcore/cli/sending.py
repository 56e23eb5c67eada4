"""Sends many messages at once, in their order per queue; counts them, shows how far it is.

Knows nothing of where they come from.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from mqcore.client.message import Message
from mqcore.client.producer import Producer
from mqcore.client.results import SendResult
from mqcore.clock import monotonic_ms
from mqcore.errors import MQError

__all__ = ["Sending"]

# Messages that wait for their answer: enough for full batches, little in memory.
_IN_FLIGHT_MAX = 1_024
_MS_PER_S = 1_000
# A person sees no more than ten changes a second.
_SHOW_INTERVAL_MS = 100


class Sending:
    """A producer with a bound of messages in flight; the first failure ends it.

    Attributes:
        sent: Messages that are acknowledged.
        given: Messages that were given to it.
    """

    def __init__(
        self, producer: Producer, *, is_shown: bool, tell: Callable[[SendResult], None]
    ) -> None:
        """Prepares.

        Args:
            producer: Sends.
            is_shown: Whether to show progress on standard error.
            tell: Hears of every acknowledged message.
        """
        self.sent = 0
        self.given = 0
        self._producer = producer
        self._tell = tell
        self._gate = asyncio.Semaphore(_IN_FLIGHT_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._error: MQError | None = None
        self._began_ms = monotonic_ms()
        self._shown_ms = 0
        self._is_shown = is_shown

    async def __aenter__(self) -> Self:
        """Returns itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Waits for what is in flight, and raises the first failure."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._is_shown:
            from mqcore.cli.tables import console

            console(stderr=True).print(" " * len(self.summary), end="\r")
        if error is None and self._error is not None:
            raise self._error

    async def send(self, message: Message) -> None:
        """Gives a message to the producer; waits where too many are in flight.

        Raises:
            MQError: An earlier one was not acknowledged.
        """
        await self._gate.acquire()
        if self._error is not None:
            self._gate.release()
            raise self._error
        self.given += 1
        task = asyncio.get_running_loop().create_task(self._send(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, message: Message) -> None:
        try:
            result = await self._producer.send(message)
        except MQError as error:
            self._error = self._error or error
        else:
            self.sent += 1
            self._tell(result)
            self._show()
        finally:
            self._gate.release()

    @property
    def summary(self) -> str:
        """How many were sent, and how fast."""
        passed_s = max(1, monotonic_ms() - self._began_ms) / _MS_PER_S
        return f"{self.sent:,} messages sent, {self.sent / passed_s:,.0f}/s"

    def _show(self) -> None:
        if not self._is_shown or monotonic_ms() - self._shown_ms < _SHOW_INTERVAL_MS:
            return
        from mqcore.cli.tables import console

        self._shown_ms = monotonic_ms()
        console(stderr=True).print(self.summary, end="\r")
