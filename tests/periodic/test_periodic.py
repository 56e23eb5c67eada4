"""Periodic work on a loop with a manual clock: when it runs, what errors do, how it stops."""

import asyncio

import pytest

from loops import run_on_manual_clock as run
from mqcore.errors import MQError
from mqcore.periodic import PeriodicTask, PeriodicTasks


def now_s() -> float:
    return round(asyncio.get_running_loop().time(), 6)


class Noted:
    """Work that notes when it began; each run does the next of its steps."""

    def __init__(self, *steps: float | Exception | None, lasts_s: float = 0.0) -> None:
        self.began: list[float] = []
        self.ended: list[float] = []
        self._steps = list(steps)
        self._lasts_s = lasts_s

    async def __call__(self) -> float | None:
        self.began.append(now_s())
        await asyncio.sleep(self._lasts_s)
        step = self._steps.pop(0) if self._steps else None
        if isinstance(step, Exception):
            raise step
        self.ended.append(now_s())
        return step


def test_work_comes_after_each_period() -> None:
    async def work() -> None:
        noted = Noted(lasts_s=1.0)
        task = PeriodicTask("t", noted, period_s=lambda: 10.0)
        task.start()
        task.start()
        await asyncio.sleep(35)
        assert noted.began == [10.0, 21.0, 32.0]
        await task.stop()
        await asyncio.sleep(100)
        assert len(noted.began) == 3

    run(work())


def test_the_first_run_may_come_sooner_or_later() -> None:
    async def work() -> None:
        tasks, at_once, late = PeriodicTasks(), Noted(), Noted()
        tasks.every("at once", at_once, period_s=lambda: 5.0, first_s=0.0)
        tasks.every("late", late, period_s=lambda: 5.0, first_s=12.0)
        await asyncio.sleep(18)
        await tasks.stop()
        assert at_once.began == [0.0, 5.0, 10.0, 15.0]
        assert late.began == [12.0, 17.0]

    run(work())


def test_a_changed_period_holds_from_the_next_pause() -> None:
    async def work() -> None:
        noted, period_s = Noted(), [1.0]
        task = PeriodicTask("t", noted, period_s=lambda: period_s[0])
        task.start()
        await asyncio.sleep(1.5)
        period_s[0] = 4.0
        await asyncio.sleep(6)
        await task.stop()
        assert noted.began == [1.0, 2.0, 6.0]

    run(work())


def test_work_may_choose_when_it_comes_again() -> None:
    async def work() -> None:
        noted = Noted(0.0, 0.5, None)
        task = PeriodicTask("t", noted, period_s=lambda: 10.0, first_s=0.0)
        task.start()
        await asyncio.sleep(20)
        await task.stop()
        assert noted.began == [0.0, 0.0, 0.5, 10.5]

    run(work())


def test_work_may_be_a_plain_function() -> None:
    async def work() -> None:
        began: list[float] = []
        task = PeriodicTask("t", lambda: began.append(now_s()), period_s=lambda: 3.0)
        task.start()
        await asyncio.sleep(7)
        await task.stop()
        assert began == [3.0, 6.0]

    run(work())


def test_an_error_is_logged_and_the_work_comes_again(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        noted = Noted(MQError("the disk is full"), ValueError("a fault of ours"), None)
        task = PeriodicTask("save", noted, period_s=lambda: 2.0)
        task.start()
        await asyncio.sleep(7)
        await task.stop()
        assert noted.began == [2.0, 4.0, 6.0]

    run(work())
    first, second = caplog.records
    assert first.getMessage() == "save: the disk is full"
    assert first.exc_info is None
    assert second.getMessage() == "save failed"
    assert second.exc_info is not None


def test_a_failure_has_a_pause_and_a_report_of_its_own() -> None:
    reports: list[tuple[str, int]] = []

    async def work() -> None:
        noted = Noted(MQError("a"), MQError("b"), None, MQError("c"))
        task = PeriodicTask(
            "t",
            noted,
            period_s=lambda: 10.0,
            first_s=0.0,
            retry_s=1.0,
            report=lambda error, failures: reports.append((str(error), failures)),
        )
        task.start()
        await asyncio.sleep(14)
        await task.stop()
        assert noted.began == [0.0, 1.0, 2.0, 12.0, 13.0]

    run(work())
    assert reports == [("a", 0), ("b", 1), ("c", 0)]


def test_a_pause_is_ended_by_a_wake_but_not_that_after_a_failure() -> None:
    async def work() -> None:
        noted = Noted(None, MQError("a"), None)
        task = PeriodicTask("t", noted, period_s=lambda: 100.0, first_s=0.0, retry_s=4.5)
        task.start()
        for _ in range(7):
            await asyncio.sleep(1)
            task.wake()
        await asyncio.sleep(0.5)
        await task.stop()
        assert noted.began == [0.0, 1.0, 5.5, 6.0, 7.0]

    run(work())


def test_a_wake_during_the_work_brings_it_again_at_once() -> None:
    async def work() -> None:
        noted = Noted(lasts_s=2.0)
        task = PeriodicTask("t", noted, period_s=lambda: 100.0, first_s=0.0)
        task.start()
        await asyncio.sleep(1)
        task.wake()
        await asyncio.sleep(10)
        await task.stop()
        assert noted.began == [0.0, 2.0]

    run(work())


def test_a_stop_waits_for_a_step_and_for_the_end_of_every_task() -> None:
    async def work() -> None:
        tasks, steps, other = PeriodicTasks(), Noted(lasts_s=5.0), Noted(lasts_s=5.0)

        async def in_step() -> None:
            async with tasks.step:
                await steps()

        tasks.every("steps", in_step, period_s=lambda: 1.0)
        tasks.every("other", other, period_s=lambda: 1.0)
        await asyncio.sleep(3)
        await tasks.stop()
        assert now_s() == 6.0
        assert (steps.began, steps.ended) == ([1.0], [6.0])
        assert other.began[0] == 1.0
        await tasks.stop()
        await asyncio.sleep(100)
        assert len(steps.began) == 1
        assert len(other.began) <= 2

    run(work())


def test_a_cancelled_run_may_clean_up_before_a_stop_returns() -> None:
    async def work() -> None:
        cleaned: list[float] = []

        async def job() -> None:
            try:
                await asyncio.sleep(1_000)
            finally:
                await asyncio.sleep(2)
                cleaned.append(now_s())

        task = PeriodicTask("t", job, period_s=lambda: 1.0, first_s=0.0)
        task.start()
        await asyncio.sleep(1)
        await task.stop()
        assert cleaned == [3.0]

    run(work())


@pytest.mark.parametrize("fails", [False, True])
def test_work_may_stop_its_own_task_and_is_done_to_its_end(*, fails: bool) -> None:
    async def work() -> None:
        ended: list[float] = []

        async def job() -> None:
            await task.stop()
            await asyncio.sleep(1)
            ended.append(now_s())
            if fails:
                raise MQError("the last one")

        task = PeriodicTask("t", job, period_s=lambda: 2.0)
        task.start()
        await asyncio.sleep(10)
        assert ended == [3.0]
        # No pause is under way any more either.
        assert asyncio.all_tasks() == {asyncio.current_task()}
        task.start()
        await asyncio.sleep(10)
        assert ended == [3.0, 13.0]

    run(work())
