"""What comes back of what was popped: when check points are read, and what has to be there first.

The work is the fast path's (`Pops.revive`), off the loop; how far a queue of check points is done
is kept as the official broker keeps it, as an offset of its own group. Follows `PopReviveService`.
"""

import asyncio
import logging
from typing import Final

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.settled import come_true
from mqcore.broker.state import BrokerState
from mqcore.model.topics import revive_topic
from mqcore.native import Revived
from mqcore.periodic import PeriodicTasks, log_error

__all__ = ["REVIVE_GROUP", "PopRounds"]

_log = logging.getLogger("mqcore.broker")

# The group that the official broker keeps its own offsets under.
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
# Queues of a retry topic, as officially.
_RETRY_QUEUES: Final = 1
# Dispatch follows the log within milliseconds; with synchronous flush behind the sync.
_DISPATCHED_TIMEOUT_MS: Final = 5_000
_MS_PER_S: Final = 1_000
# What was dispatched so late may have come to the timers behind the time that they are at, so that
# acknowledgements are brought behind the time at which they are looked for ...
_STALLED_S: Final = 0.5
# ... and by then they are brought.
_BROUGHT_S: Final = 2.0
# However small the setting is, a round leaves the loop some time.
_PERIOD_MIN_MS: Final = 10
# A failure that lasts is logged once in so many.
_LOG_EVERY: Final = 60


class PopRounds:
    """The timetable of check points of one broker."""

    def __init__(self, state: BrokerState, persistence: ConfigPersistence) -> None:
        """Prepares; `start` begins."""
        self._state = state
        self._persistence = persistence
        self._topic = revive_topic(state.settings.cluster)
        self._waiting: dict[int, int] = {}
        # Nothing comes back before, on the loop's clock; and when the last look ended.
        self._resume_s = 0.0
        self._looked_s = 0.0
        self._tasks = PeriodicTasks()

    def start(self) -> None:
        """Begins, unless the settings have no timers: check points come by them.

        For a master; what it revives comes to slaves with its log.
        """
        if self._state.settings.has_timers:
            self._tasks.every(
                "revive popped", self._revive, period_s=self._period_s, report=_report
            )

    async def stop(self) -> None:
        """Ends; a round that has begun is waited for."""
        await self._tasks.stop()

    def _period_s(self) -> float:
        return max(_PERIOD_MIN_MS, self._state.settings.pop_revive_interval_ms) / _MS_PER_S

    async def _revive(self) -> None:
        await self.revive()

    async def revive(self) -> int:
        """Looks at every queue of check points; returns how many messages come again.

        Raises:
            StoreError: Something could not be read, stored or synced; the next round goes on there.
        """
        try:
            return await self._looked()
        finally:
            self._looked_s = asyncio.get_running_loop().time()

    async def _looked(self) -> int:
        if not await self._goes_on():
            return 0
        queues = [each for each in self._state.read_queues(self._topic) if self._has_news(each)]
        if not queues or asyncio.get_running_loop().time() < self._resume_s:
            return 0
        # Taken first: what the timers bring up to then is dispatched before it is looked at.
        timers_ms = await asyncio.to_thread(self._timers_ms)
        if not await self._is_dispatched():
            return 0
        count = 0
        for queue_id in queues:
            has_more = True
            while has_more:
                async with self._tasks.step:
                    done = await self._go_on(queue_id, timers_ms)
                count += done.revived
                has_more = done.has_more
        return count

    async def _goes_on(self) -> bool:
        """Returns whether the dispatch goes on; nothing comes back soon after it stood still.

        Under a controller it does while a member of the set is away: acknowledgements are in the
        log then, and the timers, which look idle, do not have them. Where nobody has looked for
        some time, of a paused process or one that was no master, it may have stood still.
        """
        loop = asyncio.get_running_loop()
        began_s, goes_on = loop.time(), False
        is_late = began_s - self._looked_s > self._period_s() + _STALLED_S
        is_unseen = is_late and self._state.replicas.epochs is not None
        try:
            goes_on = await self._is_dispatched()
        finally:
            if not goes_on or is_unseen or loop.time() - began_s > _STALLED_S:
                self._resume_s = loop.time() + _BROUGHT_S
        return goes_on

    async def _is_dispatched(self) -> bool:
        """Returns whether what is stored now is in its queues; False while slaves do not have it.

        Until then nothing fails: a member of the set is away, and comes back or leaves the set.

        Raises:
            StoreError: It is confirmed, and the dispatch does not come to it.
        """
        store, epochs = self._state.store, self._state.replicas.epochs
        end = store.stats().appended

        async def is_confirmed() -> bool:
            return epochs is None or epochs.positions().confirmed >= end

        if not await come_true(is_confirmed):
            return False
        await asyncio.to_thread(store.wait_dispatched, end, timeout_ms=_DISPATCHED_TIMEOUT_MS)
        return True

    def _has_news(self, queue_id: int) -> bool:
        """Returns whether a queue has check points that wait, or something that was not read."""
        end = self._state.bounds(self._topic, queue_id)[1]
        return self._waiting.get(queue_id, 0) > 0 or self._offset(queue_id) < end - 1

    def _offset(self, queue_id: int) -> int:
        known = self._state.fast_path.offsets.find(REVIVE_GROUP, self._topic, queue_id)
        return -1 if known is None else known

    def _timers_ms(self) -> int:
        """Returns up to which time the timers have brought everything. May wait for them."""
        timers, now_ms = self._state.timers, self._state.now_ms() + self._state.timers_ahead_ms
        # Idle timers do not move: they have brought all there is up to now.
        if timers is None or not timers.is_due(now_ms):
            return now_ms
        return min(now_ms, timers.progress().read_ms)

    async def _go_on(self, queue_id: int, timers_ms: int) -> Revived:
        fast_path = self._state.fast_path
        done = await asyncio.to_thread(
            fast_path.pops.revive, queue_id, self._offset(queue_id), timers_ms
        )
        self._waiting[queue_id] = done.waiting
        if done.end:
            # The offset must not be beyond what power loss leaves of the retries.
            await asyncio.to_thread(self._state.store.flush)
        if done.done_offset >= 0:
            fast_path.offsets.commit(REVIVE_GROUP, self._topic, queue_id, done.done_offset)
        if done.skipped:
            _log.warning(
                "%d popped messages or check points of queue %d of %s could not come back: "
                "their records, topics or groups are gone",
                done.skipped,
                queue_id,
                self._topic,
            )
        self._state.revived += done.revived
        if done.needs is not None:
            await self._make_retry_topic(done.needs.topic, done.needs.group)
        return done

    async def _make_retry_topic(self, name: str, group: str) -> None:
        """Makes a retry topic; its group begins at its first message (`initPopRetryOffset`)."""
        state = self._state
        state.topics.create_for_group(name, _RETRY_QUEUES, now_ms=state.now_ms())
        await self._persistence.topics_changed([name])
        if state.fast_path.offsets.find(group, name, 0) is None:
            state.fast_path.offsets.commit(group, name, 0, 0)


def _report(error: Exception, failures: int) -> None:
    if failures % _LOG_EVERY == 0:
        log_error("popped messages cannot come back", error)
