"""Transactions of a broker, over its socket: what is kept, who is asked, what is refused."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker.transactional import (
    CHECK_MAX,
    COMMIT,
    GIVEN_UP,
    HALF,
    OPS,
    ROLLBACK,
    SYSTEM_GROUP,
    Bench,
    Half,
)
from loops import run_on
from mqcore.broker.observation import snapshot
from mqcore.metrics.text import exposition
from mqcore.model.topics import TIMER_TOPIC
from mqcore.remoting import RequestCode, ResponseCode


def on(directory: Path, work: Callable[[Bench], Awaitable[None]], **keys: str) -> None:
    """Runs some work with a broker that has topic `T`."""

    async def run() -> None:
        bench = Bench(directory, keys)
        await bench.start()
        try:
            await bench.create("T")
            await work(bench)
        finally:
            await bench.stop()

    run_on("uvloop", run())


def test_a_wrong_end_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        half = await bench.half(b"one")
        for wrong, more in (
            (Half(0, 1 << 40), {}),
            (Half(7, half.physical_offset), {}),
            (Half(half.offset, half.physical_offset + 8), {}),
            (half, {"producerGroup": "other"}),
            (half, {"commitLogOffset": "-1"}),
            (half, {"tranStateTableOffset": "x"}),
        ):
            answer = await bench.end(wrong, COMMIT, **more)
            assert answer.code == 1
            assert answer.remark
        assert await bench.bodies() == []
        assert (await bench.end(half, COMMIT)).code == 0
        again = await bench.end(half, COMMIT)
        assert (again.code, again.remark) == (0, "the transaction was committed before")
        assert (await bench.end(half, ROLLBACK)).code == 1
        assert await bench.bodies() == [b"one"]

    on(tmp_path, work)


def test_offsets_of_a_round_outlive_a_crash(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        ended, _open = await bench.half(b"ended"), await bench.half(b"open")
        await bench.end(ended, ROLLBACK)
        await bench.check()
        assert [body for _, body in bench.asked] == [b"open"]
        await bench.kill()
        await bench.start()
        fast_path = bench.broker.state.fast_path
        assert [fast_path.offsets.find(SYSTEM_GROUP, topic, 0) for topic in (HALF, OPS)] == [2, 1]
        await bench.check()
        assert [body for _, body in bench.asked] == [b"open"]

    on(tmp_path, work)


def test_a_group_is_asked_when_it_is_back(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        await bench.half(b"one")
        await bench.leave()
        await bench.check()
        assert bench.asked == []
        await bench.come()
        await bench.check()
        [(half, body)] = bench.asked
        assert body == b"one"
        assert (await bench.end(half, COMMIT, fromTransactionCheck="true")).code == 0
        assert await bench.bodies() == [b"one"]
        assert bench.broker.state.checks == {"asked": 1, "nobody": 1, "given_up": 0}

    on(tmp_path, work)


def test_what_nobody_ends_is_given_up_into_a_topic_that_can_be_read(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        await bench.half(b"one")
        for _round in range(CHECK_MAX + 1):
            await bench.check()
        assert len(bench.asked) == CHECK_MAX
        topic = bench.broker.state.topics.find(GIVEN_UP)
        assert topic is not None
        assert (topic.read_queues, topic.perm) == (1, 6)
        assert await bench.bodies(GIVEN_UP) == [b"one"]
        assert await bench.is_all_checked()
        await bench.check()
        assert await bench.bodies(GIVEN_UP) == [b"one"]

    on(tmp_path, work)


def test_the_age_and_the_number_of_checks_are_settings(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        await bench.half(b"one")
        await bench.check(ahead_ms=30_000)
        assert bench.asked == []
        change = b"transactionTimeOut=20000\ntransactionCheckMax=1\n"
        answer = await bench.call(RequestCode.UPDATE_BROKER_CONFIG, {}, change)
        assert answer.code == 0, answer.remark
        await bench.check(ahead_ms=30_000)
        assert len(bench.asked) == 1
        await bench.check(ahead_ms=30_000)
        assert await bench.bodies(GIVEN_UP) == [b"one"]

    on(tmp_path, work, transactionTimeOut="60000")


def test_rounds_come_by_themselves(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        await bench.half(b"one")
        async with asyncio.timeout(30):
            while not bench.asked:  # noqa: ASYNC110 - the producer is asked over its connection
                await asyncio.sleep(0.01)

    on(tmp_path, work, transactionCheckInterval="20", transactionTimeOut="0")


def test_a_committed_message_with_a_time_of_its_own_waits_for_it(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        timed = await bench.half(b"timed", TIMER_DELAY_SEC=3_600)
        level = await bench.half(b"level", DELAY=3, TIMER_DELAY_SEC=3_600)
        never = await bench.half(b"never", TIMER_DELAY_SEC=1_000_000)
        for half in (timed, level):
            assert (await bench.end(half, COMMIT)).code == 0
        assert (await bench.end(never, COMMIT)).code == ResponseCode.MESSAGE_ILLEGAL
        assert await bench.bodies() == []
        [message] = await bench.messages(TIMER_TOPIC)
        meant = {name: message.properties[name] for name in ("REAL_TOPIC", "REAL_QID")}
        assert (message.body, meant) == (b"timed", {"REAL_TOPIC": "T", "REAL_QID": "0"})
        assert "TRAN_MSG" not in message.properties

        ahead_ms = 2 * 3_600_000
        bench.broker.state.timers_ahead_ms = ahead_ms
        bench.broker.rounds.due_ms = lambda _length_ms: bench.broker.state.now_ms() + ahead_ms
        await bench.broker.rounds.deliver_all()
        await bench.broker.timer_rounds.tick_all()
        assert sorted(await bench.bodies()) == [b"level", b"timed"]

    on(tmp_path, work)


@pytest.mark.parametrize("release", ["V4_9_8", "V5_3_3"])
def test_what_waits_is_counted_also_after_a_restart(tmp_path: Path, release: str) -> None:
    async def work(bench: Bench) -> None:
        halves = [await bench.half(b"%d" % at) for at in range(4)]
        await bench.end(halves[0], COMMIT)
        await bench.end(halves[1], ROLLBACK)
        text = exposition(await snapshot(bench.broker.state)).decode()
        for name, number in (
            ("rocketmq_half_messages", 2),
            ("rocketmq_commit_messages_total", 1),
            ("rocketmq_rollback_messages_total", 1),
        ):
            [line] = [line for line in text.splitlines() if line.startswith(name + "{")]
            assert 'topic="T"' in line
            assert line.endswith(f" {number}.0")
        await bench.stop()
        kept = json.loads((tmp_path / "config" / "transactionMetrics").read_text("utf-8"))
        assert kept["transactionCount"]["T"]["count"] == 2
        await bench.start()
        [count] = bench.broker.state.fast_path.half_messages.counts()
        assert (count.topic, count.waiting) == ("T", 2)
        await bench.check()
        assert sorted(body for _, body in bench.asked) == [b"2", b"3"]

    on(tmp_path, work, reportedVersion=release)


def waiting(bench: Bench) -> dict[str, int]:
    counts = bench.broker.state.fast_path.half_messages.counts()
    return {row.topic: row.waiting for row in counts}


def test_what_was_given_up_is_asked_about_again_and_committed(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        half = await bench.half(b"late")
        for _ in range(CHECK_MAX + 2):
            await bench.check()
        (given_up,) = await bench.messages(GIVEN_UP)
        assert given_up.body == b"late"
        assert waiting(bench) == {"T": 0}
        await bench.leave()
        await bench.come()
        bench.asked.clear()
        resume = RequestCode.RESUME_CHECK_HALF_MESSAGE
        answer = await bench.call(resume, {"topic": GIVEN_UP, "msgId": given_up.message_id})
        assert answer.code == 0, answer.remark
        assert waiting(bench) == {"T": 1}
        again = (await bench.messages(HALF))[-1]
        assert again.queue_offset > half.offset
        assert again.properties["TRANSACTION_CHECK_TIMES"] == "0"
        assert "TRAN_PREPARED_QUEUE_OFFSET" not in again.properties
        await bench.check()
        asked = [half for half, body in bench.asked if body == b"late"]
        assert len(asked) == 1
        assert (await bench.end(asked[0], COMMIT)).code == 0
        assert await bench.bodies() == [b"late"]

    on(tmp_path, work)


def test_only_what_was_given_up_is_asked_about_again(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        await bench.half(b"open")
        (half,) = await bench.messages(HALF)
        resume = RequestCode.RESUME_CHECK_HALF_MESSAGE
        for name, why in (
            (half.message_id, "only what is in"),
            ("zz", "Exception was thrown"),
            (half.message_id[:-2] + "ff", "Exception was thrown"),
        ):
            answer = await bench.call(resume, {"topic": HALF, "msgId": name})
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert why in (answer.remark or "")
        assert len(await bench.messages(HALF)) == 1

    on(tmp_path, work)
