"""What the broker does now and then: saves, looks for due messages and silent clients, counts.

Each round is a function of the state that a test may call; `Rounds` calls them in time.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from mqcore.access import PLAIN_LOOK_S
from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.delays import FAILED_MS, IDLE_MS
from mqcore.broker.runtime import sample_totals, sampled
from mqcore.broker.state import BrokerState
from mqcore.broker.statistics import MINUTE_STEP_MS, QUEUE_GET, QUEUE_GET_SIZE, RATE_STEP_MS
from mqcore.broker.transactions import HalfMessages
from mqcore.errors import MQError
from mqcore.model.groups import SCHEDULE_GROUP
from mqcore.model.topics import HALF_TOPIC, SCHEDULE_TOPIC
from mqcore.periodic import PeriodicTasks
from mqcore.remoting import Link

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("mqcore.broker")

_MS_PER_S = 1_000
# Distance of two looks for clients that are silent, as the official broker has it.
_EXPIRY_PERIOD_S = 10.0
# Distance of two looks for reactors with far more connections than others. The end of a connection
# is such a look too; this one is for those that were busy then.
_EVEN_OUT_PERIOD_S = 10.0
# Connections of silent clients that are closed in one turn of the loop: some milliseconds.
_CLOSED_PER_TURN = 64
# Distance of two writes of what groups have registered, as the official broker has it.
_FILTERS_PERIOD_S = 10.0
# The same of what was popped in order.
_ORDERS_PERIOD_S = 10.0
# Distance of two looks for what was refused: the audit is no later than that.
_REFUSALS_PERIOD_S = 1.0
# Messages delivered per call and level: some milliseconds of work.
_DELIVER_MAX = 1_024
# A level with nothing due is looked at this often at the least: what arrives meanwhile is due
# later than that, but for a clock that was set.
_LOOK_MAX_MS = 500
# A level that fails is logged once in so many failures, not ten times a second.
_LOG_EVERY = 60
# However small the settings are, what is repeated leaves the loop some time.
_PERIOD_MIN_S = 0.01


class Rounds:
    """The timetable of one broker.

    Attributes:
        due_ms: Until which store time plus delay messages of a level are due, by the level's
            length; None for the store's clock. A test lets messages age by it.
    """

    def __init__(self, state: BrokerState, persistence: ConfigPersistence) -> None:
        """Prepares; `start` begins."""
        self._state = state
        self._persistence = persistence
        self._failures = 0
        self.due_ms: Callable[[int], int] | None = None
        self._tasks = PeriodicTasks()
        # Those of a master. A step is the delivery of a level: offsets must not stay behind what
        # was stored.
        self._leading = PeriodicTasks()
        self._halves = HalfMessages(state, persistence)

    def start(self) -> None:
        """Begins the rounds of every role, each with a task of its own."""
        persistence, every = self._persistence, self._tasks.every
        every("save offsets", persistence.offsets.save, period_s=lambda: self._offsets_s)
        every("expire clients", self.expire, period_s=lambda: _EXPIRY_PERIOD_S)
        every("even out reactors", self.even_out, period_s=lambda: _EVEN_OUT_PERIOD_S)
        every("sample totals", self.sample_totals, period_s=lambda: RATE_STEP_MS / _MS_PER_S)
        every("refusals", self._state.access_log.look, period_s=lambda: _REFUSALS_PERIOD_S)
        every("accounts", self._state.access.look_at_plain, period_s=lambda: PLAIN_LOOK_S)
        every("sample", self.sample, period_s=lambda: MINUTE_STEP_MS / _MS_PER_S)
        if self._state.settings.mounted_dir:
            # Nothing is written for a store of somebody else.
            return
        every("save filters", persistence.save_filters, period_s=lambda: _FILTERS_PERIOD_S)
        every("save orders", persistence.save_orders, period_s=lambda: _ORDERS_PERIOD_S)
        every("save transaction counts", persistence.save_counts, period_s=lambda: self._counts_s)

    def lead(self) -> None:
        """Begins the rounds of a master: what it delivers and asks, slaves have with its log."""
        persistence, every = self._persistence, self._leading.every
        if self._state.settings.mounted_dir:
            # Nothing is delivered into a store of somebody else.
            return
        every("save delays", persistence.delays.save, period_s=lambda: self._delays_s)
        every("check transactions", self.check_transactions, period_s=lambda: self._checks_s)
        every("deliver delayed", self.deliver, period_s=self._until_look_s, first_s=0.0)
        _log.debug("rounds of a master began for %s", self._state.settings.name)

    async def stop(self) -> None:
        """Ends every round; a delivery that has begun is waited for."""
        await self.rest()
        await self._tasks.stop()

    async def rest(self) -> None:
        """Ends the rounds of a master; `lead` begins them again."""
        await self._leading.stop()

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

    async def expire(self) -> None:
        """Closes connections whose clients are silent; forgets locks that are free."""
        now_ms = self._state.now_ms()
        for at, link in enumerate(self._state.members.expired(now_ms)):
            if isinstance(link, Link):
                _log.info("%s sent no heartbeat for too long: closed", link.peer)
                link.abort()
            if at % _CLOSED_PER_TURN == _CLOSED_PER_TURN - 1:
                await asyncio.sleep(0)
        for gone in self._state.locks.forget_expired(now_ms):
            for group in gone:
                self._state.fast_path.set_group_lock(group, None)
            await asyncio.sleep(0)
        self._state.store.notices()

    async def even_out(self) -> None:
        """Moves idle connections between reactors whose numbers of them differ much."""
        self._state.fast_path.even_out_reactors()

    async def sample_totals(self) -> None:
        """Notes the totals of the whole broker."""
        sample_totals(self._state)

    async def sample(self) -> None:
        """Notes every counter; the first time where they begin."""
        sample_totals(self._state)
        await sampled(self._state)

    async def check_transactions(self, *, ahead_ms: int = 0) -> None:
        """Asks about the half messages that nobody ended; gives up those asked about too often.

        Args:
            ahead_ms: How much older than they are by the clock, for tests.
        """
        for queue_id in self._state.read_queues(HALF_TOPIC):
            check = await self._halves.begin(queue_id)
            while check.has_more:
                async with self._leading.step:
                    await check.go_on(ahead_ms)

    def _until_look_s(self) -> float:
        """Returns the pause until a level wants to be looked at."""
        return self._state.delays.until_look_ms(self._state.now_ms()) / _MS_PER_S

    async def deliver(self) -> None:
        """Delivers what is due of the levels that want to be looked at."""
        for level in self._state.delays.due(self._state.now_ms()):
            async with self._leading.step:
                await self._deliver_level(level)

    async def deliver_all(self) -> None:
        """Delivers everything that is due now, whenever its level wants to be looked at."""
        for level in self._state.delays.levels:
            has_more = True
            while has_more:
                async with self._leading.step:
                    has_more = await self._deliver_level(level)

    async def _deliver_level(self, level: int) -> bool:
        """Delivers what is due of one level; returns whether more may be.

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
                state.fast_path.deliver_due,
                level,
                max(offset, low),
                limit=_DELIVER_MAX,
                now_ms=due_ms,
            )
        except MQError as error:
            if self._failures % _LOG_EVERY == 0:
                _log.error("delay level %d cannot be delivered: %s", level, error.message)
            self._failures += 1
            state.delays.delivered(level, offset, now_ms + FAILED_MS, now_ms)
            return False
        self._failures = 0
        if done.skipped:
            _log.warning("delay level %d: %d messages could not be delivered", level, done.skipped)
        if done.count:
            key = f"{SCHEDULE_TOPIC}@{level - 1}@{SCHEDULE_GROUP}"
            state.tallies.add(QUEUE_GET, key, done.count)
            state.tallies.add(QUEUE_GET_SIZE, key, done.bytes, done.count)
        look_ms = now_ms + self._idle_ms(level)
        if done.has_more:
            look_ms = now_ms
        elif done.next_due_ms is not None:
            look_ms = min(max(done.next_due_ms, now_ms), now_ms + _LOOK_MAX_MS)
        state.delays.delivered(level, done.next_offset, look_ms, now_ms)
        return done.has_more

    def _idle_ms(self, level: int) -> int:
        return min(max(IDLE_MS, self._state.delays.length_ms(level) // 2), _LOOK_MAX_MS)
