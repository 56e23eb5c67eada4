"""The asyncio push consumer as users see it: topics to a handler, as one member of a group.

After `DefaultMQPushConsumer`. What runs is `push_engine`'s.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack, overload

from mqcore.client.consumer import Consumer
from mqcore.client.consumer_settings import PushConsumerSettings
from mqcore.client.handlers import BatchHandler, Handler, check_handler
from mqcore.client.joining import ConsumerJoin, taken
from mqcore.client.option import check_explicit, shows_options
from mqcore.client.options import PushConsumerOptions
from mqcore.client.push_engine import PushEngine
from mqcore.client.results import QueueRef
from mqcore.client.stop_signals import stop_at_signals
from mqcore.client.subscribing import Expression, Subscriptions, Topics
from mqcore.model.subscriptions import ALL
from mqcore.model.topics import RETRY_PREFIX

__all__ = ["PushConsumer"]

_log = logging.getLogger(__name__)


class PushConsumer(Consumer[PushEngine]):
    """Consumes topics as one member of a group.

    The handler gets a message, or a list with `batch=`. A coroutine function runs on the event
    loop, any other callable in threads. Returning None or True means done; `Retry(delay=...)`,
    False and exceptions mean once more; `Reject()` means the dead-letter queue. Every message is
    consumed at least once: a crash, a rebalance or a lost answer may bring one twice.

    Attributes:
        group: Its group, as the user calls it.
        settings: How it consumes.
    """

    @overload
    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        group: str,
        handler: Handler,
        topics: Topics = (),
        batch: None = None,
        settings: None = None,
        **options: Unpack[PushConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        group: str,
        handler: BatchHandler,
        topics: Topics = (),
        batch: int,
        settings: PushConsumerSettings | None = None,
        **options: Unpack[PushConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        group: str,
        handler: Handler | BatchHandler,
        topics: Topics = (),
        batch: int | None = None,
        settings: PushConsumerSettings,
        **options: Unpack[PushConsumerOptions],
    ) -> None: ...

    @shows_options(ConsumerJoin, PushConsumerSettings)
    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        group: str,
        handler: Handler | BatchHandler,
        topics: Topics = (),
        batch: int | None = None,
        settings: PushConsumerSettings | None = None,
        **options: Unpack[PushConsumerOptions],
    ) -> None:
        """Prepares; `start` begins.

        Args:
            namesrv: Name servers: `host:port`, several with `;` between, or a sequence; those of
                the environment when not given.
            group: Its group.
            handler: What gets the messages: one, or with `batch` a list.
            topics: What is consumed: names, or names with expressions (`{"orders": "a || b"}`).
            batch: Messages of one call: the handler gets a list of so many at the most.
            settings: How it consumes; options change it.
            options: What is not as usual: `docs/client-options.md` has all of them.

        Raises:
            UsageError: An option or the group's name cannot work, or the handler cannot be called.
            AddressError: A name server's address is none.
        """
        check_explicit(group=(group, str), settings=(settings, PushConsumerSettings | None))
        if batch is not None:
            settings = replace(settings or PushConsumerSettings(), batch=batch)
        join, self.settings = taken(
            options, "a push consumer", ConsumerJoin, settings or PushConsumerSettings()
        )
        check_handler(handler, is_batch=self.settings.batch is not None)
        super().__init__(namesrv, group, join, timeout_s=self.settings.consume_timeout_s)
        full_group = self._instance.full_name(group)
        subscriptions = Subscriptions(
            self._instance.full_name,
            retry_topic=None if self.settings.broadcast else RETRY_PREFIX + full_group,
        )
        subscriptions.add_all(topics)
        called = self._hooks.around(handler, is_single=self.settings.batch is None)
        self._engine = PushEngine(
            self._instance,
            full_group,
            called,
            self.settings,
            subscriptions,
            join.on_rebalance,
            join.now_ms,
        )
        self._closed: asyncio.Event | None = None
        self._stop_wanted = asyncio.Event()

    # Life.

    async def close(self) -> None:
        """Stops pulling, lets handlers finish that run, saves offsets, and leaves the group.

        Handlers get `drain_s`; a message whose handler takes longer comes again, to another
        member. Who closes again waits for the same end.
        """
        await super().close()

    async def _begin(self) -> None:
        # A topic that is not there yet is waited for; the log reports it.
        self._closed = asyncio.Event()
        if all(topic.startswith(RETRY_PREFIX) for topic in self._engine.subscriptions.topics):
            _log.warning(
                "consumer %s: no topic is subscribed: nothing is consumed until subscribe() is "
                "called; topics= subscribes from the start",
                self.group,
            )
        await self._engine.start()

    async def _close(self) -> None:
        try:
            await super()._close()
        finally:
            if self._closed is not None:
                self._closed.set()

    async def until_closed(self) -> None:
        """Returns when the consumer was closed: for programs that do nothing else.

        Raises:
            UsageError: It was not started.
        """
        self._check_started()
        assert self._closed is not None
        await self._closed.wait()

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until the consumer is closed; returns whether it is.

        SIGTERM and SIGINT close it, where the application serves them not itself and this is the
        main thread: handlers get `drain_s`, offsets are saved, the group is left.

        Args:
            timeout_s: For how long at the most; None for ever.

        Raises:
            UsageError: It was not started.
        """
        loop = asyncio.get_running_loop()
        stop = partial(loop.call_soon_threadsafe, self.stop_soon)
        with stop_at_signals(stop, takes_all=False):
            return await self.until_stopped(timeout_s)

    async def run(self) -> None:
        """Consumes until SIGTERM or SIGINT, or until the consumer is closed; then closes it.

        It is started where it is not. Handlers that run get `drain_s`, offsets are saved, the group
        is left. Signals are taken in the main thread only, and served as before afterwards; a
        second SIGINT interrupts.

        Raises:
            ClosedError: It was closed.
            MQError: Whatever `start` raises.
        """
        loop = asyncio.get_running_loop()
        stop = partial(loop.call_soon_threadsafe, self.stop_soon)
        with stop_at_signals(stop, takes_all=True):
            await self.run_until_stopped()

    def stop_soon(self) -> None:
        """Ends `run` and `wait` as a signal does. Belongs to the event loop."""
        self._stop_wanted.set()

    async def run_until_stopped(self) -> None:
        """Is `run`, with signals left alone: `stop_soon` ends it."""
        try:
            if await self._unless_stopped(self.start()) and not self.is_closed:
                await self._unless_stopped(self.until_closed())
        finally:
            await self.close()

    async def until_stopped(self, timeout_s: float | None) -> bool:
        """Is `wait`, with signals left alone: `stop_soon` closes the consumer."""
        self._check_started()
        if self._closed is not None and self._closed.is_set():
            return True
        try:
            async with asyncio.timeout(timeout_s):
                if await self._unless_stopped(self.until_closed()):
                    return True
        except TimeoutError:
            return False
        await self.close()
        return True

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Does work until it ends or `stop_soon` is called; returns whether it ended first."""
        loop = asyncio.get_running_loop()
        doing = loop.create_task(work)
        stopping = loop.create_task(self._stop_wanted.wait())
        try:
            await asyncio.wait((doing, stopping), return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                # Whoever closes it while it starts ends the start.
                if not (doing.cancelled() and self.is_closed):
                    doing.result()
                return True
            _log.info("consumer %s: ends as a signal wants it", self.group)
            return False
        finally:
            doing.cancel()
            stopping.cancel()
            await asyncio.gather(doing, stopping, return_exceptions=True)

    # What is consumed.

    async def subscribe(self, topic: str, expression: Expression = ALL) -> None:
        """Consumes a topic, too, or with another expression.

        Args:
            topic: The topic.
            expression: Tags (`a || b`, `Tags(...)`), or `Sql(...)`.

        Raises:
            UsageError: The topic's name is illegal, or the expression is none.
            ResponseError: A broker cannot filter by the expression.
            ClosedError: The consumer was closed.
        """
        self._check_open()
        data = self._engine.subscriptions.add(topic, expression)
        if self._is_started:
            await self._engine.subscriptions_changed(data.topic)

    async def unsubscribe(self, topic: str) -> None:
        """Consumes a topic no more; its offsets are saved.

        Raises:
            ClosedError: The consumer was closed.
        """
        self._check_open()
        self._engine.subscriptions.remove(topic)
        if self._is_started:
            await self._engine.subscriptions_changed(topic)

    def pause(self) -> None:
        """Pulls nothing until `resume`; what was pulled is consumed."""
        self._engine.is_paused = True

    def resume(self) -> None:
        """Pulls again."""
        self._engine.is_paused = False
        self._engine.wake_pulls()

    @property
    def queues(self) -> tuple[QueueRef, ...]:
        """The queues that are ours now, without those of the group's own retry topic."""
        return tuple(
            self._short(queue)
            for queue in sorted(self._engine.assignment.held)
            if not queue.topic.startswith(RETRY_PREFIX)
        )

    async def commit(self) -> None:
        """Saves offsets now; it is done every `persist_interval_s` by itself.

        Raises:
            UsageError: The consumer was not started.
        """
        self._check_started()
        await self._engine.progress.persist()
