"""A running pull consumer: what its queues bring waits until somebody polls.

After `DefaultLitePullConsumerImpl`. What a poll gave counts as consumed when the next poll comes
(`auto_commit`), or when it is committed: never before it was handed out. Users see `pull_consumer`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from mqcore.client.consume_requests import MemberRequests
from mqcore.client.consumer_settings import PullConsumerSettings
from mqcore.client.instance import Instance
from mqcore.client.member import Member, RebalanceListener
from mqcore.client.message import ReceivedMessage
from mqcore.client.poll_buffer import PollBuffer, polled
from mqcore.client.process_queue import Parcel, PolledQueue
from mqcore.client.queue_puller import HeldQueue, PullSettings, QueueKind
from mqcore.client.subscribing import Subscriptions
from mqcore.errors import UsageError
from mqcore.model.heartbeats import CONSUME_TYPES
from mqcore.model.queues import MessageQueue

__all__ = ["PullEngine"]

# How long a broker holds a pull of such a consumer (official: brokerSuspendMaxTimeMillis).
_SUSPEND_MS: Final = 20_000


class PullEngine(Member):
    """One member of a group that polls.

    Attributes:
        settings: How it consumes.
        buffer: What was pulled and waits for a poll.
    """

    consume_type = CONSUME_TYPES[0]

    def __init__(
        self,
        instance: Instance,
        group: str,
        settings: PullConsumerSettings,
        subscriptions: Subscriptions,
        on_rebalance: RebalanceListener | None,
        now_ms: Callable[[], int],
    ) -> None:
        """Puts the parts together; `join` begins."""
        pulls = PullSettings(
            count_max=settings.pull_count,
            suspend_ms=_SUSPEND_MS,
            sends_subscription=True,
            is_lite=True,
            commits=False,
        )
        super().__init__(instance, group, settings, subscriptions, pulls, on_rebalance, now_ms)
        self.settings = settings
        self.buffer = PollBuffer(now_ms)
        self.handlers = MemberRequests(self, settings.official()).handlers

    # Life.

    async def stop(self) -> None:
        """Stops pulling, saves offsets, and leaves the group; polls that wait end."""
        self.buffer.end()
        held = await self.assignment.close()
        await self.leave(held)

    # Polling.

    async def poll(self, timeout_s: float | None, count_max: int) -> list[ReceivedMessage]:
        """Returns the next messages, of one queue; none after the time, or at the end.

        Args:
            timeout_s: How long to wait for the first one; None for ever.
            count_max: How many at the most.
        """
        if self.settings.auto_commit:
            # Asking for more means that what was given before is done.
            self.settle_taken()
        return await self.buffer.poll(timeout_s, count_max)

    def arrived(self, held: HeldQueue, parcels: Sequence[Parcel[ReceivedMessage]]) -> None:
        """Lets messages wait for a poll."""
        self.count(held, parcels)
        self.buffer.add(held)

    def settle_taken(self) -> None:
        """Notes that everything that was polled is consumed."""
        for held in self.assignment.held.values():
            polled(held).settle_taken()

    # Queues.

    async def assign(self, queues: Collection[MessageQueue]) -> None:
        """Holds these queues and no others; nothing is divided."""
        self.subscriptions.assigned = frozenset(queues)
        for topic in self.topics():
            await self.learn(topic)
        await self.heartbeat()
        await self.assignment.round()

    def block(self, held: HeldQueue) -> str | None:
        """Returns why a queue must not be pulled now."""
        if held.state.queue in self.buffer.paused:
            return "the queue is paused"
        return super().block(held)

    def new_state(self, queue: MessageQueue, offset: int) -> QueueKind:
        """Returns the state of a queue that begins at an offset."""
        now_ms = self.now_ms()
        return PolledQueue(queue, offset, now_ms, now_ms, position=offset)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Goes on at another offset of a queue; one that is not held begins there when it is."""
        held = self.assignment.held.get(queue)
        if held is None:
            self.progress.start_at(queue, offset)
            return
        self.progress.forget(queue)
        self.begin_anew(held, offset)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Gives messages of some queues again."""
        self.buffer.resume(queues)
        self.wake_pulls()

    def position(self, queue: MessageQueue) -> int | None:
        """Returns the offset of the message that is polled next; None for a queue not held."""
        held = self.assignment.held.get(queue)
        return None if held is None else polled(held).position

    # Offsets.

    async def commit(self, offsets: Mapping[MessageQueue, int] | None) -> list[MessageQueue]:
        """Saves how far it has come; returns the queues where that failed.

        Args:
            offsets: Offsets to save; everything that was polled when not given.

        Raises:
            UsageError: A queue is not held.
        """
        if offsets is None:
            self.settle_taken()
            return await self.progress.persist()
        strangers = [queue for queue in offsets if queue not in self.assignment.held]
        if strangers:
            raise UsageError(f"{strangers[0]} is not held by this consumer now")
        self.progress.set(offsets)
        return await self.progress.save(offsets)
