"""What the broker does now and then: saves, looks for due messages and silent clients, counts.

Each round is a function of the state that a test may call; `Rounds` calls them in time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from mqcore.broker.delays import FAILED_MS, IDLE_MS
from mqcore.broker.keeper import Keeper
from mqcore.broker.runtime import sample
from mqcore.broker.state import BrokerState
from mqcore.broker.statistics import MINUTE_STEP_MS
from mqcore.broker.timetable import Timetable
from mqcore.broker.transactions import HalfMessages
from mqcore.errors import MQError
from mqcore.model.topics import HALF_TOPIC, SCHEDULE_TOPIC
from mqcore.remoting import Link, in_slices

_log = logging.getLogger("mqcore.broker")

_MS_PER_S = 1_000
# Distance of two looks for clients that are silent, as the official broker has it.
_EXPIRY_PERIOD_S = 10.0
# Distance of two writes of what groups have registered, as the official broker has it.
_FILTERS_PERIOD_S = 10.0
# The same of what was popped in order.
_ORDERS_PERIOD_S = 10.0
# Messages delivered per call and level: some milliseconds of work.
_DELIVER_MAX = 1_024
# A level with nothing due is looked at this often at the least: what arrives meanwhile is due
# later than that, but for a clock that was set.
_LOOK_MAX_MS = 500
# A level that fails is told of this often, not ten times a second.
_TELL_EVERY = 60
# However small the settings are, what is repeated leaves the loop some time.
_PERIOD_MIN_S = 0.01


class Rounds:
    """The timetable of one broker.

    Attributes:
        due_ms: Until which store time plus delay messages of a level are due, by the level's
            length; None for the store's clock. A test lets messages age by it.
    """

    def __init__(self, state: BrokerState, keeper: Keeper) -> None:
        """Prepares; `start` begins."""
        self._state = state
        self._keeper = keeper
        self._failures = 0
        self.due_ms: Callable[[int], int] | None = None
        # Busy while a level is delivered: offsets must not stay behind what was stored.
        self._timetable = Timetable()
        self._halves = HalfMessages(state, keeper)

    def start(self) -> None:
        """Begins every round, each with a task of its own."""
        settings = self._state.settings
        self._every("save offsets", lambda: self._offsets_s, self._keeper.save_offsets)
        self._every("expire clients", lambda: _EXPIRY_PERIOD_S, self.expire)
        self._every("sample", lambda: MINUTE_STEP_MS / _MS_PER_S, self.sample)
        if settings.mounted_dir:
            # Nothing is delivered into a store of somebody else.
            return
        self._every("save delays", lambda: self._delays_s, self._keeper.save_delays)
        self._every("save filters", lambda: _FILTERS_PERIOD_S, self._keeper.save_filters)
        self._every("save orders", lambda: _ORDERS_PERIOD_S, self._keeper.save_orders)
        self._every("save transaction counts", lambda: self._counts_s, self._keeper.save_counts)
        self._every("check transactions", lambda: self._checks_s, self.check_transactions)
        self._timetable.begin("deliver delayed", self._deliver_always())
        _log.debug("rounds began for %s", settings.name)

    async def stop(self) -> None:
        """Ends every round; a delivery that has begun is waited for."""
        await self._timetable.stop()

    @property
    def _offsets_s(self) -> float:
        return self._state.settings.offsets_interval_ms / _MS_PER_S

    @property
    def _delays_s(self) -> float:
        return self._state.settings.delay_offsets_interval_ms / _MS_PER_S

    @property
    def _checks_s(self) -> float:
        return max(_PERIOD_MIN_S, self._state.settings.transaction_check_interval_ms / _MS_PER_S)

    @property
    def _counts_s(self) -> float:
        return max(_PERIOD_MIN_S, self._state.settings.transaction_counts_interval_ms / _MS_PER_S)

    def _every(
        self, name: str, period_s: Callable[[], float], round_: Callable[[], Awaitable[None]]
    ) -> None:
        async def repeat() -> None:
            while True:
                await asyncio.sleep(period_s())
                try:
                    await round_()
                except MQError as error:
                    _log.error("%s: %s", name, error.message)

        self._timetable.begin(name, repeat())

    async def expire(self) -> None:
        """Closes connections whose clients are silent; forgets locks that are free."""
        now_ms = self._state.now_ms()
        for link in self._state.members.expired(now_ms):
            if isinstance(link, Link):
                _log.info("%s sent no heartbeat for too long: closed", link.peer)
                link.abort()
        for group in self._state.locks.forget_expired(now_ms):
            self._state.lane.set_group_lock(group, None)
        self._state.store.notices()

    async def sample(self) -> None:
        """Notes every counter."""
        timers = self._state.timers
        progress = None if timers is None else await asyncio.to_thread(timers.progress)
        queues = await asyncio.to_thread(self._state.store.queues)
        offsets = await asyncio.to_thread(self._state.lane.offsets)
        await in_slices(sample(self._state, queues, offsets, progress))

    async def check_transactions(self, *, ahead_ms: int = 0) -> None:
        """Asks about the half messages that nobody ended; gives up those asked about too often.

        Args:
            ahead_ms: How much older than the clock says they are, for tests.
        """
        for queue_id in self._state.read_queues(HALF_TOPIC):
            check = await self._halves.begin(queue_id)
            while check.has_more:
                async with self._timetable.busy:
                    await check.go_on(ahead_ms)

    async def _deliver_always(self) -> None:
        while True:
            next_ms = await self.deliver()
            await asyncio.sleep(max(0, next_ms - self._state.now_ms()) / _MS_PER_S)

    async def deliver(self) -> int:
        """Delivers what is due; returns when to look again, at the latest."""
        delays = self._state.delays
        for level in delays.due(self._state.now_ms()):
            async with self._timetable.busy:
                await self._deliver_level(level)
        return delays.next_look_ms()

    async def deliver_all(self) -> None:
        """Delivers everything that is due now, whenever its level wants to be looked at."""
        for level in self._state.delays.levels:
            has_more = True
            while has_more:
                async with self._timetable.busy:
                    has_more = await self._deliver_level(level)

    async def _deliver_level(self, level: int) -> bool:
        """Delivers what is due of one level; tells whether more may be.

        A delivery that began is noted, whatever ends us.
        """
        state, now_ms = self._state, self._state.now_ms()
        offset = state.delays.offset(level)
        low, high = state.bounds(SCHEDULE_TOPIC, level - 1)
        if offset >= high:
            # What arrives now is due the level's length later.
            state.delays.delivered(level, offset, now_ms + self._idle_ms(level), now_ms)
            return False
        due_ms = None if self.due_ms is None else self.due_ms(state.delays.length_ms(level))
        try:
            done = await asyncio.to_thread(
                state.lane.deliver_due, level, max(offset, low), limit=_DELIVER_MAX, now_ms=due_ms
            )
        except MQError as error:
            if self._failures % _TELL_EVERY == 0:
                _log.error("delay level %d cannot be delivered: %s", level, error.message)
            self._failures += 1
            state.delays.delivered(level, offset, now_ms + FAILED_MS, now_ms)
            return False
        self._failures = 0
        if done.skipped:
            _log.warning("delay level %d: %d messages could not be delivered", level, done.skipped)
        look_ms = now_ms + self._idle_ms(level)
        if done.has_more:
            look_ms = now_ms
        elif done.next_due_ms is not None:
            look_ms = min(max(done.next_due_ms, now_ms), now_ms + _LOOK_MAX_MS)
        state.delays.delivered(level, done.next_offset, look_ms, now_ms)
        return done.has_more

    def _idle_ms(self, level: int) -> int:
        return min(max(IDLE_MS, self._state.delays.length_ms(level) // 2), _LOOK_MAX_MS)
