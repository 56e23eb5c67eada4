"""A slave's timers follow those of its master, to go on where it was (`SlaveSynchronize`).

The wheel is kept full, nothing is delivered. How far the master is counts only when the log has
what the master had delivered by then: an official slave takes the check point at once, and what
the master delivered last is delivered by nobody when it dies. Under a controller so much must be
confirmed: a log may be cut behind that.
"""

import asyncio
import struct
from dataclasses import dataclass
from typing import Final

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.replication.asking import MasterCalls, report_as
from mqcore.broker.settled import reign_of
from mqcore.broker.state import BrokerState
from mqcore.broker.timers import parse_metrics
from mqcore.errors import BadJsonError
from mqcore.model.reading import as_int
from mqcore.model.relaxed_json import parse_object
from mqcore.model.topics import TIMER_TOPIC
from mqcore.periodic import PeriodicTasks
from mqcore.remoting import RequestCode, ResponseCode, expect

__all__ = ["MasterPoint", "TimersOfMaster"]

# As often as a master writes its check point; an official slave asks every 3 s.
_PERIOD_S: Final = 1.0
# `TimerCheckpoint`: read time, end of the timer log, queue offset, the same of the master, version.
_POINT: Final = struct.Struct(">7q")


@dataclass(frozen=True, slots=True)
class MasterPoint:
    """How far the timers of a master were at one moment.

    Attributes:
        read_ms: The slots before it were delivered, Unix ms.
        queue_offset: What is before it in the queue of the timers was entered.
        log_end: The log of the master ended no farther than here.
    """

    read_ms: int
    queue_offset: int
    log_end: int

    @staticmethod
    def of(check_point: bytes, ha_status: bytes) -> "MasterPoint | None":
        """Reads a check point and the status that was asked for behind it.

        Returns:
            None for a master that never had a timer.

        Raises:
            BadJsonError: One of them cannot be read.
        """
        if len(check_point) < _POINT.size:
            raise BadJsonError(f"a check point of {len(check_point)} bytes")
        read_ms, _, queue_offset, *_rest = _POINT.unpack_from(check_point)
        if read_ms <= 0 or queue_offset < 0:
            return None
        status = parse_object(ha_status)
        if status.get("master") is not True:
            raise BadJsonError("it is no master")
        return MasterPoint(read_ms, queue_offset, as_int(status.get("masterCommitLogMaxOffset")))


class TimersOfMaster:
    """Follows the timers of a master."""

    def __init__(self, state: BrokerState, persistence: ConfigPersistence) -> None:
        """Prepares; `start` begins."""
        self._state = state
        self._persistence = persistence
        self._calls = MasterCalls(state)
        self._tasks = PeriodicTasks()
        self._ahead: MasterPoint | None = None
        # The master that it is of.
        self._reign = reign_of(state)

    def start(self) -> None:
        """Begins, unless the settings have no timers."""
        settings, every = self._state.settings, self._tasks.every
        if not settings.has_timers:
            return
        every(
            "timers of the master",
            self._round,
            period_s=lambda: _PERIOD_S,
            report=report_as("the timers of the master are not followed"),
        )
        every(
            "save timers",
            self._persistence.timers.save,
            period_s=lambda: settings.timers_flush_ms / 1_000,
        )

    async def stop(self) -> None:
        """Ends; what has begun is waited for."""
        await self._tasks.stop()
        await self._calls.close()

    async def _round(self) -> None:
        await self.follow()

    async def follow(self) -> bool:
        """Asks the master how far it is, and goes on as far as the log allows.

        Returns:
            Whether the timers are where the master was when it was asked last.

        Raises:
            MQError: The master did not answer, or something could not be read or written.
        """
        address = self._calls.address
        if not address:
            return False
        if self._reign != reign_of(self._state):
            # What another one had delivered may have been cut off the log.
            self._reign, self._ahead = reign_of(self._state), None
        if self._ahead is None:
            self._ahead = await self._asked(address)
            if self._reign != reign_of(self._state):
                return False
        ahead = self._ahead
        settled = self._state.replicas.settled(self._state.store.stats().appended)
        if ahead is None or settled < ahead.log_end:
            return False
        if not await self._is_open():
            return False
        timers = self._state.timers
        assert timers is not None
        async with self._tasks.step:
            done = await asyncio.to_thread(
                timers.follow_master, ahead.read_ms, ahead.queue_offset, self._state.now_ms()
            )
        self._persistence.timers.moved()
        progress = await asyncio.to_thread(timers.progress)
        if progress.queue_offset > ahead.queue_offset:
            # We were the master, or that of another one: this one has to enter what we have first.
            self._ahead = None
        if done.has_more or progress.queue_offset != ahead.queue_offset:
            return False
        self._ahead = None
        metrics = await self._calls.ask(address, RequestCode.GET_TIMER_METRICS)
        topics, _ = parse_metrics(expect(metrics, address).body)
        await asyncio.to_thread(timers.set_waiting, list(topics))
        return True

    async def _asked(self, address: str) -> MasterPoint | None:
        answer = await self._calls.ask(address, RequestCode.GET_TIMER_CHECK_POINT)
        if answer.code in _HAS_NONE:
            return None
        status = await self._calls.ask(address, RequestCode.GET_BROKER_HA_STATUS)
        bodies = expect(answer, address).body, expect(status, address).body
        try:
            return MasterPoint.of(*bodies)
        except BadJsonError as error:
            raise BadJsonError(f"the timers of {address}: {error}") from error

    async def _is_open(self) -> bool:
        if self._state.timers is None and self._state.bounds(TIMER_TOPIC, 0)[1] > 0:
            async with self._tasks.step:
                await asyncio.to_thread(self._persistence.timers.open, self._state.now_ms())
        return self._state.timers is not None


# What a master answers that has no timers: switched off, or a release without them.
_HAS_NONE = (ResponseCode.SYSTEM_ERROR, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
