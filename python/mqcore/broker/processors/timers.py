"""How far the timers are, for replicas and tools."""

import asyncio
from collections.abc import Mapping

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.state import BrokerState
from mqcore.errors import RefusedError
from mqcore.native import Command
from mqcore.remoting import Handler, Request, RequestCode, ResponseCode

# The check point of a broker that never had a timer.
_NO_POINT = bytes(56)


class Timers:
    """Serves the requests about messages with a time of their own."""

    def __init__(self, state: BrokerState, persistence: ConfigPersistence) -> None:
        """Takes what it works on."""
        self._state = state
        self._persistence = persistence

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            RequestCode.GET_TIMER_CHECK_POINT: self.check_point,
            RequestCode.GET_TIMER_METRICS: self.metrics,
        }

    async def check_point(self, request: Request) -> Command:
        """60: how far was entered and delivered, as it is on the disk."""
        self._check("The checkpoint is null")
        timers = self._state.timers
        if timers is None:
            return request.answer(body=_NO_POINT)
        return request.answer(body=await asyncio.to_thread(timers.check_point))

    async def metrics(self, request: Request) -> Command:
        """61: how many messages of each topic wait."""
        self._check("The timer message store is null")
        return request.answer(body=await asyncio.to_thread(self._persistence.timers.metrics_text))

    def _check(self, remark: str) -> None:
        if not self._state.settings.has_timers:
            raise RefusedError(remark, code=ResponseCode.SYSTEM_ERROR)
