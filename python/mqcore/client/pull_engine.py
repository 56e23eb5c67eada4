"""A running pull consumer: what its queues bring waits until somebody polls.

After `DefaultLitePullConsumerImpl`. What a poll gave counts as consumed when the next poll comes
(`auto_commit`), or when it is committed: never before it was handed out. Users see `pull_consumer`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from mqcore.client.consume_requests import MemberRequests
from mqcore.client.consumer_settings import PullConsumerSettings
from mqcore.client.instance import Instance
from mqcore.client.member import Divided, Member
from mqcore.client.message import ReceivedMessage
from mqcore.client.process_queue import Parcel, PolledQueue
from mqcore.client.queue_puller import HeldQueue, PullSettings, QueueKind
from mqcore.client.subscribing import Subscriptions
from mqcore.errors import UsageError
from mqcore.model.heartbeats import CONSUME_TYPES
from mqcore.model.queues import MessageQueue
from mqcore.model.subscriptions import SubscriptionData
from mqcore.remoting.dispatch import Handler

__all__ = ["PullEngine"]

# How long a broker holds a pull of such a consumer (official: brokerSuspendMaxTimeMillis).
_SUSPEND_MS: Final = 20_000


class PullEngine(Member):
    """One member of a group that polls.

    Attributes:
        settings: How it consumes.
        assigned: The queues that the user chose; None where they are divided.
        paused: Queues that are not pulled now.
    """

    consume_type = CONSUME_TYPES[0]

    def __init__(
        self,
        instance: Instance,
        group: str,
        settings: PullConsumerSettings,
        subscriptions: Subscriptions,
        on_divided: Divided | None,
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
        super().__init__(instance, group, settings, subscriptions, pulls, on_divided, now_ms)
        self.settings = settings
        self.assigned: frozenset[MessageQueue] | None = None
        self.paused: set[MessageQueue] = set()
        self._requests = MemberRequests(self)
        self._seeks: dict[MessageQueue, int] = {}
        self._ready: deque[HeldQueue] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self._parked: list[HeldQueue] = []
        self._is_ended = False

    # Life.

    async def stop(self) -> None:
        """Stops pulling, saves offsets, and leaves the group; polls that wait end."""
        self._is_ended = True
        self._wake()
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
            # Asking for more says that what was given before is done.
            self.settle_taken()
        loop = asyncio.get_running_loop()
        ends_s = None if timeout_s is None else loop.time() + timeout_s
        while not self._is_ended:
            found = self._take(count_max)
            if found:
                return found
            left_s = None if ends_s is None else ends_s - loop.time()
            if left_s is not None and left_s <= 0:
                break
            self._arrival = loop.create_future()
            await asyncio.wait([self._arrival], timeout=left_s)
        return []

    @property
    def is_ended(self) -> bool:
        """Whether no more will come."""
        return self._is_ended

    def _take(self, count_max: int) -> list[ReceivedMessage]:
        """Takes what waits of the queue whose turn it is."""
        while self._ready:
            held = self._ready.popleft()
            state = _polled(held)
            if state.is_dropped or held.is_leaving or state.queue in self.paused:
                # What is forgotten comes again, to whoever has the queue then.
                if state.queue in self.paused and not held.is_leaving:
                    self._parked.append(held)
                continue
            found: list[ReceivedMessage] = []
            while state.has_waiting and len(found) < count_max:
                parcel = state.take(self.now_ms())
                if parcel is None:
                    break
                found.extend(parcel.messages)
            if state.has_waiting:
                self._ready.append(held)
            held.made_room()
            if found:
                state.tally(len(found), 0, is_done=True)
                return found
        return []

    def arrived(self, held: HeldQueue, parcels: Sequence[Parcel[ReceivedMessage]]) -> None:
        """Lets messages wait for a poll."""
        self.count(held, parcels)
        if held not in self._ready:
            self._ready.append(held)
        self._wake()

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def settle_taken(self) -> None:
        """Notes that everything that was polled is consumed."""
        for held in self.assignment.held.values():
            _polled(held).settle_taken()

    # Queues.

    async def assign(self, queues: Collection[MessageQueue]) -> None:
        """Holds these queues and no others; nothing is divided."""
        self.assigned = frozenset(queues)
        for topic in self.topics():
            await self.learn(topic)
        await self.heartbeat()
        await self.assignment.round()

    def fixed(self, topic: str) -> Iterable[MessageQueue] | None:
        """Returns the queues of a topic that the user chose; None where they are divided."""
        if self.assigned is None:
            return None
        return [queue for queue in self.assigned if queue.topic == topic]

    def topics(self) -> Collection[str]:
        """Returns the topics that are consumed."""
        if self.assigned is None:
            return super().topics()
        return {queue.topic for queue in self.assigned}

    def subscription(self, topic: str) -> SubscriptionData | None:
        """Returns what is wanted of a topic: everything of an assigned one, if nothing else."""
        found = super().subscription(topic)
        if found is None and self.assigned is not None:
            return SubscriptionData(topic)
        return found

    def block(self, held: HeldQueue) -> str | None:
        """Returns why a queue must not be pulled now."""
        if held.state.queue in self.paused:
            return "the queue is paused"
        return super().block(held)

    def new_state(self, queue: MessageQueue, offset: int) -> QueueKind:
        """Returns the state of a queue that begins at an offset."""
        now_ms = self.now_ms()
        return PolledQueue(queue, offset, now_ms, now_ms, position=offset)

    async def first_offset(self, queue: MessageQueue) -> int:
        """Returns where a queue begins: where somebody put it, or as for others."""
        offset = await super().first_offset(queue)
        # Taken last: somebody may have put it elsewhere meanwhile.
        return self._seeks.pop(queue, offset)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Goes on at another offset of a queue; one that is not held begins there when it is."""
        held = self.assignment.held.get(queue)
        if held is None:
            self._seeks[queue] = offset
            return
        self.offsets.remove(queue)
        self.begin_anew(held, offset)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Gives nothing of some queues until `resume`."""
        self.paused.update(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Gives messages of some queues again."""
        self.paused.difference_update(queues)
        self._ready.extend(self._parked)
        self._parked.clear()
        self.wake_pulls()
        self._wake()

    def position(self, queue: MessageQueue) -> int | None:
        """Returns the offset of the message that is polled next; None for a queue not held."""
        held = self.assignment.held.get(queue)
        return None if held is None else _polled(held).position

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
            for held in self.assignment.held.values():
                self._note(held)
            return await self._save(None)
        strangers = [queue for queue in offsets if queue not in self.assignment.held]
        if strangers:
            raise UsageError(f"{strangers[0]} is not held by this consumer now")
        for queue, offset in offsets.items():
            self.offsets.update(queue, offset, may_fall=True)
        return await self._save(offsets)

    @property
    def handlers(self) -> Mapping[int, Handler]:
        """What serves brokers' requests."""
        return self._requests.handlers

    def properties(self) -> dict[str, str]:
        """Returns settings by their official names, for tools."""
        return {
            "PROP_CONSUMEORDERLY": "false",
            "PROP_THREADPOOL_CORE_SIZE": "0",
            "autoCommit": str(self.settings.auto_commit).lower(),
            "pullBatchSize": str(self.settings.pull_count),
        }


def _polled(held: HeldQueue) -> PolledQueue[ReceivedMessage]:
    assert isinstance(held.state, PolledQueue)
    return held.state
