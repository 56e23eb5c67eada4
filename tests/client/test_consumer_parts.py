"""The pure parts of consumers: queues between pull and commit, steps, outcomes, offsets, bodies."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.model_cluster import record_of
from loops import run_on, until
from mqcore.client.consume_statistics import ConsumeStatistics
from mqcore.client.handler_jobs import Job, TaskPool, ThreadPool, is_coroutine_handler, pool_for
from mqcore.client.offset_stores import LocalOffsets
from mqcore.client.offset_table import OffsetTable
from mqcore.client.outcomes import DONE, LEFT_OUT, Outcome, Reject, Retry, outcome_of, raised
from mqcore.client.process_queue import (
    ConcurrentQueue,
    FlowBounds,
    OrderlyQueue,
    Parcel,
    PolledQueue,
)
from mqcore.client.pulling import After, pull_fields, step_after
from mqcore.client.running_info import (
    consume_directly_body,
    consumer_status_body,
    queue_info,
    reset_offsets_of,
    running_info_body,
)
from mqcore.client.starting_offset import ConsumeFrom, starting_offset
from mqcore.client.subscribing import Sql, Subscriptions
from mqcore.errors import BadJsonError, StateFileError, UsageError
from mqcore.model.queues import MessageQueue
from mqcore.model.relaxed_json import parse_object
from mqcore.model.subscriptions import SubscriptionData
from mqcore.native import Command, decode_records

QUEUE = MessageQueue("T", "b", 0)


def parcel(offset: int, count: int = 1) -> Parcel[int]:
    return Parcel(list(range(offset, offset + count)), offset, offset + count - 1, count, 10)


@given(st.permutations(range(12)), st.integers(0, 3))
def test_what_is_committed_never_passes_an_open_message(order: list[int], gap: int) -> None:
    queue: ConcurrentQueue[int] = ConcurrentQueue(QUEUE, 0, 0)
    parcels = [parcel(number * (gap + 1)) for number in range(12)]
    end = 12 * (gap + 1) + 5
    queue.put(parcels[:6], 6 * (gap + 1))
    queue.put(parcels[6:], end)
    still_open = dict(enumerate(parcels))
    for number in order:
        assert queue.settle(still_open.pop(number), 7)
        expected = min((item.first_offset for item in still_open.values()), default=end)
        assert queue.commit_offset == expected
        assert queue.count == len(still_open)
        assert queue.body_bytes == 10 * len(still_open)
    assert not queue.settle(parcels[0], 8)
    assert queue.span == 0


def test_before_any_pull_there_is_nothing_to_commit() -> None:
    assert ConcurrentQueue(QUEUE, 7, 0).commit_offset is None
    assert OrderlyQueue(QUEUE, 7, 0).commit_offset is None
    assert PolledQueue(QUEUE, 7, 0, position=7).commit_offset is None


def test_flow_is_blocked_by_count_by_bytes_and_by_span() -> None:
    queue: ConcurrentQueue[int] = ConcurrentQueue(QUEUE, 0, 0)
    queue.put([parcel(0), parcel(100), parcel(101)], 102)
    assert queue.flow_block(FlowBounds(3, 30, 101)) is None
    assert queue.flow_block(FlowBounds(2, 30, 101)) == "3 messages wait"
    assert queue.flow_block(FlowBounds(3, 29, 101)) == "30 bytes wait"
    assert queue.flow_block(FlowBounds(3, 30, 100)) == "the oldest message is 101 offsets behind"


def test_a_call_that_takes_too_long_is_found() -> None:
    queue: ConcurrentQueue[int] = ConcurrentQueue(QUEUE, 0, 0)
    queue.put([parcel(0), parcel(1), parcel(2)], 3)
    first, second, _ = queue._parcels
    first.started_ms, second.started_ms = 100, 150
    assert list(queue.overdue(190, 60)) == [first]
    assert queue.has_running
    queue.settle(first, 200)
    assert list(queue.overdue(1000, 60)) == [second]


def test_an_orderly_queue_gives_commits_and_takes_back() -> None:
    queue: OrderlyQueue[int] = OrderlyQueue(QUEUE, 0, 0)
    queue.put([parcel(0), parcel(1)], 5)
    first = queue.take(1)
    assert first is not None
    assert queue.taken_range == (0, 0, 1)
    queue.rollback()
    assert queue.take(2) is first
    assert queue.commit() == 1
    assert queue.take(3) is not None
    # Nothing is behind it but what was not wanted.
    assert queue.commit() == 5
    assert (queue.count, queue.body_bytes, queue.commit()) == (0, 0, None)
    queue.put([], 9)
    assert queue.commit_offset == 9
    queue.is_locked, queue.last_lock_ms = True, 1000
    assert queue.has_lock(31_000)
    assert not queue.has_lock(31_001)


def test_a_polled_queue_settles_what_was_taken_before() -> None:
    queue: PolledQueue[int] = PolledQueue(QUEUE, 3, 0, position=3)
    queue.put([parcel(3), parcel(4)], 8)
    assert queue.take(0) is not None
    assert (queue.position, queue.commit_offset) == (4, None)
    queue.settle_taken()
    assert queue.commit_offset == 4
    assert queue.take(0) is not None
    assert (queue.position, queue.commit_offset) == (8, 4)
    queue.settle_taken()
    queue.put([], 20)
    assert (queue.position, queue.commit_offset) == (20, 20)


_FOUND = {"nextBeginOffset": "9", "suggestWhichBrokerId": "1", "maxOffset": "11"}


@pytest.mark.parametrize(
    ("code", "ext", "after", "pause_ms"),
    [
        (0, _FOUND, After.DELIVER, 0),
        (19, _FOUND, After.PULL_ON, 0),
        (20, _FOUND, After.PULL_ON, 0),
        (21, _FOUND, After.BEGIN_ANEW, 0),
        (0, {}, After.PAUSE, 3000),
        (21, {"nextBeginOffset": "x"}, After.PAUSE, 3000),
        (215, {}, After.PAUSE, 20),
        (24, {}, After.PAUSE, 3000),
        (28, {}, After.PAUSE, 3000),
        (17, {}, After.PAUSE, 3000),
        (1, {}, After.PAUSE, 3000),
    ],
)
def test_each_answer_has_its_step(
    code: int, ext: dict[str, str], after: After, pause_ms: int
) -> None:
    step = step_after(Command(code, ext=ext), 5)
    assert (step.after, step.pause_ms) == (after, pause_ms)
    if after is not After.PAUSE:
        assert (step.next_offset, step.broker_id) == (9, 1)
    assert step.wants_heartbeat == (code in (24, 28))


def test_a_pull_has_the_fields_of_the_official_client() -> None:
    data = SubscriptionData.of_expression("T", "a", 77)
    push = pull_fields("g", QUEUE, 5, data, count_max=32, commit_offset=4)
    assert push["sysFlag"] == "3"
    assert (push["subVersion"], push["commitOffset"]) == ("77", "4")
    assert "subscription" not in push
    lite = pull_fields("g", QUEUE, 5, data, count_max=10, sends_subscription=True, is_lite=True)
    assert lite["sysFlag"] == "22"
    assert (lite["subVersion"], lite["subscription"]) == ("0", "a")


def test_what_results_of_handlers_mean() -> None:
    assert outcome_of(None) is outcome_of(True) is DONE
    assert outcome_of(False) == Outcome(is_done=False)
    assert outcome_of(0).is_null
    assert "'x'" in outcome_of("x").why
    assert [Retry(delay).level for delay in (None, 0, 0.5, 1, 2, 60, 61, 7200, 9000)] == [
        *(0, 0, 1, 1, 2, 5, 6, 18, 18)
    ]
    assert raised(Reject("bad")) == Outcome(is_done=False, level=-1, why="bad")
    assert outcome_of(Retry(3)).delay_s == 3
    error = ValueError("no")
    assert raised(error).error is error
    with pytest.raises(ValueError, match="negative"):
        Retry(-1)


def test_offsets_that_a_store_does_not_know() -> None:
    table = OffsetTable()
    table.loaded(QUEUE, 5)
    assert table.unsaved() == {}
    table.update(QUEUE, 4)
    assert table.get(QUEUE) == 5
    table.update(QUEUE, 9)
    table.update(QUEUE, 3, may_fall=True)
    assert table.unsaved() == {QUEUE: 3}
    table.saved({QUEUE: 3})
    assert (table.unsaved(), table.of_topic("U"), table.of_topic("T")) == ({}, {}, {QUEUE: 3})
    table.remove(QUEUE)
    table.saved({QUEUE: 3})
    assert table.get(QUEUE) is None


def test_a_file_of_offsets_has_the_official_shape(tmp_path: Path) -> None:
    path = tmp_path / "client" / "g" / "offsets.json"
    other = MessageQueue("T", "b", 1)

    async def work() -> None:
        store = LocalOffsets(path)
        assert await store.load(QUEUE) is None
        assert await store.save({QUEUE: 5}) == {QUEUE: 5}
        await store.save({other: 7})
        assert await LocalOffsets(path).load(QUEUE) == 5
        text = '{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5,'
        assert path.read_text().startswith(text)
        # Torn, the generation before counts.
        path.write_text('{"offs')
        assert await LocalOffsets(path).load(QUEUE) == 5
        assert await LocalOffsets(path).load(other) is None
        path.with_name("offsets.json.bak").write_text("?")
        with pytest.raises(StateFileError, match="remove the file"):
            await LocalOffsets(path).load(QUEUE)

    run_on("asyncio", work())


class Queries:
    """Answers about offsets."""

    async def max_offset(self, queue: MessageQueue) -> int:
        del queue
        return 100

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        del queue
        return timestamp_ms


@pytest.mark.parametrize(
    ("topic", "stored", "where", "expected"),
    [
        ("T", 7, ConsumeFrom.LAST_OFFSET, 7),
        ("T", 0, ConsumeFrom.LAST_OFFSET, 0),
        ("T", None, ConsumeFrom.LAST_OFFSET, 100),
        ("%RETRY%g", None, ConsumeFrom.LAST_OFFSET, 0),
        ("T", None, ConsumeFrom.FIRST_OFFSET, 0),
        ("T", None, ConsumeFrom.TIMESTAMP, 55),
        ("%RETRY%g", None, ConsumeFrom.TIMESTAMP, 100),
    ],
)
def test_where_a_queue_begins(
    topic: str, stored: int | None, where: ConsumeFrom, expected: int
) -> None:
    queue = MessageQueue(topic, "b", 0)
    work = starting_offset(queue, stored, where, 55, Queries())
    assert run_on("asyncio", work) == expected


def test_bodies_for_brokers_are_the_official_ones() -> None:
    assert consumer_status_body({QUEUE: 3}) == (
        b'{"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"T"}:3}}'
    )
    failed = raised(ValueError("no"))
    assert json.loads(consume_directly_body(failed, is_orderly=True, took_ms=4)) == {
        "autoCommit": True,
        "consumeResult": "CR_THROW_EXCEPTION",
        "order": True,
        "remark": "ValueError: no",
        "spentTimeMills": 4,
    }
    results = [
        json.loads(consume_directly_body(o, is_orderly=False, took_ms=0))
        for o in (DONE, outcome_of(False), outcome_of("?"))
    ]
    assert [r["consumeResult"] for r in results] == ["CR_SUCCESS", "CR_LATER", "CR_RETURN_NULL"]
    state: ConcurrentQueue[int] = ConcurrentQueue(QUEUE, 0, 5)
    state.put([parcel(3), parcel(4)], 5)
    info = queue_info(state, 3, 1000)
    assert (info["cachedMsgMinOffset"], info["cachedMsgMaxOffset"]) == (3, 4)
    assert (info["cachedMsgCount"], info["lastPullTimestamp"], info["droped"]) == (2, 1005, False)
    body = running_info_body(
        properties={"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"},
        subscriptions=[SubscriptionData("T")],
        queues={QUEUE: info},
        statistics={"T": ConsumeStatistics().topic("T").to_json(0)},
    )
    assert b'"mqTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{' in body
    assert b"jstack" not in body
    assert parse_object(body)["statusTable"]["T"]["consumeOKTPS"] == 0.0


@pytest.mark.parametrize(
    "body",
    [
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:9}}',
        b'{"offsetTable":[{"brokerName":"b","offset":9,"queueId":0,"topic":"T"}]}',
        b'{"offsetTable":[[{"brokerName":"b","queueId":0,"topic":"T"},9]]}',
    ],
)
def test_a_reset_is_read_in_every_form(body: bytes) -> None:
    assert reset_offsets_of(body) == {QUEUE: 9}


def test_a_reset_that_is_none_is_an_error() -> None:
    assert reset_offsets_of(b"{}") == {}
    with pytest.raises(BadJsonError):
        reset_offsets_of(b"no")


def test_rates_are_those_of_the_last_minute() -> None:
    counters = ConsumeStatistics().topic("T")
    counters.pulled(60, 4, 0)
    counters.consumed(30, 6, 80, 4, 30_000)
    found = counters.to_json(59_000)
    assert (found["pullTPS"], found["pullRT"]) == (1.0, 4.0)
    assert (found["consumeOKTPS"], found["consumeFailedTPS"]) == (0.5, 0.1)
    assert (found["consumeRT"], found["consumeFailedMsgs"]) == (20.0, 6)
    late = counters.to_json(600_000)
    assert (late["pullTPS"], late["consumeFailedMsgs"]) == (0.0, 6)
    assert counters.to_json(4_000_000)["consumeFailedMsgs"] == 0


def test_pulls_ask_with_a_version_that_brokers_received() -> None:
    wanted = Subscriptions(lambda name: f"ns%{name}", retry_topic="%RETRY%g")
    wanted.add_all({"T": "a || b", "S": Sql("n > 1")})
    wanted.touch(100)
    asked = wanted.get("ns%T")
    assert asked is not None
    assert (asked.version, sorted(asked.tags)) == (0, ["a", "b"])
    wanted.mark_reported()
    assert [data.version for data in wanted.all] == [100, 100, 100]
    assert wanted.topics == {"%RETRY%g", "ns%T", "ns%S"}
    # Another expression must be known before anything is pulled by it.
    changed = wanted.add("T", "c")
    assert wanted.get("ns%T") == changed
    assert changed.version == 101
    wanted.remove("T")
    assert wanted.get("ns%T") is None
    with pytest.raises(UsageError, match="SQL expression is expected"):
        wanted.add("T", Sql(" "))


def test_a_record_of_the_model_is_one() -> None:
    (record,) = decode_records(record_of("T", 3, 7, b"body", reconsume_times=2))
    assert (record.topic, record.queue_id, record.queue_offset) == ("T", 3, 7)
    assert (record.body, record.reconsume_times) == (b"body", 2)


# Pools.


class Heard:
    """Jobs, and what came of them."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[Any, Outcome]] = []

    def job(self, argument: Any, *, begins: bool = True) -> Job:
        return Job(argument, self._finished, None, lambda _job, _now_ms: begins)

    def _finished(self, job: Job, outcome: Outcome, took_ms: int) -> None:
        del took_ms
        self.outcomes.append((job.argument, outcome))


