"""A running push consumer: queues held, pulled and consumed, offsets saved, as one member.

Puts the parts together and is what its client's instance, its queues and its rounds call. Users
see `push_consumer`.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from mqcore.client.assignment import Assignment, Division
from mqcore.client.concurrent_consuming import ConcurrentConsuming
from mqcore.client.consume_requests import ConsumeRequests
from mqcore.client.consume_statistics import ConsumeStatistics
from mqcore.client.consumer_calls import ConsumerCalls
from mqcore.client.consumer_settings import PushConsumerSettings
from mqcore.client.duties import Duties
from mqcore.client.giving_back import GivingBack
from mqcore.client.handler_jobs import pool_for
from mqcore.client.identity import local_address
from mqcore.client.instance import Instance
from mqcore.client.message import ReceivedMessage
from mqcore.client.offset_stores import LocalOffsets, OffsetStore, RemoteOffsets, local_offsets_path
from mqcore.client.offset_table import OffsetTable
from mqcore.client.order_locks import LOCK_INTERVAL_S, OrderLocks
from mqcore.client.orderly_consuming import OrderlyConsuming
from mqcore.client.process_queue import ConcurrentQueue, FlowBounds, OrderlyQueue, Parcel
from mqcore.client.queue_puller import HeldQueue, PullSettings, QueueKind
from mqcore.client.routes import TopicRoute
from mqcore.client.starting_offset import starting_offset
from mqcore.client.subscribing import Subscriptions
from mqcore.clock import wall_ms
from mqcore.errors import MQError
from mqcore.model.heartbeats import BROADCASTING, CLUSTERING, PASSIVELY, ConsumerData
from mqcore.model.queues import MessageQueue
from mqcore.model.subscriptions import SubscriptionData
from mqcore.model.topics import RETRY_PREFIX
from mqcore.remoting.dispatch import Handler

__all__ = ["Divided", "PushEngine"]

_log = logging.getLogger(__name__)

# Hears which queues of a topic are ours whenever that changes: topic, ours, all.
Divided = Callable[[str, Sequence[MessageQueue], Sequence[MessageQueue]], None]

_MS_PER_S: Final = 1000
# Calls that take too long are looked for so often at the least.
_OVERDUE_LOOK_S: Final = 30.0
# How long an orderly queue's handler may hold up its hand-over (official: UNLOCK_DELAY_TIME_MILLS).
_ORDERLY_HAND_OVER_S: Final = 20.0
_HAND_OVER_LOOK_S: Final = 0.01
# A client's name within the directory of broadcast offsets must outlive the process.
_BROADCAST_NAME: Final = "DEFAULT"


class PushEngine:
    """One member of a group at work.

    Attributes:
        group: Its group, with the namespace.
        settings: How it consumes.
        subscriptions: What it wants.
        assignment: What it holds.
        statistics: How fast it is.
        pool: Runs its handler.
        offsets: How far it has come.
        started_ms: When it began, in ms since 1970.
    """

    def __init__(
        self,
        instance: Instance,
        group: str,
        handler: Callable[[Any], Any],
        settings: PushConsumerSettings,
        subscriptions: Subscriptions,
        on_divided: Divided | None,
        now_ms: Callable[[], int],
    ) -> None:
        """Puts the parts together; `start` begins."""
        self.group = group
        self.settings = settings
        self.subscriptions = subscriptions
        self.statistics = ConsumeStatistics()
        self.offsets = OffsetTable()
        self.started_ms = 0
        self.is_paused = False
        self.bounds: FlowBounds = settings.bounds
        self.now_ms = now_ms
        self.instance = instance
        self._on_divided = on_divided
        self._calls = ConsumerCalls(instance, group)
        self._store = self._offset_store()
        self._duties = Duties()
        self._work = Duties()
        self.pool = pool_for(handler, settings.concurrency, f"mq-consume-{group}", now_ms)
        is_shared = not settings.broadcast
        self._locks = OrderLocks(self._calls, now_ms) if settings.orderly and is_shared else None
        self._consuming = self._made_consuming()
        self.assignment = Assignment(
            instance,
            self._calls,
            self,
            Division(
                settings.strategy if is_shared else None,
                settings.hand_over_s,
                settings.rebalance_interval_s,
            ),
        )
        self._pulls = PullSettings(
            count_max=settings.pulled,
            parcel_max=settings.batch or 1,
            interval_ms=round(settings.pull_interval_s * _MS_PER_S),
            commits=is_shared,
        )
        self._requests = ConsumeRequests(self)

    def _offset_store(self) -> OffsetStore:
        if not self.settings.broadcast:
            return RemoteOffsets(self._calls)
        name = f"{local_address()}@{_BROADCAST_NAME}"
        directory = self.settings.offsets_directory
        return LocalOffsets(local_offsets_path(directory, name, self.group))

    def _made_consuming(self) -> ConcurrentConsuming | OrderlyConsuming:
        settings = self.settings
        back = GivingBack(self.instance, self._calls, self.group, settings.deliveries_max)
        is_single = settings.batch is None
        if not settings.orderly:
            return ConcurrentConsuming(
                self.pool,
                back,
                self._work,
                self.bounds,
                self.now_ms,
                is_single=is_single,
                is_broadcast=settings.broadcast,
            )
        return OrderlyConsuming(
            self.pool,
            back,
            self._work,
            self.bounds,
            self.now_ms,
            locks=self._locks,
            is_single=is_single,
            suspend_s=settings.suspend_s,
            deliveries_max=settings.deliveries_max,
        )

    # Life.

    async def start(self) -> None:
        """Joins the group and begins to consume.

        Raises:
            GroupError: The group's name is illegal, or its client has such a consumer already.
            ResponseError: A broker cannot filter by an expression.
        """
        self.started_ms = wall_ms()
        self.subscriptions.touch(self.started_ms)
        self.instance.register(self)
        for topic in self.subscriptions.topics:
            await self.learn(topic)
        await self.heartbeat()
        await self.assignment.round()
        self._duties.spawn("rebalance", self.assignment.run())
        self._duties.every(self.settings.persist_interval_s, "persist", self.persist)
        if self._locks is not None:
            self._duties.every(LOCK_INTERVAL_S, "order locks", self._renew_locks)
        if not self.settings.orderly:
            look_s = min(self.settings.consume_timeout_s, _OVERDUE_LOOK_S)
            self._duties.every(look_s, "overdue handlers", self._give_up_overdue)

    async def learn(self, topic: str) -> None:
        """Learns where a topic is, and whether its broker can filter as it is asked to.

        Raises:
            ResponseError: It cannot.
        """
        try:
            route = await self.instance.route(topic)
        except MQError as error:
            if not topic.startswith(RETRY_PREFIX):
                _log.warning("consumer %s: %s", self.group, error.message)
            return
        subscription = self.subscriptions.get(topic)
        if subscription is None or subscription.is_tag or not route.brokers:
            return
        # One of them is asked, as the official client does.
        address = self.instance.any_address_of(route.brokers[0].name)
        if address is not None:
            await self._calls.check_filter(address, subscription)

    async def stop(self) -> None:
        """Stops pulling, lets handlers finish that run, saves offsets, and leaves the group."""
        drain_s = self.settings.drain_s
        held = await self.assignment.close()
        running = await self.pool.drain(drain_s)
        if running:
            _log.warning("consumer %s: %d handlers still run: left alone", self.group, running)
        await self._work.until_idle(drain_s)
        await self.persist()
        for item in held:
            item.state.is_dropped = True
        if self._locks is not None:
            await self._locks.unlock([item.state.queue for item in held])
        await self.instance.unregister(self)
        await self.pool.close()
        await self._work.close()
        await self._duties.close()

    # What the instance asks (`Part`).

    def consumer_data(self) -> ConsumerData:
        """Returns what heartbeats tell."""
        return ConsumerData(
            group=self.group,
            consume_type=PASSIVELY,
            message_model=BROADCASTING if self.settings.broadcast else CLUSTERING,
            from_where=self.settings.consume_from.value,
            subscriptions=self.subscriptions.all,
            is_unit_mode=False,
        )

    def topics(self) -> Collection[str]:
        """Returns the topics that are consumed."""
        return self.subscriptions.topics

    def on_route(self, topic: str, route: TopicRoute) -> None:
        """Divides anew: queues came or went."""
        del topic, route
        self.assignment.wake()

    @property
    def handlers(self) -> Mapping[int, Handler]:
        """What serves brokers' requests."""
        return self._requests.handlers

    # What queues ask (`Holder`).

    def subscription(self, topic: str) -> SubscriptionData | None:
        """Returns what is wanted of a topic."""
        return self.subscriptions.get(topic)

    def block(self, held: HeldQueue) -> str | None:
        """Returns why a queue must not be pulled now."""
        if self.is_paused:
            return "the consumer is paused"
        if self._locks is not None and not held.state.is_locked:
            return "the order lock is not ours"
        return None

    def arrived(self, held: HeldQueue, parcels: Sequence[Parcel[ReceivedMessage]]) -> None:
        """Consumes what came."""
        state = held.state
        now_ms = self.now_ms()
        statistics = self.statistics.topic(state.queue.topic)
        count = sum(parcel.count for parcel in parcels)
        statistics.pulled(count, now_ms - state.last_pull_ms, now_ms)
        statistics.consumed(*state.take_tally(), now_ms)
        self._consuming.arrived(held, parcels)

    async def moved(self, held: HeldQueue, next_offset: int) -> None:
        """Begins a queue anew where the broker says that it goes on."""
        queue = held.state.queue
        held.is_leaving = held.state.is_dropped = True
        self.offsets.remove(queue)
        self.offsets.update(queue, next_offset, may_fall=True)
        await self._save([queue])
        await self.assignment.begin_anew(queue, self._held(queue, next_offset, held.state))

    async def heartbeat(self) -> None:
        """Tells the brokers who we are and what we want."""
        await self.instance.heartbeat()

    def shown_topic(self, topic: str) -> str:
        """Returns a topic as users know it."""
        return self.instance.short_name(topic)

    # What rounds ask (`QueueOwner`).

    async def open(self, queue: MessageQueue) -> HeldQueue | None:
        """Begins a queue: its lock, its offset."""
        held = self._held(queue, 0, None)
        if self._locks is not None and not await self._locks.lock_one(held.state):
            return None
        self.offsets.remove(queue)
        stored = await self._store.load(queue)
        offset = await starting_offset(
            queue,
            stored,
            self.settings.consume_from,
            self.settings.start_timestamp_ms,
            self._calls,
        )
        held.state.next_offset = offset
        if stored is not None:
            self.offsets.loaded(queue, stored)
        return held

    def _held(self, queue: MessageQueue, offset: int, before: QueueKind | None) -> HeldQueue:
        now_ms = self.now_ms()
        state: QueueKind = (
            OrderlyQueue(queue, offset, now_ms, now_ms)
            if self.settings.orderly
            else ConcurrentQueue(queue, offset, now_ms, now_ms)
        )
        if before is not None:
            state.is_locked, state.last_lock_ms = before.is_locked, before.last_lock_ms
        return HeldQueue(state, self.group, self, self.instance, self._pulls, self.now_ms)

    async def hand_over(self, held: HeldQueue) -> None:
        """Saves a queue's offset; where it is locked, first lets the handler finish that runs."""
        state = held.state
        if self._locks is not None:
            ends_ms = self.now_ms() + round(_ORDERLY_HAND_OVER_S * _MS_PER_S)
            while state.has_running and self.now_ms() < ends_ms:
                state.unlock_tries += 1
                await asyncio.sleep(_HAND_OVER_LOOK_S)
        self._note(held)
        state.is_dropped = True
        await self._save([state.queue])
        self.offsets.remove(state.queue)
        if self._locks is not None:
            await self._locks.unlock([state.queue])

    async def divided(self, topic: str, all_queues: Collection[MessageQueue]) -> None:
        """Tells the brokers a newer subscription, and the user."""
        self.subscriptions.touch(wall_ms(), topic)
        await self.heartbeat()
        if self._on_divided is None or topic.startswith(RETRY_PREFIX):
            return
        mine = sorted(queue for queue in self.assignment.held if queue.topic == topic)
        try:
            self._on_divided(self.shown_topic(topic), mine, sorted(all_queues))
        except Exception:
            _log.exception("consumer %s: on_divided failed", self.group)

    def is_stuck(self, held: HeldQueue) -> bool:
        """Tells whether a queue lost its puller."""
        return not held.is_pulling and held.state.is_pull_idle(self.now_ms())

    # Offsets.

    async def persist(self) -> None:
        """Saves every offset that changed; what is not acknowledged is saved the next time."""
        for held in self.assignment.held.values():
            self._note(held)
        await self._save(None)

    def _note(self, held: HeldQueue) -> None:
        state = held.state
        offset = state.commit_offset
        if offset is not None and not state.is_dropped:
            self.offsets.update(state.queue, offset)

    async def _save(self, queues: Iterable[MessageQueue] | None) -> None:
        unsaved = self.offsets.unsaved(queues)
        if unsaved:
            self.offsets.saved(await self._store.save(unsaved))

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Begins queues anew at other offsets; what is held of them is forgotten."""
        dropped = await self.assignment.drop(offsets)
        for queue in dropped:
            self.offsets.remove(queue)
            self.offsets.update(queue, offsets[queue], may_fall=True)
        await self._save(dropped)
        self.assignment.wake()

    def committed(self, topic: str) -> dict[MessageQueue, int]:
        """Returns how far a topic's queues have come; of all topics where it is empty."""
        for held in self.assignment.held.values():
            self._note(held)
        return self.offsets.of_topic(topic)

    # Duties.

    async def _renew_locks(self) -> None:
        assert self._locks is not None
        await self._locks.renew([held.state for held in self.assignment.held.values()])

    async def _give_up_overdue(self) -> None:
        assert isinstance(self._consuming, ConcurrentConsuming)
        timeout_ms = round(self.settings.consume_timeout_s * _MS_PER_S)
        self._consuming.give_up_overdue(list(self.assignment.held.values()), timeout_ms)

    def wake_pulls(self) -> None:
        """Looks again at queues that wait for room: what blocked them may be gone."""
        for held in self.assignment.held.values():
            held.wake()
