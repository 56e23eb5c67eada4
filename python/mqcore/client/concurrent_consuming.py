"""Consuming in any order: parcels to the handlers' pool, what came of them to queue and broker.

After `ConsumeMessageConcurrentlyService`. A message leaves its queue when it is done, or when a
broker has it back; until then the offset that is committed stays before it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from mqcore.client.duties import Duties
from mqcore.client.giving_back import GivingBack
from mqcore.client.handler_jobs import HandlerPool, Job
from mqcore.client.message import ReceivedMessage
from mqcore.client.outcomes import LEFT_OUT, Outcome
from mqcore.client.process_queue import ConcurrentQueue, Parcel
from mqcore.client.queue_puller import HeldQueue

__all__ = ["ConcurrentConsuming"]

_log = logging.getLogger(__name__)

# A message that no broker took back is tried here again after so long (official).
_TRY_AGAIN_S: Final = 5.0
# The level of delay that a message whose handler hangs is given back with (official): 10 s.
_OVERDUE_LEVEL: Final = 3

_Parcel = Parcel[ReceivedMessage]


class ConcurrentConsuming:
    """Consumes the parcels of all queues of a consumer."""

    def __init__(
        self,
        pool: HandlerPool,
        giving_back: GivingBack,
        duties: Duties,
        now_ms: Callable[[], int],
        *,
        is_single: bool,
        is_broadcast: bool,
    ) -> None:
        """Takes who helps.

        Args:
            pool: Runs the handler.
            giving_back: Gives messages back.
            duties: Runs what takes time.
            now_ms: The time.
            is_single: Whether the handler gets a message, not a list.
            is_broadcast: Whether failed messages are dropped: a broadcast has no retry.
        """
        self._pool = pool
        self._giving_back = giving_back
        self._duties = duties
        self._now_ms = now_ms
        self._is_single = is_single
        self._is_broadcast = is_broadcast
        self._jobs: dict[_Parcel, Job] = {}

    def arrived(self, held: HeldQueue, parcels: Sequence[_Parcel]) -> None:
        """Takes parcels that came."""
        finished, begins, is_single = self._finished, self._begins, self._is_single
        self._pool.submit(
            [
                Job(
                    parcel.messages[0] if is_single else parcel.messages,
                    finished,
                    (held, parcel),
                    begins,
                )
                for parcel in parcels
            ]
        )

    def _begins(self, job: Job, now_ms: int) -> bool:
        held, parcel = job.owner
        if held.is_leaving or parcel.is_settled:
            return False
        parcel.started_ms = now_ms
        self._jobs[parcel] = job
        return True

    def _finished(self, job: Job, outcome: Outcome, took_ms: int) -> None:
        held, parcel = job.owner
        self._jobs.pop(parcel, None)
        state = held.state
        if parcel.is_settled or state.is_dropped or outcome is LEFT_OUT:
            # Given back already, or another member's now: it comes again there.
            return
        state.tally(parcel.count, took_ms, is_done=outcome.is_done)
        if outcome.is_done:
            self._settle(held, parcel, job.began_ms + took_ms)
            return
        self._log(held, parcel, outcome)
        if self._is_broadcast:
            self._settle(held, parcel, self._now_ms())
        else:
            self._duties.spawn("give back", self._give_back(held, parcel, outcome.level))

    def _log(self, held: HeldQueue, parcel: _Parcel, outcome: Outcome) -> None:
        if not outcome.why and not self._is_broadcast:
            return
        lost = " (a broadcast is not repeated)" if self._is_broadcast else ""
        _log.warning(
            "%s at %d: not consumed%s: %s",
            held.state.queue.label,
            parcel.first_offset,
            lost,
            outcome.why or "the handler asked for a retry",
            exc_info=outcome.error,
        )

    def _settle(self, held: HeldQueue, parcel: _Parcel, now_ms: int) -> None:
        state = held.state
        assert isinstance(state, ConcurrentQueue)
        state.settle(parcel, now_ms)
        held.on_space_freed()

    async def _give_back(self, held: HeldQueue, parcel: _Parcel, level: int) -> None:
        """Gives every message of a parcel back; those that nobody took are consumed here again."""
        left = []
        for message in parcel.messages:
            if held.state.is_dropped or parcel.is_settled:
                return
            if not await self._giving_back.give_back(message, level):
                left.append(message)
        if parcel.is_settled:
            return
        if not left:
            self._settle(held, parcel, self._now_ms())
            return
        # The first offset stays: what was taken back below it at worst comes twice.
        parcel.messages = left
        parcel.started_ms = None
        asyncio.get_running_loop().call_later(_TRY_AGAIN_S, self._again, held, parcel)

    def _again(self, held: HeldQueue, parcel: _Parcel) -> None:
        if not (held.is_leaving or parcel.is_settled):
            self.arrived(held, (parcel,))

    def give_up_overdue(self, queues: Sequence[HeldQueue], timeout_ms: int) -> None:
        """Gives the messages of calls back that take too long."""
        now_ms = self._now_ms()
        for held in queues:
            state = held.state
            assert isinstance(state, ConcurrentQueue)
            for parcel in list(state.overdue(now_ms, timeout_ms)):
                job = self._jobs.pop(parcel, None)
                if job is None:
                    # It ended; what came of it is on its way.
                    continue
                _log.warning(
                    "%s at %d: the handler takes longer than %d s: given up",
                    state.queue.label,
                    parcel.first_offset,
                    timeout_ms // 1000,
                )
                self._pool.abandon(job)
                state.tally(parcel.count, timeout_ms, is_done=False)
                if self._is_broadcast:
                    self._settle(held, parcel, now_ms)
                else:
                    self._duties.spawn("give back", self._give_back(held, parcel, _OVERDUE_LEVEL))
