"""When the timers are looked at: at the end of each step of time, and as messages come.

The work is the store's (`native.timers`), off the loop; their files are `broker/timer_files.py`'s.
The timers are opened with the first message that needs them, or where a store has their files.
"""

import asyncio
import logging
from typing import Final

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.state import BrokerState
from mqcore.model.topics import TIMER_TOPIC
from mqcore.native import Ticked
from mqcore.periodic import PeriodicTasks, log_error

_log = logging.getLogger("mqcore.broker")

_MS_PER_S: Final = 1_000
# Messages that came are entered this often, so that the end of a step has little to enter.
_LOOK_MS: Final = 100
# After a failure, as long as the official broker waits (`holdMomentForUnknownError`, 500 ms).
_FAILED_MS: Final = 500
# A failure that lasts is logged once in so many.
_LOG_EVERY: Final = 120
# Files of the timer log whose messages are gone are looked for this often, as officially.
_RETAIN_S: Final = 30.0


class TimerRounds:
    """The timetable of the timers of one broker."""

    def __init__(self, state: BrokerState, persistence: ConfigPersistence) -> None:
        """Prepares; `start` begins."""
        self._state = state
        self._persistence = persistence
        self._tasks = PeriodicTasks()

    def start(self) -> None:
        """Begins, unless the settings have no timers. For a master: a slave delivers nothing."""
        settings, every = self._state.settings, self._tasks.every
        if not settings.has_timers:
            return
        every(
            "deliver timed",
            self._tick,
            period_s=self._until_tick_s,
            first_s=max(0, settings.timers_silent_after_start_ms) / _MS_PER_S,
            retry_s=_FAILED_MS / _MS_PER_S,
            report=_report_tick,
        )
        every(
            "save timers",
            self._persistence.timers.save,
            period_s=lambda: self._until_save_ms() / _MS_PER_S,
        )
        every("old files of the timer log", self._retain, period_s=lambda: _RETAIN_S)

    async def stop(self) -> None:
        """Ends; a delivery that has begun is waited for."""
        await self._tasks.stop()

    def _now_ms(self) -> int:
        return self._state.now_ms() + self._state.timers_ahead_ms

    async def _tick(self) -> float | None:
        """Makes a round; returns the pause before the next: none while there is more."""
        done = await self.tick()
        return 0.0 if done is not None and done.has_more else None

    def _until_tick_s(self) -> float:
        """Returns the pause until the next round: to the end of the step, where that is nearer."""
        timers = self._state.timers
        step_ms = _MS_PER_S if timers is None else timers.step_ms
        # The time is read now: a round may have lasted to the end of the step.
        return min(_LOOK_MS, step_ms - self._now_ms() % step_ms) / _MS_PER_S

    def _until_save_ms(self) -> int:
        """Returns the pause until the next save: it falls into the calm part of a long step."""
        timers, pause_ms = self._state.timers, self._state.settings.timers_flush_ms
        step_ms = 0 if timers is None else timers.step_ms
        if not _MS_PER_S // 2 <= step_ms <= pause_ms:
            return pause_ms
        return pause_ms - (self._now_ms() + pause_ms - step_ms // 3) % step_ms

    async def tick(self) -> Ticked | None:
        """Enters what came, and delivers what is due; returns None where there was nothing to do.

        Raises:
            StoreError: Nothing could be done; the next call goes on there.
        """
        if not await self._is_open():
            return None
        timers = self._state.timers
        assert timers is not None
        if self._state.settings.timers_stopped or not timers.is_due(self._now_ms()):
            return None
        async with self._tasks.step:
            done = await asyncio.to_thread(timers.tick, self._now_ms())
        self._persistence.timers.moved()
        if done.skipped:
            _log.warning("%d timed messages could not be delivered", done.skipped)
        return done

    async def tick_all(self) -> None:
        """Enters and delivers until nothing is left to do now."""
        while True:
            done = await self.tick()
            if done is None or not done.has_more:
                return

    async def _is_open(self) -> bool:
        if self._state.timers is not None:
            return True
        if self._state.bounds(TIMER_TOPIC, 0)[1] == 0:
            return False
        async with self._tasks.step:
            # Somebody else may have opened them meanwhile.
            if self._state.timers is None:
                await asyncio.to_thread(self._persistence.timers.open, self._now_ms())
        return True

    async def _retain(self) -> None:
        """Removes files of the timer log whose messages are gone."""
        timers = self._state.timers
        if timers is not None:
            await asyncio.to_thread(timers.retain)


def _report_tick(error: Exception, failures: int) -> None:
    if failures % _LOG_EVERY == 0:
        log_error("timed messages cannot be delivered", error)