def test_the_kind_of_a_handler_chooses_its_pool() -> None:
    async def coroutine(_: object) -> None:
        pass

    class Callable:
        async def __call__(self, _: object) -> None:
            pass

    assert is_coroutine_handler(coroutine)
    assert is_coroutine_handler(Callable())
    assert not is_coroutine_handler(print)
    assert isinstance(pool_for(coroutine, 1, "p"), TaskPool)
    assert isinstance(pool_for(print, 1, "p"), ThreadPool)


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_pool_judges_calls_and_leaves_out_what_is_not_wanted(*, is_plain: bool) -> None:
    def plain(number: int) -> Any:
        if number == 3:
            raise ValueError("three")
        return number == 1 or None

    async def coroutine(number: int) -> Any:
        await asyncio.sleep(0)
        return plain(number)

    async def work() -> None:
        heard = Heard()
        pool = pool_for(plain if is_plain else coroutine, 2, "p")
        pool.submit([heard.job(1), heard.job(2, begins=False), heard.job(3)])
        await until(lambda: len(heard.outcomes) == 2)
        by_number = dict(heard.outcomes)
        assert by_number[1] is DONE
        assert isinstance(by_number[3].error, ValueError)
        assert await pool.drain(1.0) == 0
        pool.submit([heard.job(4)])
        assert heard.outcomes[-1] == (4, LEFT_OUT)
        await pool.close()

    run_on("asyncio", work())


