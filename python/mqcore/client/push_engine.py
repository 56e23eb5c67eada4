"""A running push consumer: what its queues bring goes to its handler, in any order or in order.

Users see `push_consumer`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from mqcore.client.concurrent_consuming import ConcurrentConsuming
from mqcore.client.consume_requests import ConsumeRequests
from mqcore.client.consumer_settings import PushConsumerSettings
from mqcore.client.duties import Duties
from mqcore.client.giving_back import GivingBack
from mqcore.client.handler_jobs import pool_for
from mqcore.client.instance import Instance
from mqcore.client.member import Member, RebalanceListener
from mqcore.client.message import ReceivedMessage
from mqcore.client.order_locks import LOCK_INTERVAL_S, OrderLocks
from mqcore.client.orderly_consuming import OrderlyConsuming
from mqcore.client.process_queue import ConcurrentQueue, OrderlyQueue, Parcel
from mqcore.client.queue_puller import HeldQueue, PullSettings, QueueKind
from mqcore.client.subscribing import Subscriptions
from mqcore.model.heartbeats import PASSIVELY
from mqcore.model.queues import MessageQueue

__all__ = ["PushEngine"]

_log = logging.getLogger(__name__)

_MS_PER_S: Final = 1000
# Calls that take too long are looked for so often at the least.
_OVERDUE_LOOK_S: Final = 30.0
# How long an orderly queue's handler may hold up its hand-over (official: UNLOCK_DELAY_TIME_MILLS).
_ORDERLY_HAND_OVER_S: Final = 20.0
_HAND_OVER_LOOK_S: Final = 0.01


class PushEngine(Member):
    """One member of a group that is pushed to.

    Attributes:
        settings: How it consumes.
        pool: Runs its handler.
    """

    consume_type = PASSIVELY

    def __init__(
        self,
        instance: Instance,
        group: str,
        handler: Callable[[Any], Any],
        settings: PushConsumerSettings,
        subscriptions: Subscriptions,
        on_rebalance: RebalanceListener | None,
        now_ms: Callable[[], int],
    ) -> None:
        """Puts the parts together; `start` begins."""
        pulls = PullSettings(
            count_max=settings.pulled,
            parcel_max=settings.batch or 1,
            interval_ms=round(settings.pull_interval_s * _MS_PER_S),
            commits=not settings.broadcast,
        )
        super().__init__(instance, group, settings, subscriptions, pulls, on_rebalance, now_ms)
        self.settings = settings
        self.pool = pool_for(handler, settings.concurrency, f"mq-consume-{group}", now_ms)
        self._work = Duties()
        self._locks = (
            OrderLocks(self.calls, now_ms) if settings.orderly and not settings.broadcast else None
        )
        self._consuming = self._made_consuming()
        answers = ConsumeRequests(
            self,
            settings.official(),
            self.pool,
            is_single=settings.batch is None,
            is_orderly=settings.orderly,
        )
        self.handlers = answers.handlers

    def _made_consuming(self) -> ConcurrentConsuming | OrderlyConsuming:
        settings = self.settings
        back = GivingBack(self.instance, self.calls, self.group, settings.deliveries_max)
        is_single = settings.batch is None
        if not settings.orderly:
            return ConcurrentConsuming(
                self.pool,
                back,
                self._work,
                self.now_ms,
                is_single=is_single,
                is_broadcast=settings.broadcast,
            )
        return OrderlyConsuming(
            self.pool,
            back,
            self._work,
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
            UsageError: The group's name is illegal, or its client has such a consumer already.
            ResponseError: A broker cannot filter by an expression.
        """
        await self.join()
        if self._locks is not None:
            self._duties.every(LOCK_INTERVAL_S, "order locks", self._renew_locks)
        if isinstance(self._consuming, ConcurrentConsuming):
            look_s = min(self.settings.consume_timeout_s, _OVERDUE_LOOK_S)
            self._duties.every(look_s, "overdue handlers", self._give_up_overdue)

    async def stop(self) -> None:
        """Stops pulling, lets handlers finish that run, saves offsets, and leaves the group."""
        drain_s = self.settings.drain_s
        held = await self.assignment.close()
        running = await self.pool.drain(drain_s)
        if running:
            _log.warning("consumer %s: %d handlers still run: left alone", self.group, running)
        await self._work.until_idle(drain_s)
        # Before a lock is given up: whoever takes it must not meet a handler of ours.
        await self.pool.close()
        await self.leave(held)
        if self._locks is not None:
            await self._locks.unlock([item.state.queue for item in held])
        await self._work.close()

    # What differs from other members.

    def new_state(self, queue: MessageQueue, offset: int) -> QueueKind:
        """Returns the state of a queue that begins at an offset."""
        now_ms = self.now_ms()
        if self.settings.orderly:
            return OrderlyQueue(queue, offset, now_ms, now_ms)
        return ConcurrentQueue(queue, offset, now_ms, now_ms)

    def block(self, held: HeldQueue) -> str | None:
        """Returns why a queue must not be pulled now."""
        if self._locks is not None and not held.state.is_locked:
            return "the order lock is not ours"
        return super().block(held)

    def arrived(self, held: HeldQueue, parcels: Sequence[Parcel[ReceivedMessage]]) -> None:
        """Consumes what came."""
        self.count(held, parcels)
        self._consuming.arrived(held, parcels)

    async def open(self, queue: MessageQueue) -> HeldQueue | None:
        """Begins a queue: its lock, then its offset."""
        state = self.new_state(queue, 0)
        if self._locks is not None and not await self._locks.lock_one(state):
            return None
        state.next_offset = await self.first_offset(queue)
        return self._held(state)

    async def hand_over(self, held: HeldQueue) -> None:
        """Saves a queue's offset; where it is locked, first lets the handler finish that runs."""
        state = held.state
        if self._locks is None:
            await super().hand_over(held)
            return
        ends_ms = self.now_ms() + round(_ORDERLY_HAND_OVER_S * _MS_PER_S)
        while state.has_running and self.now_ms() < ends_ms:
            state.unlock_tries += 1
            await asyncio.sleep(_HAND_OVER_LOOK_S)
        await super().hand_over(held)
        await self._locks.unlock([state.queue])

    # Duties.

    async def _renew_locks(self) -> None:
        assert self._locks is not None
        await self._locks.renew([held.state for held in self.assignment.held.values()])
        self.wake_pulls()

    async def _give_up_overdue(self) -> None:
        assert isinstance(self._consuming, ConcurrentConsuming)
        timeout_ms = round(self.settings.consume_timeout_s * _MS_PER_S)
        self._consuming.give_up_overdue(list(self.assignment.held.values()), timeout_ms)
