"""When the timers are looked at: at the end of each step of time, and as messages come.

The work is the store's (`native.timers`), off the loop; files are written by the keeper. The timers
are opened with the first message that needs them, or where a store has their files.
"""

import asyncio
import logging
from typing import Final

from mqcore.broker.keeper import Keeper
from mqcore.broker.state import BrokerState
from mqcore.broker.timetable import Timetable
from mqcore.errors import MQError
from mqcore.model.topics import TIMER_TOPIC
from mqcore.native import Ticked

_log = logging.getLogger("mqcore.broker")

_MS_PER_S: Final = 1_000
# Messages that came are entered this often, so that the end of a step has little to enter.
_LOOK_MS: Final = 100
# After a failure, as long as the official broker waits (`holdMomentForUnknownError`, 500 ms).
_FAILED_MS: Final = 500
# A failure that lasts is told of this often.
_TELL_EVERY: Final = 120
# Files of the timer log whose messages are gone are looked for this often, as officially.
_RETAIN_S: Final = 30.0


class TimerRounds:
    """The timetable of the timers of one broker."""

    def __init__(self, state: BrokerState, keeper: Keeper) -> None:
        """Prepares; `start` begins."""
        self._state = state
        self._keeper = keeper
        self._failures = 0
        self._timetable = Timetable()

    def start(self) -> None:
        """Begins, unless the settings have no timers."""
        if not self._state.settings.has_timers:
            return
        self._timetable.begin("deliver timed", self._tick_always())
        self._timetable.begin("save timers", self._save_always())
        self._timetable.begin("retain timers", self._retain_always())

    async def stop(self) -> None:
        """Ends; a delivery that has begun is waited for."""
        await self._timetable.stop()

    def _now_ms(self) -> int:
        return self._state.now_ms() + self._state.timers_ahead_ms

    async def _tick_always(self) -> None:
        settings = self._state.settings
        if settings.timers_silent_after_start_ms > 0:
            await asyncio.sleep(settings.timers_silent_after_start_ms / _MS_PER_S)
        while True:
            try:
                done = await self.tick()
                self._failures = 0
                # Taken now: a call may have lasted to the end of the step.
                pause_ms = 0 if done is not None and done.has_more else self._pause_ms()
            except MQError as error:
                if self._failures % _TELL_EVERY == 0:
                    _log.error("timed messages cannot be delivered: %s", error.message)
                self._failures += 1
                pause_ms = _FAILED_MS
            await asyncio.sleep(pause_ms / _MS_PER_S)

    def _pause_ms(self) -> int:
        """Returns how long until the next look: to the end of the step, where that is nearer."""
        timers = self._state.timers
        step_ms = _MS_PER_S if timers is None else timers.step_ms
        return min(_LOOK_MS, step_ms - self._now_ms() % step_ms)

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
        async with self._timetable.busy:
            done = await asyncio.to_thread(timers.tick, self._now_ms())
        self._keeper.timers_moved()
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
        async with self._timetable.busy:
            # Somebody else may have opened them meanwhile.
            if self._state.timers is None:
                await asyncio.to_thread(self._keeper.open_timers, self._now_ms())
        return True

    async def _save_always(self) -> None:
        while True:
            await asyncio.sleep(self._until_save_ms() / _MS_PER_S)
            try:
                await self._keeper.save_timers()
            except MQError as error:
                _log.error("save timers: %s", error.message)

    async def _retain_always(self) -> None:
        while True:
            await asyncio.sleep(_RETAIN_S)
            timers = self._state.timers
            if timers is None:
                continue
            try:
                await asyncio.to_thread(timers.retain)
            except MQError as error:
                _log.error("old files of the timer log: %s", error.message)
