"""The hand-overs of one broker under a controller: one at a time, and what is passed on after it.

Around `HandOver`, which does one; here are its task, its report, and the time for which requests
are passed on. Knows no step.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, Final

from mqcore.broker.app import Broker
from mqcore.broker.hand_over import Controller, HandOver, HandOverReport, Successor
from mqcore.errors import MQError, RefusedError
from mqcore.remoting import ResponseCode

__all__ = ["Succession"]

_log = logging.getLogger("mqcore.broker")

_MS_PER_S: Final = 1_000
# Where no client is registered, and none has asked for so long, nobody is left.
_QUIET_S: Final = 1.0
_LOOK_S: Final = 0.1


class Succession:
    """Hands the role of a broker over, and passes on what clients go on to send to it."""

    def __init__(
        self, broker: Callable[[], Broker | None], controller: Callable[[], Controller]
    ) -> None:
        """Takes who the broker and its controller are at the moment."""
        self._broker = broker
        self._controller = controller
        self._report = HandOverReport()
        self._work: HandOver | None = None
        self._task: asyncio.Task[None] | None = None
        self._opening: set[asyncio.Task[None]] = set()
        self._ending: asyncio.TimerHandle | None = None

    @property
    def is_at_rest(self) -> bool:
        """Whether the log of the master takes no append: another one may be followed as it is."""
        return self._work is not None and self._work.is_at_rest

    @property
    def report(self) -> dict[str, Any]:
        """How far the last hand-over is."""
        return self._report.to_json()

    async def begin(self, to: str, *, is_plan: bool) -> dict[str, Any]:
        """Begins one, or returns to whom the role would go; see `Elections.hand_over`."""
        work, successor = await self._chosen(to)
        if is_plan:
            return HandOverReport(successor=successor).to_json()
        self._report = work.report
        work.report.begin(successor, asyncio.get_running_loop().time())
        self._task = asyncio.get_running_loop().create_task(
            self._run_alone(work, successor), name="hand-over"
        )
        return self.report

    async def leave(self) -> None:
        """Hands the role over before the broker ends, and passes on until no client is left."""
        broker = self._broker()
        if broker is None or not broker.state.role.is_master:
            return
        if not broker.state.settings.hands_over_at_stop:
            return
        stop_ms = broker.state.settings.hand_over_stop_forward_ms
        try:
            work, successor = await self._chosen("")
            await self._run(work, successor, stop_ms)
        except MQError as error:
            _log.warning("the role of the master is not handed over: %s", error.message)
            return
        await self._until_quiet(stop_ms)

    async def stop(self) -> None:
        """Ends; a hand-over that is under way is taken back, where nobody is elected yet."""
        if self._ending is not None:
            self._ending.cancel()
        tasks = [*self._opening, *([] if self._task is None else [self._task])]
        self._task = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def opened(self, broker: Broker) -> None:
        """Goes on for a broker whose store was opened anew."""
        if self._ending is not None:
            broker.passing_on.park()

    def leads(self, broker: Broker) -> None:
        """Passes on no more: this broker is the master again."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        broker.passing_on.end()

    def followed(self, broker: Broker, address: str) -> None:
        """Passes on to an elected master, where requests wait for one, or went to another one."""
        if not broker.state.passes_on:
            return
        task = asyncio.get_running_loop().create_task(
            broker.passing_on.open_to(address), name="pass on"
        )
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    @property
    def _forward_ms(self) -> int:
        broker = self._broker()
        return 0 if broker is None else broker.state.settings.hand_over_forward_ms

    async def _chosen(self, to: str) -> tuple[HandOver, Successor]:
        broker = self._broker()
        if broker is None:
            raise _refused("the store is being opened anew")
        if self._report.phase == "running":
            raise _refused("a hand-over is under way")
        report = HandOverReport()
        work = HandOver(broker.hand_over_parts, self._controller(), report)
        successor = await work.choose(to)
        if self._report.phase == "running":
            raise _refused("a hand-over is under way")
        return work, successor

    async def _run_alone(self, work: HandOver, successor: Successor) -> None:
        """Does one that nobody waits for: what comes of it is in the report."""
        with contextlib.suppress(Exception):
            await self._run(work, successor, self._forward_ms)

    async def _run(self, work: HandOver, successor: Successor, forward_ms: int) -> None:
        self._work, self._report = work, work.report
        loop = asyncio.get_running_loop()
        try:
            await work.run(successor)
        except MQError as error:
            _log.error("the role of the master was not handed over: %s", error.message)
            raise
        except Exception:
            _log.exception("the role of the master was not handed over")
            raise
        finally:
            self._work = None
            broker = self._broker()
            if broker is not None and broker.state.passes_on:
                # Also where somebody else was elected meanwhile: clients do not know that yet.
                self._ending = loop.call_later(forward_ms / _MS_PER_S, self._end)

    def _end(self) -> None:
        """Passes on no more."""
        self._ending = None
        broker = self._broker()
        if broker is not None:
            with contextlib.suppress(RuntimeError):
                passing = broker.passing_on
                _log.info(
                    "%d requests were passed on to the master; of %d more nobody knows whether it "
                    "has done them",
                    passing.passed,
                    passing.unknown,
                )
                passing.end()

    async def _until_quiet(self, stop_ms: int) -> None:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + stop_ms / _MS_PER_S
        while loop.time() < end_s:
            broker = self._broker()
            if broker is None:
                return
            members, last_s = broker.state.members, broker.passing_on.last_s
            is_quiet = loop.time() - last_s > _QUIET_S
            if is_quiet and not members.producers and not members.consumers:
                return
            await asyncio.sleep(_LOOK_S)


def _refused(why: str) -> RefusedError:
    return RefusedError(why, code=ResponseCode.SYSTEM_ERROR)
