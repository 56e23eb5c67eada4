"""What a consumer group received, for a test to take and look at.

    with Inbox(broker.namesrv, "orders") as inbox:
        ...
        first, second = inbox.take(2)

A push consumer on a loop of its own collects; `take` waits with a deadline. `AsyncInbox` has the
same names with `await`.
"""

import asyncio
import threading
import time
from collections import deque
from itertools import count
from types import TracebackType
from typing import Protocol, Self, Unpack

from mqcore.client.consumer_settings import PushConsumerSettings
from mqcore.client.joining import ConsumerJoin
from mqcore.client.message import ReceivedMessage
from mqcore.client.option import shows_options
from mqcore.client.options import PushConsumerOptions
from mqcore.client.push_consumer import PushConsumer
from mqcore.client.starting_offset import ConsumeFrom
from mqcore.client.subscribing import Expression
from mqcore.errors import MQError
from mqcore.model.subscriptions import ALL
from mqcore.testing.loop_thread import LoopThread

__all__ = ["TAKE_TIMEOUT_S", "AsyncInbox", "Inbox", "MakeAsyncInbox", "MakeInbox"]

# Nothing that a test waits for takes longer; a failure is reported then.
TAKE_TIMEOUT_S = 10.0

_numbers = count(1)


class Inbox:
    """The messages that a group receives.

    Attributes:
        group: The group.
        topic: What it consumes.
    """

    @shows_options(ConsumerJoin, PushConsumerSettings)
    def __init__(
        self,
        namesrv: str,
        topic: str,
        *,
        group: str | None = None,
        expression: Expression = ALL,
        **options: Unpack[PushConsumerOptions],
    ) -> None:
        """Prepares; `start`, or the context manager, begins to receive.

        Args:
            namesrv: The name servers, such as `broker.namesrv`.
            topic: What to consume, from its first message on; it must be there.
            group: The group; one of its own when not given.
            expression: Which messages: tags, or `Sql(...)`.
            options: Those of `PushConsumer`; it begins at the first message where they do not
                set `consume_from`.
        """
        self.topic = topic
        self.group = group or f"inbox-{next(_numbers)}"
        self._came: deque[ReceivedMessage] = deque()
        self._all: list[ReceivedMessage] = []
        self._news = threading.Condition()
        self._thread = LoopThread(f"mqcore-inbox-{self.group}.")
        options.setdefault("consume_from", ConsumeFrom.FIRST_OFFSET)
        options.setdefault("hand_over_s", 0.0)
        self._options = options
        self._namesrv = namesrv
        self._expression = expression
        self._consumer: PushConsumer | None = None

    def __enter__(self) -> Self:
        """Begins to receive."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leaves the group."""
        self.close()

    def start(self) -> Self:
        """Joins the group and begins to receive; returns itself.

        Raises:
            MQError: The group cannot be joined.
        """
        try:
            self._thread.run(self._start())
        except BaseException:
            self.close()
            raise
        return self

    async def _start(self) -> None:
        self._consumer = PushConsumer(
            self._namesrv,
            group=self.group,
            topics={self.topic: self._expression},
            handler=self._receive,
            **self._options,
        )
        await self._consumer.start()

    async def _receive(self, message: ReceivedMessage) -> None:
        with self._news:
            self._came.append(message)
            self._all.append(message)
            self._news.notify_all()

    @property
    def messages(self) -> list[ReceivedMessage]:
        """Everything that was received, taken or not, in the order in which it came."""
        with self._news:
            return list(self._all)

    def take(self, count: int = 1, *, timeout_s: float = TAKE_TIMEOUT_S) -> list[ReceivedMessage]:
        """Returns the next messages, in the order in which they came; waits for them.

        A test on an event loop calls it with `asyncio.to_thread`.

        Args:
            count: How many.
            timeout_s: How long to wait for all of them.

        Raises:
            MQError: Fewer came; they are still to be taken.
        """
        last_s = time.monotonic() + timeout_s
        with self._news:
            while len(self._came) < count:
                if not self._news.wait(max(0.0, last_s - time.monotonic())):
                    raise MQError(
                        f"topic {self.topic}, group {self.group}: {len(self._came)} of {count} "
                        f"messages came within {timeout_s:g} s"
                    )
            return [self._came.popleft() for _ in range(count)]

    def close(self) -> None:
        """Leaves the group; closing again does nothing."""
        if self._thread.is_closed:
            return
        try:
            if self._consumer is not None:
                self._thread.run(self._consumer.close())
        finally:
            self._thread.close()


class AsyncInbox:
    """An inbox whose methods are awaited; the caller's loop goes on while it waits.

    Attributes:
        group: The group.
        topic: What it consumes.
    """

    def __init__(self, inbox: Inbox) -> None:
        """Takes the inbox under it."""
        self.group, self.topic = inbox.group, inbox.topic
        self._inbox = inbox

    async def __aenter__(self) -> Self:
        """Begins to receive."""
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leaves the group."""
        await self.close()

    async def start(self) -> Self:
        """See `Inbox.start`."""
        await asyncio.to_thread(self._inbox.start)
        return self

    async def close(self) -> None:
        """See `Inbox.close`."""
        await asyncio.to_thread(self._inbox.close)

    @property
    def messages(self) -> list[ReceivedMessage]:
        """Everything that was received, taken or not, in the order in which it came."""
        return self._inbox.messages

    async def take(
        self, count: int = 1, *, timeout_s: float = TAKE_TIMEOUT_S
    ) -> list[ReceivedMessage]:
        """See `Inbox.take`."""
        return await asyncio.to_thread(self._inbox.take, count, timeout_s=timeout_s)


class MakeInbox(Protocol):
    """The fixture `mqcore_consumer`; makes an inbox at the test's broker, with its topic."""

    def __call__(
        self,
        topic: str,
        *,
        group: str | None = None,
        expression: Expression = ALL,
        **options: Unpack[PushConsumerOptions],
    ) -> Inbox:
        """Returns an inbox that receives until the test ends; arguments are those of `Inbox`."""
        ...


class MakeAsyncInbox(Protocol):
    """The fixture `mqcore_aio_consumer`; makes an inbox whose methods are awaited."""

    async def __call__(
        self,
        topic: str,
        *,
        group: str | None = None,
        expression: Expression = ALL,
        **options: Unpack[PushConsumerOptions],
    ) -> AsyncInbox:
        """Returns an inbox that receives until the test ends; arguments are those of `Inbox`."""
        ...
