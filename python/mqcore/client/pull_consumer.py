"""The asyncio pull consumer as users see it: batches when they ask, positions as they like.

After `DefaultLitePullConsumer`. What runs is `pull_engine`'s.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Unpack

from mqcore.client.consumer import Consumer
from mqcore.client.consumer_settings import PullConsumerSettings
from mqcore.client.joining import ConsumerJoin, taken
from mqcore.client.message import ReceivedMessage
from mqcore.client.option import check_explicit, shows_options
from mqcore.client.options import PullConsumerOptions
from mqcore.client.pull_engine import PullEngine
from mqcore.client.results import QueueRef
from mqcore.client.subscribing import Expression, Subscriptions, Topics
from mqcore.errors import RemotingError, UsageError
from mqcore.model.subscriptions import ALL

__all__ = ["PullConsumer"]

_log = logging.getLogger(__name__)

_MS_PER_S: Final = 1000
# The end of the year 9999: what is later was meant as ms.
_LAST_MOMENT_S: Final = 253_402_300_799


class PullConsumer(Consumer[PullEngine]):
    """Polls messages, as a member of a group (`subscribe`) or of chosen queues (`assign`).

        async with aio.PullConsumer("127.0.0.1:9876", group="g", topics="orders") as consumer:
            async for message in consumer:
                ...

    `batches()` yields lists, which is faster, and `poll` returns one. What a poll gave, or an
    iteration yielded, counts as consumed when the next one is asked for, and is saved every
    `persist_interval_s`; with `auto_commit=False` only `commit` does either. Who stops after a
    message or batch that is done calls `commit`: closing does not, and it comes again. Every
    message comes at least once.

    Attributes:
        group: Its group, as the user calls it.
        settings: How it consumes.
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
            UsageError: An option or the group's name cannot work.
            AddressError: A name server's address is none.
        """
        check_explicit(group=(group, str), settings=(settings, PullConsumerSettings | None))
        join, self.settings = taken(
            options, "a pull consumer", ConsumerJoin, settings or PullConsumerSettings()
        )
        # A poll has no handler that takes too long.
        super().__init__(namesrv, group, join, timeout_s=0)
        subscriptions = Subscriptions(self._instance.full_name, retry_topic=None)
        subscriptions.add_all(topics)
        self._engine = PullEngine(
            self._instance,
            self._instance.full_name(group),
            self.settings,
            subscriptions,
            join.on_rebalance,
            join.now_ms,
        )
        self._is_polling = False
        self._was_polled = False

    # Life.

    async def close(self) -> None:
        """Saves offsets and leaves the group; polls that wait end.

        What the last poll gave is not committed by closing: it comes again, unless it was
        committed. Who closes again waits for the same end.
        """
        await super().close()

    async def _begin(self) -> None:
        await self._engine.join()

    # Polling.

    async def poll(
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
        self._check_usable()
        count_max = self.settings.poll_count if max_count is None else max_count
        if count_max < 1:
            raise UsageError(f"max_count: {max_count!r} is below 1")
        if self._is_polling:
            raise UsageError("another poll of this consumer waits already: poll in one task")
        if not self._was_polled:
            self._was_polled = True
            self._warn_of_nothing()
        self._is_polling = True
        try:
            found = await self._engine.poll(timeout_s, count_max)
        finally:
            self._is_polling = False
        if found:
            self._hooks.polled(found)
        return found

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Yields messages until the consumer is closed; each counts as polled when it comes."""
        while self._closing is None:
            for message in await self.poll(None, max_count=1):
                yield message

    async def batches(
        self, *, max_count: int | None = None
    ) -> AsyncIterator[list[ReceivedMessage]]:
        """Yields batches until the consumer is closed, each of one queue, in its order.

        Args:
            max_count: Messages of one batch at the most; `poll_count` when not given.

        Raises:
            UsageError: Another poll waits already.
        """
        while self._closing is None:
            batch = await self.poll(None, max_count=max_count)
            if batch:
                yield batch

    # What is consumed.

    async def subscribe(self, topic: str, expression: Expression = ALL) -> None:
        """Consumes a topic, too, or with another expression, as a member of the group.

        Args:
            topic: The topic.
            expression: Tags (`a || b`, `Tags(...)`), or `Sql(...)`.

        Raises:
            UsageError: The topic's name is illegal, the expression is none, or queues were
                assigned.
            ResponseError: A broker cannot filter by the expression.
        """
        self._check_usable()
        if self._engine.subscriptions.assigned is not None:
            raise UsageError("queues were assigned: a consumer either subscribes or is assigned")
        data = self._engine.subscriptions.add(topic, expression)
        await self._engine.subscriptions_changed(data.topic)

    async def unsubscribe(self, topic: str) -> None:
        """Consumes a topic no more; its offsets are saved."""
        self._check_usable()
        self._engine.subscriptions.remove(topic)
        await self._engine.subscriptions_changed(topic)

    async def assign(self, queues: Iterable[QueueRef]) -> None:
        """Consumes these queues and no others, whoever else does; replaces what was assigned.

        Raises:
            UsageError: Topics were subscribed.
        """
        self._check_usable()
        if self._engine.subscriptions.topics:
            raise UsageError("topics were subscribed: a consumer either subscribes or is assigned")
        await self._engine.assign(self._each(queues))

    async def topic_queues(self, topic: str) -> list[QueueRef]:
        """Returns all queues of a topic that are read.

        Raises:
            NoRouteError: No broker has the topic.
        """
        self._check_usable()
        route = await self._instance.route(self._instance.full_name(topic))
        return [self._short(queue) for queue in route.read_queues]

    @property
    def queues(self) -> tuple[QueueRef, ...]:
        """The queues that are ours now."""
        return tuple(self._short(queue) for queue in sorted(self._engine.assignment.held))

    # Positions.

    def seek(self, queue: QueueRef, offset: int) -> None:
        """Goes on at an offset; what was pulled of the queue is forgotten.

        Args:
            queue: The queue; one that is not ours yet begins there when it is.
            offset: The queue offset of the next message. One that is not there becomes the
                nearest that is.
        """
        self._check_usable()
        check_explicit(offset=(offset, int))
        if offset < 0:
            raise UsageError(f"offset: {offset} is below 0")
        self._engine.seek(self._full(queue), offset)

    async def seek_time(self, queue: QueueRef, moment: float | datetime) -> int:
        """Goes on at the first message stored at a time or later; returns its queue offset.

        Args:
            queue: The queue.
            moment: Seconds since 1970, or a `datetime`.

        Raises:
            RemotingError: The broker did not answer; nothing changed.
            UsageError: The moment is none.
        """
        self._check_usable()
        check_explicit(moment=(moment, float | datetime))
        seconds = moment.timestamp() if isinstance(moment, datetime) else moment
        if not 0 <= seconds <= _LAST_MOMENT_S:
            raise UsageError(
                f"moment: {moment} s since 1970 is no time before the year 9999: are these ms?"
            )
        full = self._full(queue)
        offset = await self._engine.calls.search_offset(full, round(seconds * _MS_PER_S))
        self._engine.seek(full, max(0, offset))
        return offset

    async def seek_begin(self, queue: QueueRef) -> int:
        """Goes on at the oldest message; returns its queue offset."""
        self._check_usable()
        full = self._full(queue)
        offset = max(0, await self._engine.calls.min_offset(full))
        self._engine.seek(full, offset)
        return offset

    async def seek_end(self, queue: QueueRef) -> int:
        """Goes on behind the newest message; returns the queue offset of the next one."""
        self._check_usable()
        full = self._full(queue)
        offset = await self._engine.calls.max_offset(full)
        self._engine.seek(full, offset)
        return offset

    def position(self, queue: QueueRef) -> int | None:
        """Returns the queue offset that is polled next; None for a queue that is not ours."""
        self._check_usable()
        return self._engine.position(self._full(queue))

    async def bounds(self, queue: QueueRef) -> tuple[int, int]:
        """Returns the queue offsets of the oldest message and behind the newest one.

        Raises:
            RemotingError: The broker did not answer.
        """
        self._check_usable()
        full = self._full(queue)
        low, high = await asyncio.gather(
            self._engine.calls.min_offset(full), self._engine.calls.max_offset(full)
        )
        return max(0, low), high

    async def committed(self, queue: QueueRef) -> int | None:
        """Returns the offset that the group saved; None where it never did."""
        self._check_usable()
        return await self._engine.calls.query_offset(self._full(queue))

    async def commit(self, offsets: Mapping[QueueRef, int] | None = None) -> None:
        """Saves how far it has come; returns when the brokers know it.

        Args:
            offsets: Offsets to save; everything that was polled when not given.

        Raises:
            UsageError: A queue is not ours, or an offset is none.
            RemotingError: A broker did not acknowledge it; commit again.
        """
        self._check_usable()
        wanted = None
        if offsets is not None:
            check_explicit(offsets=(offsets, Mapping))
            wanted = {self._full(queue): offset for queue, offset in offsets.items()}
            for queue, offset in wanted.items():
                check_explicit(offset=(offset, int))
                if offset < 0:
                    raise UsageError(f"{queue.label}: offset {offset} is below 0")
        failed = await self._engine.commit(wanted)
        if failed:
            raise RemotingError(f"offsets of {len(failed)} queues were not saved: {failed[0]} ...")

    def pause(self, queues: Iterable[QueueRef] | None = None) -> None:
        """Gives nothing of some queues, or of all that are ours, until `resume`."""
        self._check_usable()
        self._engine.buffer.pause(self._chosen(queues))

    def resume(self, queues: Iterable[QueueRef] | None = None) -> None:
        """Gives messages again of some queues, or of all."""
        self._check_usable()
        self._engine.resume(
            list(self._engine.buffer.paused) if queues is None else self._chosen(queues)
        )

    # Parts of all of them.

    def _warn_of_nothing(self) -> None:
        if not self._engine.subscriptions.consumed:
            _log.warning(
                "consumer %s: no topic is subscribed and no queue assigned: polls give nothing "
                "until subscribe() or assign() is called; topics= subscribes from the start",
                self.group,
            )

    def _chosen(self, queues: Iterable[QueueRef] | None) -> list[QueueRef]:
        if queues is None:
            return list(self._engine.assignment.held)
        return self._each(queues)

    def _each(self, queues: Iterable[QueueRef]) -> list[QueueRef]:
        if not isinstance(queues, Iterable):
            raise UsageError(
                f"queues: several QueueRef are expected, not {type(queues).__name__}: give a list"
            )
        return [self._full(queue) for queue in queues]

    def _full(self, queue: QueueRef) -> QueueRef:
        if not isinstance(queue, QueueRef):
            raise UsageError(f"a QueueRef is expected, not {type(queue).__name__}")
        return replace(queue, topic=self._instance.full_name(queue.topic))

    def _check_usable(self) -> None:
        self._check_open()
        self._check_started()
