"""A member of a group, whichever way it consumes: its queues begun and let go, its offsets saved.

The common half of `DefaultMQPushConsumerImpl` and `DefaultLitePullConsumerImpl`; derived classes
define what becomes of messages. Is what the instance, the queues and the rounds call.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from mqcore.client.assignment import Assignment, Division
from mqcore.client.consume_statistics import ConsumeStatistics
from mqcore.client.consumer_calls import ConsumerCalls
from mqcore.client.consumer_settings import PullConsumerSettings, PushConsumerSettings
from mqcore.client.duties import Duties
from mqcore.client.identity import local_address
from mqcore.client.instance import Instance
from mqcore.client.message import ReceivedMessage
from mqcore.client.offset_stores import LocalOffsets, OffsetStore, RemoteOffsets, local_offsets_path
from mqcore.client.process_queue import FlowBounds, Parcel
from mqcore.client.progress import Progress
from mqcore.client.queue_puller import HeldQueue, PullSettings, QueueKind
from mqcore.client.routes import TopicRoute
from mqcore.client.starting_offset import starting_offset
from mqcore.client.subscribing import Subscriptions
from mqcore.clock import wall_ms
from mqcore.errors import MQError, NameServerError, NoRouteError
from mqcore.model.heartbeats import BROADCASTING, CLUSTERING, ConsumerData
from mqcore.model.queues import MessageQueue
from mqcore.model.subscriptions import SubscriptionData
from mqcore.model.topics import RETRY_PREFIX
from mqcore.remoting.dispatch import Handler

__all__ = ["Member", "RebalanceListener"]

_log = logging.getLogger(__name__)

# Called when the queues of a topic that are ours change: topic, our queues, all queues.
RebalanceListener = Callable[[str, Sequence[MessageQueue], Sequence[MessageQueue]], None]

# A client's name within the directory of broadcast offsets must outlive the process.
_BROADCAST_NAME: Final = "DEFAULT"
# A broker has many queues, which fail at once when it ends.
_REPORT_AGAIN_MS: Final = 10_000


class Member(ABC):
    """One member of a group at work.

    Attributes:
        instance: Its client.
        group: Its group, with the namespace.
        subscriptions: What it wants.
        assignment: What it holds.
        statistics: How fast it is.
        progress: How far it has come.
        bounds: How much of one queue may wait.
        now_ms: A monotonic time.
        started_ms: When it began, in ms since 1970.
        is_paused: Whether nothing is pulled now.
        handlers: What serves requests of brokers; who derives sets it.
    """

    handlers: Mapping[int, Handler]

    # How heartbeats call this way of consuming.
    consume_type: str

    def __init__(
        self,
        instance: Instance,
        group: str,
        settings: PushConsumerSettings | PullConsumerSettings,
        subscriptions: Subscriptions,
        pulls: PullSettings,
        on_rebalance: RebalanceListener | None,
        now_ms: Callable[[], int],
    ) -> None:
        """Puts the parts together; `join` begins."""
        self.instance = instance
        self.group = group
        self.subscriptions = subscriptions
        self.statistics = ConsumeStatistics()
        self.bounds: FlowBounds = settings.bounds
        self.now_ms = now_ms
        self.started_ms = 0
        self.is_paused = False
        self.calls = ConsumerCalls(instance, group)
        self._shared = settings
        self._pulls = pulls
        self._on_rebalance = on_rebalance
        self._duties = Duties()
        # Brokers that gave no messages, and when that was last reported.
        self._reported_ms: dict[str, int] = {}
        self.assignment = Assignment(
            instance,
            self.calls,
            self,
            Division(
                None if settings.broadcast else settings.division,
                settings.hand_over_s,
                settings.rebalance_interval_s,
            ),
        )
        store = _offset_store(settings, group, self.calls)
        self.progress = Progress(store, self.assignment.held)

    # What differs.

    @abstractmethod
    def new_state(self, queue: MessageQueue, offset: int) -> QueueKind:
        """Returns the state of a queue that begins at an offset."""

    @abstractmethod
    def arrived(self, held: HeldQueue, parcels: Sequence[Parcel[ReceivedMessage]]) -> None:
        """Takes messages that came."""

    # Life.

    async def join(self) -> None:
        """Joins the group, and holds what is divided to it.

        Raises:
            UsageError: The group's name is illegal, or its client has such a consumer already.
            ResponseError: A broker cannot filter by an expression.
        """
        self.started_ms = wall_ms()
        self.subscriptions.touch(self.started_ms)
        self.instance.register(self)
        for topic in self.topics():
            await self.learn(topic)
        await self.heartbeat()
        await self.assignment.round()
        self._duties.spawn("rebalance", self.assignment.run())
        self._duties.every(self._shared.persist_interval_s, "persist", self._persist)

    async def leave(self, held: Iterable[HeldQueue]) -> None:
        """Saves the offsets of what was held, and leaves the group."""
        await self.progress.persist()
        for item in held:
            item.state.is_dropped = True
        await self.instance.unregister(self)
        await self._duties.close()

    async def learn(self, topic: str) -> None:
        """Learns where a topic is, and whether its broker can filter as it is asked to.

        Raises:
            ResponseError: It cannot.
        """
        try:
            route = await self.instance.route(topic)
        except (NoRouteError, NameServerError):
            # The rounds report it, and go on asking.
            return
        except MQError as error:
            _log.warning("consumer %s: %s", self.group, error.message)
            return
        subscription = self.subscriptions.get(topic)
        if subscription is None or subscription.is_tag or not route.brokers:
            return
        # One of them is asked, as the official client does.
        address = self.instance.any_address_of(route.brokers[0].name)
        if address is not None:
            await self.calls.check_filter(address, subscription)

    async def subscriptions_changed(self, topic: str) -> None:
        """Sends the brokers the subscription of a topic as it is now, and divides its queues."""
        self.subscriptions.touch(wall_ms(), topic)
        if topic in self.subscriptions.topics:
            await self.learn(topic)
        await self.heartbeat()
        await self.assignment.round()

    # What the instance asks (`Part`).

    def consumer_data(self) -> ConsumerData:
        """Returns what heartbeats contain."""
        return ConsumerData(
            group=self.group,
            consume_type=self.consume_type,
            message_model=BROADCASTING if self._shared.broadcast else CLUSTERING,
            from_where=self._shared.start.value,
            subscriptions=self.subscriptions.all,
            is_unit_mode=False,
        )

    def topics(self) -> Collection[str]:
        """Returns the topics that are consumed."""
        return self.subscriptions.consumed

    def on_route(self, topic: str, route: TopicRoute) -> None:
        """Divides anew: queues came or went."""
        del topic, route
        self.assignment.wake()

    # What queues ask (`Holder`).

    def subscription(self, topic: str) -> SubscriptionData | None:
        """Returns what is wanted of a topic."""
        return self.subscriptions.get(topic)

    def block(self, held: HeldQueue) -> str | None:
        """Returns why a queue must not be pulled now."""
        del held
        return "the consumer is paused" if self.is_paused else None

    def count(self, held: HeldQueue, parcels: Sequence[Parcel[ReceivedMessage]]) -> None:
        """Counts what came, and what was consumed meanwhile."""
        state = held.state
        now_ms = self.now_ms()
        statistics = self.statistics.topic(state.queue.topic)
        count = sum(parcel.count for parcel in parcels)
        statistics.pulled(count, now_ms - state.last_pull_ms, now_ms)
        statistics.consumed(*state.take_tally(), now_ms)

    async def moved(self, held: HeldQueue, next_offset: int) -> None:
        """Begins a queue anew at the offset that the broker returned."""
        await self.progress.move({held.state.queue: next_offset})
        self.begin_anew(held, next_offset)

    def begin_anew(self, held: HeldQueue, offset: int) -> None:
        """Begins a queue at another offset; what was pulled of it is forgotten."""
        before = held.state
        before.is_dropped = True
        held.stop()
        state = self.new_state(before.queue, offset)
        state.is_locked, state.last_lock_ms = before.is_locked, before.last_lock_ms
        self.assignment.replace(held, self._held(state))

    async def heartbeat(self) -> None:
        """Sends the brokers who we are and what we subscribe to."""
        await self.instance.heartbeat()
        self.subscriptions.mark_reported()

    def shown_topic(self, topic: str) -> str:
        """Returns a topic as users know it."""
        return self.instance.short_name(topic)

    def is_news(self, broker_name: str) -> bool:
        """Returns whether it was not reported lately that a broker gives no messages; notes it."""
        now_ms = self.now_ms()
        before_ms = self._reported_ms.get(broker_name)
        if before_ms is not None and now_ms - before_ms < _REPORT_AGAIN_MS:
            return False
        self._reported_ms[broker_name] = now_ms
        return True

    # What rounds ask (`QueueOwner`).

    def fixed(self, topic: str) -> Iterable[MessageQueue] | None:
        """Returns the queues of a topic that the user chose; None where they are divided."""
        return self.subscriptions.assigned_of(topic)

    async def open(self, queue: MessageQueue) -> HeldQueue | None:
        """Begins a queue where the group left it."""
        return self._held(self.new_state(queue, await self.first_offset(queue)))

    async def first_offset(self, queue: MessageQueue) -> int:
        """Returns where a queue begins: where the user put it, as saved, or as a new group's."""
        stored = await self.progress.load(queue)
        offset = await starting_offset(
            queue,
            stored,
            self._shared.start,
            self._shared.start_timestamp_ms,
            self.calls,
        )
        if stored is not None:
            self.progress.loaded(queue, stored)
        # Taken last: the user may have put it elsewhere meanwhile.
        return self.progress.first_offset(queue, offset)

    def _held(self, state: QueueKind) -> HeldQueue:
        return HeldQueue(state, self.group, self, self.instance, self._pulls, self.now_ms)

    async def hand_over(self, held: HeldQueue) -> None:
        """Saves a queue's offset and lets it go."""
        self.progress.note(held)
        held.state.is_dropped = True
        await self.progress.save([held.state.queue])
        self.progress.forget(held.state.queue)

    async def rebalanced(self, topic: str, all_queues: Collection[MessageQueue]) -> None:
        """Sends the brokers a newer subscription, and notifies the user."""
        self.subscriptions.touch(wall_ms(), topic)
        await self.heartbeat()
        if self._on_rebalance is None or topic.startswith(RETRY_PREFIX):
            return
        mine = sorted(queue for queue in self.assignment.held if queue.topic == topic)
        try:
            self._on_rebalance(self.shown_topic(topic), mine, sorted(all_queues))
        except Exception:
            _log.exception("consumer %s: on_rebalance failed", self.group)

    def is_stuck(self, held: HeldQueue) -> bool:
        """Returns whether a queue lost its puller."""
        return not held.is_pulling and held.state.is_pull_idle(self.now_ms())

    # Offsets.

    async def _persist(self) -> None:
        """Saves every offset that changed; what is not acknowledged is saved the next time."""
        await self.progress.persist()

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Begins queues anew at other offsets; what is held of them is forgotten."""
        dropped = self.assignment.drop(offsets)
        await self.progress.move({queue: offsets[queue] for queue in dropped})
        self.assignment.wake()

    def wake_pulls(self) -> None:
        """Looks again at queues that wait for space: what blocked them may be gone."""
        for held in self.assignment.held.values():
            held.wake()


def _offset_store(
    settings: PushConsumerSettings | PullConsumerSettings, group: str, calls: ConsumerCalls
) -> OffsetStore:
    """Returns where the offsets of a member are kept: brokers, or a file where it broadcasts."""
    if not settings.broadcast:
        return RemoteOffsets(calls)
    name = f"{local_address()}@{_BROADCAST_NAME}"
    return LocalOffsets(local_offsets_path(Path(settings.offsets_directory), name, group))
