"""Consuming in order: one parcel of a queue after the other, under the broker's lock.

After `ConsumeMessageOrderlyService`. A parcel that fails is tried again here, after a pause, and
nothing behind it begins before; beyond the bound it goes to the dead-letter queue.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from mqcore.client.duties import Duties
from mqcore.client.giving_back import GivingBack
from mqcore.client.handler_jobs import HandlerPool, Job
from mqcore.client.message import ReceivedMessage
from mqcore.client.order_locks import OrderLocks
from mqcore.client.outcomes import DEAD_LETTER, LEFT_OUT, Outcome
from mqcore.client.process_queue import OrderlyQueue, Parcel
from mqcore.client.queue_puller import HeldQueue

__all__ = ["OrderlyConsuming"]

_log = logging.getLogger(__name__)

# How long a queue may be held up after a failure (official).
_SUSPEND_MIN_S: Final = 0.01
_SUSPEND_MAX_S: Final = 30.0
# A queue whose lock was refused asks for it again after so long (official).
_RELOCK_S: Final = 3.0

_Parcel = Parcel[ReceivedMessage]


class OrderlyConsuming:
    """Walks through the queues of a consumer, each in its order, several at once."""

    def __init__(
        self,
        pool: HandlerPool,
        giving_back: GivingBack,
        duties: Duties,
        now_ms: Callable[[], int],
        *,
        locks: OrderLocks | None,
        is_single: bool,
        suspend_s: float,
        deliveries_max: int,
    ) -> None:
        """Takes who helps.

        Args:
            pool: Runs the handler.
            giving_back: Puts messages into the dead-letter queue.
            duties: Runs the walks.
            now_ms: The time.
            locks: The order locks; None where queues are not shared.
            is_single: Whether the handler gets a message, not a list.
            suspend_s: The pause after a failure.
            deliveries_max: Tries after the first one.
        """
        self._pool = pool
        self._giving_back = giving_back
        self._duties = duties
        self._now_ms = now_ms
        self._locks = locks
        self._is_single = is_single
        self._suspend_s = suspend_s
        self._deliveries_max = deliveries_max

    def arrived(self, held: HeldQueue, parcels: Sequence[_Parcel]) -> None:
        """Walks on, where nobody walks through the queue already."""
        del parcels
        state = _state(held)
        if not state.is_consuming:
            state.is_consuming = True
            self._duties.spawn("orderly", self._walk(held))

    async def _walk(self, held: HeldQueue) -> None:
        state = _state(held)
        try:
            while not held.is_leaving:
                if self._locks is not None and not state.has_lock(self._now_ms()):
                    await self._relock(held)
                    continue
                parcel = state.take(self._now_ms())
                if parcel is None:
                    return
                pause_s = await self._consume(held, parcel)
                if pause_s is None:
                    return
                held.on_space_freed()
                if pause_s:
                    await asyncio.sleep(pause_s)
        finally:
            state.is_consuming = False

    async def _relock(self, held: HeldQueue) -> None:
        assert self._locks is not None
        if not await self._locks.lock_one(held.state):
            await asyncio.sleep(_RELOCK_S)

    async def _consume(self, held: HeldQueue, parcel: _Parcel) -> float | None:
        """Consumes a parcel; returns how long the queue waits then, in s; None for the end."""
        state = _state(held)
        answer: asyncio.Future[tuple[Outcome, int]] = asyncio.get_running_loop().create_future()

        def finished(job: Job, outcome: Outcome, took_ms: int) -> None:
            del job
            if not answer.done():
                answer.set_result((outcome, took_ms))

        argument = parcel.messages[0] if self._is_single else parcel.messages
        self._pool.submit([Job(argument, finished, parcel, lambda _job, _now_ms: True)])
        outcome, took_ms = await answer
        if outcome is LEFT_OUT:
            state.rollback()
            return None
        state.tally(parcel.count, took_ms, is_done=outcome.is_done)
        if state.is_dropped:
            # It took too long to hand over: another member has the lock now.
            return None
        if outcome.is_done:
            state.commit()
            return 0.0
        if outcome.why:
            _log.warning(
                "%s at %d: not consumed: %s",
                state.queue.label,
                parcel.first_offset,
                outcome.why,
                exc_info=outcome.error,
            )
        if await self._is_put_aside(parcel, outcome):
            state.commit()
            return 0.0
        parcel.attempts += 1
        for message in parcel.messages:
            message.local_attempts = parcel.attempts
        state.rollback()
        pause_s = self._suspend_s if outcome.delay_s is None else outcome.delay_s
        return min(max(pause_s, _SUSPEND_MIN_S), _SUSPEND_MAX_S)

    async def _is_put_aside(self, parcel: _Parcel, outcome: Outcome) -> bool:
        """Puts a parcel into the dead-letter queue, where due; returns whether it is there."""
        is_due = outcome.level == DEAD_LETTER or all(
            message.reconsume_times >= self._deliveries_max for message in parcel.messages
        )
        if not is_due:
            return False
        left = []
        for message in parcel.messages:
            if not await self._giving_back.give_back(message, DEAD_LETTER):
                left.append(message)
        parcel.messages = left
        return not left


def _state(held: HeldQueue) -> OrderlyQueue[ReceivedMessage]:
    assert isinstance(held.state, OrderlyQueue)
    return held.state
