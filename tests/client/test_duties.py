"""What a client does beside the calls of its user: again and again, or once."""

import asyncio

import pytest

from loops import run_on_manual_clock as run
from mqcore.client import detecting
from mqcore.client.detecting import detector
from mqcore.client.duties import Duties
from mqcore.client.faults import FaultStrategy
from mqcore.client.instance import Instance
from mqcore.client.sender import Sender
from mqcore.client.settings import ProducerSettings
from mqcore.errors import MQError


def now_s() -> float:
    return round(asyncio.get_running_loop().time(), 6)


def test_what_is_periodic_comes_after_each_interval_until_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        began: list[float] = []
        duties = Duties()

        async def job() -> None:
            began.append(now_s())
            if len(began) == 2:
                raise MQError("one that failed")

        duties.every(5.0, "a job", job)
        assert await duties.until_idle(1.0)
        await asyncio.sleep(17)
        await duties.close()
        await asyncio.sleep(100)
        assert began == [5.0, 10.0, 15.0]

    run(work())
    (record,) = caplog.records
    # A failure of the network is a line; what nobody expected comes with its trace.
    assert record.getMessage() == "a job failed: one that failed"
    assert not record.exc_info


def test_what_is_done_once_is_waited_for_or_cut_off() -> None:
    async def work() -> None:
        done: list[str] = []
        duties = Duties()

        async def job(name: str, lasts_s: float) -> None:
            await asyncio.sleep(lasts_s)
            done.append(name)

        duties.once("short", lambda: job("short", 1.0))
        duties.once("short", lambda: job("short", 1.0))
        duties.spawn("long", job("long", 9.0))
        assert not await duties.until_idle(2.0)
        assert done == ["short"]
        await duties.close()
        assert done == ["short"]
        assert await duties.until_idle(2.0)

    run(work())


def test_a_duty_may_close_its_owner() -> None:
    async def work() -> None:
        ended: list[str] = []
        duties = Duties()

        async def job(name: str, *, closes: bool) -> None:
            if closes:
                await duties.close()
            await asyncio.sleep(1)
            ended.append(name)

        duties.every(5.0, "closes", lambda: job("closes", closes=True))
        duties.every(20.0, "other", lambda: job("other", closes=False))
        await asyncio.sleep(100)
        assert ended == ["closes"]

    run(work())


def test_a_detection_that_fails_is_not_the_last(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    began: list[float] = []

    async def fails(_instance: Instance, _sender: Sender, _faults: FaultStrategy) -> None:
        began.append(now_s())
        raise MQError("the client is not started")

    async def work() -> None:
        instance = Instance("127.0.0.1:1")
        faults = FaultStrategy(detector=True)
        task = detector(instance, Sender(instance, "pg", ProducerSettings(), faults=faults), faults)
        task.start()
        await asyncio.sleep(7)
        await task.stop()

    monkeypatch.setattr(detecting, "detect_once", fails)
    run(work())
    assert began == [3.0, 6.0]
    assert [record.getMessage() for record in caplog.records] == [
        "detect brokers: the client is not started"
    ] * 2
