"""Messages with a time of their own through a running broker, and what tools get of them."""

import functools
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from live_broker import Live, live
from loops import run_on
from mqcore.broker.delays import DelayTable, parse_levels
from mqcore.broker.timers import metrics_text, parse_metrics
from mqcore.errors import BadJsonError
from mqcore.model.versions import DataVersion
from mqcore.native import TimedTopic, decode_records
from mqcore.remoting import RequestCode, ResponseCode

STEP_MS = 100
TIMED = {"timerPrecisionMs": str(STEP_MS), "recallMessageEnable": "true"}
# A held pull ends when the message comes; this only bounds a broker that fails.
HOLD_MS = 20_000


def on_loop(test: Callable[[Path], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    """Makes a test of a coroutine function."""

    @functools.wraps(test)
    def run(tmp_path: Path) -> None:
        run_on("asyncio", test(tmp_path))

    return run


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def pulled(running: Live, offset: int) -> dict[str, int]:
    """Waits for messages; returns their bodies with their store times."""
    answer = await running.pull("t", offset, wait_ms=HOLD_MS)
    return {
        message.body.decode(): message.store_timestamp_ms for message in decode_records(answer.body)
    }


@on_loop
async def test_a_timed_message_comes_in_its_step_and_is_counted_meanwhile(tmp_path: Path) -> None:
    async with live(tmp_path, **TIMED) as running:
        await running.create("t")
        far = await running.send("t", b"far", TIMER_DELAY_SEC=3_600, UNIQ_KEY="F")
        deliver_ms = now_ms() + 350
        near = await running.send("t", b"near", TIMER_DELIVER_MS=deliver_ms, UNIQ_KEY="N")
        assert near.code == far.code == 0
        found = await pulled(running, 0)
        assert list(found) == ["near"]
        assert found["near"] >= -(-deliver_ms // STEP_MS) * STEP_MS
        counts = await running.json(RequestCode.GET_TIMER_METRICS)
        assert counts["timingCount"]["t"]["count"] == 1
        status = await running.json(RequestCode.GET_BROKER_RUNTIME_INFO)
        assert status["table"]["timerCongestNum"] == "1"
        assert status["table"]["timerOffsetBehind"] == "0"
    async with live(tmp_path, **TIMED) as running:
        point = await running.call(RequestCode.GET_TIMER_CHECK_POINT)
        counts = await running.json(RequestCode.GET_TIMER_METRICS)
        assert counts["timingCount"]["t"]["count"] == 1, "kept over a restart"
        assert len(point.body) == 56


@on_loop
async def test_a_recall_is_answered_with_the_key(tmp_path: Path) -> None:
    async with live(tmp_path, **TIMED) as running:
        await running.create("t")
        sent = await running.send("t", b"no", TIMER_DELAY_MS=1_500, UNIQ_KEY="K1")
        ext = {"producerGroup": "pg", "topic": "t", "recallHandle": sent.ext["recallHandle"]}
        answer = await running.call(RequestCode.RECALL_MESSAGE, ext)
        assert (answer.code, answer.ext["msgId"]) == (0, "K1")
        await running.send("t", b"yes", TIMER_DELAY_MS=1_700, UNIQ_KEY="K2")
        assert list(await pulled(running, 0)) == ["yes"]
        again = await running.call(RequestCode.RECALL_MESSAGE, ext)
        assert again.code == ResponseCode.ILLEGAL_OPERATION


@on_loop
async def test_recalls_and_timers_can_be_switched_off(tmp_path: Path) -> None:
    async with live(tmp_path, timerWheelEnable="false") as running:
        await running.create("t")
        refused = await running.send("t", b"x", TIMER_DELAY_MS=100)
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "timerWheelEnable is false" in (refused.remark or "")
        ext = {"producerGroup": "pg", "topic": "t", "recallHandle": "x"}
        answer = await running.call(RequestCode.RECALL_MESSAGE, ext)
        assert answer.code == ResponseCode.NO_PERMISSION
        metrics = await running.call(RequestCode.GET_TIMER_METRICS)
        assert metrics.remark == "The timer message store is null"
    assert not (tmp_path / "timerwheel").exists()


@on_loop
async def test_the_table_of_levels_changes_while_messages_wait(tmp_path: Path) -> None:
    async with live(tmp_path, messageDelayLevel="1h 2h") as running:
        await running.create("t")
        await running.send("t", b"first", DELAY=1)
        await running.send("t", b"second", DELAY=2)
        await running.settled()
        refused = await running.call(
            RequestCode.UPDATE_BROKER_CONFIG, body=b"messageDelayLevel=soon"
        )
        assert refused.code == ResponseCode.SYSTEM_ERROR
        changed = await running.call(RequestCode.UPDATE_BROKER_CONFIG, body=b"messageDelayLevel=1s")
        assert changed.code == 0
        assert list(await pulled(running, 0)) == ["first"], "longer than its level is now"
        await running.send("t", b"third", DELAY=99)
        assert list(await pulled(running, 1)) == ["third"], "the last level is the first"
    # The second waits for the time that it was given, although its level is gone.
    async with live(tmp_path, messageDelayLevel="1s") as running:
        assert list(running.broker.state.delays.levels) == [1, 2]
        running.broker.rounds.due_ms = lambda _length_ms: now_ms() + 7_200_000
        await running.broker.rounds.deliver_all()
        assert list(await pulled(running, 2)) == ["second"]


def test_levels_that_are_taken_away_are_followed_and_come_back_where_they_were() -> None:
    delays = DelayTable(parse_levels("1s 5s 10s"), 0)
    delays.delivered(3, 7, 9_000, 1)
    delays.change(parse_levels("2s"), 50)
    assert (list(delays.levels), delays.length_ms(3), delays.offset(3)) == ([1, 2, 3], 2_000, 7)
    assert delays.due(50) == [1, 2, 3], "looked at with the new lengths"
    again = DelayTable(parse_levels("2s"), 0)
    again.load(delays.text())
    again.need(3, 0)
    assert again.offset(3) == 7


def test_counts_are_written_as_the_official_broker_writes_them() -> None:
    version = DataVersion(counter=3, timestamp_ms=5)
    text = metrics_text([TimedTopic("t", 2, 4)], version)
    assert text == (
        b'{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":5},'
        b'"timingCount":{"t":{"count":2,"timeStamp":4}}}'
    )
    assert parse_metrics(text) == ([TimedTopic("t", 2, 4)], version)
    with pytest.raises(BadJsonError):
        parse_metrics(b'{"timingCount":3}')
