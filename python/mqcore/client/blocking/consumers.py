"""The synchronous consumers: the asyncio ones on the loop's thread, under the same names.

A plain handler runs in threads of its consumer, a coroutine function on the loop of the client.
Safe from any number of threads, but for the polls of one consumer.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Generic, Self, TypeVar, Unpack, overload

from mqcore.client.blocking.loop_thread import LoopThread, loop_thread
from mqcore.client.consumer_settings import PullConsumerSettings, PushConsumerSettings
from mqcore.client.handlers import BatchHandler, Handler
from mqcore.client.joining import ConsumerJoin
from mqcore.client.message import ReceivedMessage
from mqcore.client.option import shows_options
from mqcore.client.options import PullConsumerOptions, PushConsumerOptions
from mqcore.client.pull_consumer import PullConsumer as AsyncPullConsumer
from mqcore.client.push_consumer import PushConsumer as AsyncPushConsumer
from mqcore.client.results import QueueRef
from mqcore.client.stop_signals import stop_at_signals
from mqcore.client.subscribing import Expression, Topics
from mqcore.errors import MQError
from mqcore.model.subscriptions import ALL

__all__ = ["PullConsumer", "PushConsumer"]

_CoreT = TypeVar("_CoreT", AsyncPushConsumer, AsyncPullConsumer)
_T = TypeVar("_T")


class _Consumer(Generic[_CoreT]):
    """What both consumers share: a core on the loop's thread, started and closed from here."""

    def __init__(self, make: Callable[[], _CoreT]) -> None:
        self._thread: LoopThread = loop_thread()
        self._core: _CoreT = self._thread.run(lambda: _called(make))

    def __repr__(self) -> str:
        """Returns its group, topics, name servers and state."""
        return repr(self._core)

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
        return self._core.group

    @property
    def client_id(self) -> str:
        """Who brokers and tools know this member as."""
        return self._core.client_id

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or is being closed."""
        return self._core.is_closed

    @property
    def queues(self) -> tuple[QueueRef, ...]:
        """The queues that are ours now."""
        return self._thread.run(lambda: _called(lambda: self._core.queues))

    def start(self, *, timeout_s: float | None = None) -> None:
        """Joins the group and begins to consume. Starting again does nothing.

        Args:
            timeout_s: For how long to wait for a name server. When not given, a name server, broker
                or topic that is not there is waited for in the background; the log reports it.

        Raises:
            ClosedError: It was closed.
            UsageError: Its client has such a consumer already.
            ResponseError: A broker cannot filter by an expression.
            NameServerError: None answered within `timeout_s`; it may be started again.
        """
        # First: who is interrupted while it starts must not stay in the group.
        self._thread.close_at_exit(self, self._core.close)
        try:
            self._thread.run(lambda: self._core.start(timeout_s=timeout_s))
        except MQError:
            self._thread.forget(self)
            raise

    def close(self) -> None:
        """Saves offsets and leaves the group. Closing again does nothing."""
        self._thread.forget(self)
        self._thread.run(self._core.close)

    def subscribe(self, topic: str, expression: Expression = ALL) -> None:
        """Consumes a topic, too, or with another expression.

        Args:
            topic: The topic.
            expression: Tags (`a || b`, `Tags(...)`), or `Sql(...)`.

        Raises:
            UsageError: The topic's name is illegal, or the expression is none.
            ResponseError: A broker cannot filter by the expression.
            ClosedError: The consumer was closed.
        """
        self._thread.run(lambda: self._core.subscribe(topic, expression))

    def unsubscribe(self, topic: str) -> None:
        """Consumes a topic no more; its offsets are saved.

        Raises:
            ClosedError: The consumer was closed.
        """
        self._thread.run(lambda: self._core.unsubscribe(topic))


class PushConsumer(_Consumer[AsyncPushConsumer]):
    """Consumes topics as one member of a group: `mqcore.aio.PushConsumer` without `await`.

    The handler gets a message, or a list with `batch=`, in a thread of the consumer. Returning None
    or True means done; `Retry(delay=...)`, False and exceptions mean once more; `Reject()` means
    the dead-letter queue. Every message is consumed at least once.

        with mqcore.PushConsumer("127.0.0.1:9876", group="g", handler=print, topics="orders") as c:
            c.wait()
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
            UsageError: An option or the group's name cannot work, or the handler cannot be called,
                or this thread runs an event loop.
            AddressError: A name server's address is none.
        """
        make: Callable[..., AsyncPushConsumer] = AsyncPushConsumer
        super().__init__(
            lambda: make(
                namesrv,
                group=group,
                handler=handler,
                topics=topics,
                batch=batch,
                settings=settings,
                **options,
            )
        )

    @property
    def settings(self) -> PushConsumerSettings:
        """How it consumes."""
        return self._core.settings

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until the consumer is closed; returns whether it is.

        SIGTERM and SIGINT close it, where the application serves them not itself and this is the
        main thread: handlers get `drain_s`, offsets are saved, the group is left.

        Args:
            timeout_s: For how long at the most; None for ever.

        Raises:
            UsageError: It was not started.
        """
        with stop_at_signals(self._stop_soon, takes_all=False):
            return self._thread.run(lambda: self._core.until_stopped(timeout_s))

    def run(self) -> None:
        """Consumes until SIGTERM or SIGINT, or until the consumer is closed; then closes it.

        It is started where it is not. Handlers that run get `drain_s`, offsets are saved, the group
        is left. Signals are taken in the main thread only, and served as before afterwards; a
        second SIGINT interrupts.

        Raises:
            ClosedError: It was closed.
            MQError: Whatever `start` raises.
        """
        # Who interrupts it a second time still leaves the group, within the time of an exit.
        self._thread.close_at_exit(self, self._core.close)
        try:
            with stop_at_signals(self._stop_soon, takes_all=True):
                self._thread.run(self._core.run_until_stopped)
        except MQError:
            self._thread.forget(self)
            raise
        self._thread.forget(self)

    def _stop_soon(self) -> None:
        self._thread.soon(self._core.stop_soon)

    def commit(self) -> None:
        """Saves offsets now; it is done every `persist_interval_s` by itself.

        Raises:
            UsageError: The consumer was not started.
        """
        self._thread.run(self._core.commit)

    def pause(self) -> None:
        """Pulls nothing until `resume`; what was pulled is consumed."""
        self._thread.run(lambda: _called(self._core.pause))

    def resume(self) -> None:
        """Pulls again."""
        self._thread.run(lambda: _called(self._core.resume))