def test_hanging_calls_do_not_use_a_pool_up(caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()

    async def work() -> None:
        heard = Heard()

        def handler(number: int) -> None:
            if number < 2:
                release.wait(30.0)

        pool = ThreadPool(handler, 1, "p")
        for number in range(2):
            stuck = heard.job(number)
            pool.submit([stuck])
            await until(lambda stuck=stuck: stuck in pool._running)  # type: ignore[misc]
            if number == 0:
                pool.abandon(stuck)
        # One hangs; another may run instead: as many again as may run are left alone, no more.
        pool.submit([heard.job(2)])
        assert pool.running == 1
        release.set()
        await until(lambda: len(heard.outcomes) == 2)
        assert [number for number, _ in heard.outcomes] == [1, 2]
        await pool.close()

    run_on("asyncio", work())
    assert caplog.records == []


def test_a_coroutine_that_hangs_is_cancelled() -> None:
    async def work() -> None:
        heard = Heard()
        cancelled = asyncio.Event()

        async def handler(number: int) -> None:
            if number == 0:
                try:
                    await asyncio.sleep(1000.0)
                except asyncio.CancelledError:
                    cancelled.set()
                    raise

        pool = TaskPool(handler, 1, "p")
        stuck = heard.job(0)
        pool.submit([stuck, heard.job(1)])
        await until(lambda: pool.running == 1)
        pool.abandon(stuck)
        await cancelled.wait()
        await until(lambda: heard.outcomes == [(1, DONE)])
        await pool.close()

    run_on("asyncio", work())