class PullConsumer(_Consumer[AsyncPullConsumer]):
    """Polls messages: `mqcore.aio.PullConsumer` without `await`.

        with mqcore.PullConsumer("127.0.0.1:9876", group="g", topics="orders") as consumer:
            for message in consumer:
                ...

    `batches()` yields lists, which is faster, and `poll` returns one. What a poll gave, or an
    iteration yielded, counts as consumed when the next one is asked for; with `auto_commit=False`
    only when it is committed. Closing commits nothing: who stops calls `commit`.
    """

    @shows_options(ConsumerJoin, PullConsumerSettings)
    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        group: str,
        topics: Topics = (),
        settings: PullConsumerSettings | None = None,
        **options: Unpack[PullConsumerOptions],
    ) -> None:
        """Prepares; `start` begins.

        Args:
            namesrv: Name servers: `host:port`, several with `;` between, or a sequence; those of
                the environment when not given.
            group: Its group.
            topics: What is consumed: names, or names with expressions (`{"orders": "a || b"}`).
            settings: How it consumes; options change it.
            options: What is not as usual: `docs/client-options.md` has all of them.

        Raises:
            UsageError: An option or the group's name cannot work, or this thread runs an event
                loop.
            AddressError: A name server's address is none.
        """
        super().__init__(
            lambda: AsyncPullConsumer(
                namesrv, group=group, topics=topics, settings=settings, **options
            )
        )

    @property
    def settings(self) -> PullConsumerSettings:
        """How it consumes."""
        return self._core.settings

    def poll(
        self, timeout_s: float | None = 5.0, *, max_count: int | None = None
    ) -> list[ReceivedMessage]:
        """Returns the next messages, all of one queue, in its order; an empty list after the time.

        Args:
            timeout_s: How long to wait for the first one; None for ever.
            max_count: How many at the most; `poll_count` when not given.

        Raises:
            ClosedError: The consumer was closed.
            UsageError: Another poll waits already.
        """
        return self._thread.run(lambda: self._core.poll(timeout_s, max_count=max_count))

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Yields messages until the consumer is closed; each counts as polled when it comes."""
        while not self._core.is_closed:
            yield from self.poll(None, max_count=1)

    def batches(self, *, max_count: int | None = None) -> Iterator[list[ReceivedMessage]]:
        """Yields batches until the consumer is closed, each of one queue, in its order.

        Args:
            max_count: Messages of one batch at the most; `poll_count` when not given.

        Raises:
            UsageError: Another poll waits already.
        """
        while not self._core.is_closed:
            batch = self.poll(None, max_count=max_count)
            if batch:
                yield batch

    def assign(self, queues: Iterable[QueueRef]) -> None:
        """Consumes these queues and no others, whoever else does; replaces what was assigned.

        Raises:
            UsageError: Topics were subscribed.
        """
        self._thread.run(lambda: self._core.assign(queues))

    def topic_queues(self, topic: str) -> list[QueueRef]:
        """Returns all queues of a topic that are read.

        Raises:
            NoRouteError: No broker has the topic.
        """
        return self._thread.run(lambda: self._core.topic_queues(topic))

    def seek(self, queue: QueueRef, offset: int) -> None:
        """Goes on at an offset; what was pulled of the queue is forgotten.

        Args:
            queue: The queue; one that is not ours yet begins there when it is.
            offset: The queue offset of the next message.
        """
        self._thread.run(lambda: _called(lambda: self._core.seek(queue, offset)))

    def seek_time(self, queue: QueueRef, moment: float | datetime) -> int:
        """Goes on at the first message stored at a time or later; returns its queue offset.

        Args:
            queue: The queue.
            moment: Seconds since 1970, or a `datetime`.

        Raises:
            RemotingError: The broker did not answer; nothing changed.
        """
        return self._thread.run(lambda: self._core.seek_time(queue, moment))

    def seek_begin(self, queue: QueueRef) -> int:
        """Goes on at the oldest message; returns its queue offset."""
        return self._thread.run(lambda: self._core.seek_begin(queue))

    def seek_end(self, queue: QueueRef) -> int:
        """Goes on behind the newest message; returns the queue offset of the next one."""
        return self._thread.run(lambda: self._core.seek_end(queue))

    def position(self, queue: QueueRef) -> int | None:
        """Returns the queue offset that is polled next; None for a queue that is not ours."""
        return self._thread.run(lambda: _called(lambda: self._core.position(queue)))

    def bounds(self, queue: QueueRef) -> tuple[int, int]:
        """Returns the queue offsets of the oldest message and behind the newest one.

        Raises:
            RemotingError: The broker did not answer.
        """
        return self._thread.run(lambda: self._core.bounds(queue))

    def committed(self, queue: QueueRef) -> int | None:
        """Returns the offset that the group saved; None where it never did."""
        return self._thread.run(lambda: self._core.committed(queue))

    def commit(self, offsets: Mapping[QueueRef, int] | None = None) -> None:
        """Saves how far it has come; returns when the brokers know it.

        Args:
            offsets: Offsets to save; everything that was polled when not given.

        Raises:
            UsageError: A queue is not ours.
            RemotingError: A broker did not acknowledge it; commit again.
        """
        self._thread.run(lambda: self._core.commit(offsets))

    def pause(self, queues: Iterable[QueueRef] | None = None) -> None:
        """Gives nothing of some queues, or of all that are ours, until `resume`."""
        self._thread.run(lambda: _called(lambda: self._core.pause(queues)))

    def resume(self, queues: Iterable[QueueRef] | None = None) -> None:
        """Gives messages again of some queues, or of all."""
        self._thread.run(lambda: _called(lambda: self._core.resume(queues)))


async def _called(call: Callable[[], _T]) -> _T:
    """Calls on the loop's thread."""
    return call()
