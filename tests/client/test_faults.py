"""Which broker is left alone for how long, and which queue is next."""

import pytest

from client.serving import scripted
from loops import run_on
from mqcore import OFFICIAL_49, OFFICIAL_53, FaultStrategy, FaultTable, Message, aio
from mqcore.client.detecting import detect_once
from mqcore.client.faults import Outcome, QueueChoice
from mqcore.client.results import QueueRef
from mqcore.clock import monotonic_ms
from mqcore.remoting import RequestCode

QUEUES = tuple(QueueRef("t", name, at) for name in ("a", "b") for at in range(2))


@pytest.mark.parametrize(
    ("table", "latency_ms", "isolation_ms"),
    [
        (OFFICIAL_53, 0, 0),
        (OFFICIAL_53, 549, 0),
        (OFFICIAL_53, 550, 2000),
        (OFFICIAL_53, 1800, 5000),
        (OFFICIAL_53, 10_000, 10_000),
        (OFFICIAL_53, 20_000, 30_000),
        (OFFICIAL_49, 549, 0),
        (OFFICIAL_49, 550, 30_000),
        (OFFICIAL_49, 1000, 60_000),
        (OFFICIAL_49, 2999, 120_000),
        (OFFICIAL_49, 3000, 180_000),
        (OFFICIAL_49, 30_000, 600_000),
    ],
)
def test_the_tables_are_the_official_ones(
    table: FaultTable, latency_ms: int, isolation_ms: int
) -> None:
    assert table.isolation(latency_ms) == isolation_ms


def test_a_failed_try_counts_as_a_slow_one() -> None:
    faults = FaultStrategy()
    faults.note("a", 3, Outcome(is_failed=True), 1000)
    assert not faults.is_available("a", 10_999)
    assert faults.is_available("a", 11_000)
    assert faults.is_available("b", 0)
    # A quick answer does not end the time of who was slow.
    faults.note("a", 1, Outcome(), 2000)
    assert not faults.is_available("a", 10_999)


def test_who_is_left_alone_is_not_chosen_while_there_is_another() -> None:
    faults, choice = FaultStrategy(), QueueChoice()
    faults.note("a", 600, Outcome(), 0)
    chosen = {choice.next(QUEUES, faults=faults, now_ms=1).broker_name for _ in range(20)}
    assert chosen == {"b"}
    later = {choice.next(QUEUES, faults=faults, now_ms=2000).broker_name for _ in range(20)}
    assert later == {"a", "b"}


def test_somebody_is_picked_when_all_are_away() -> None:
    faults, choice = FaultStrategy(), QueueChoice()
    faults.note("a", 600, Outcome(), 0)
    faults.note("b", 600, Outcome(is_reachable=False), 0)
    chosen = {choice.next(QUEUES, faults=faults, now_ms=1).broker_name for _ in range(20)}
    assert chosen == {"a"}
    faults.note("a", 600, Outcome(is_reachable=False), 0)
    assert faults.pick_one_at_least() is None
    # Nobody is left: any queue is better than none.
    assert choice.next(QUEUES, faults=faults, now_ms=1) in QUEUES


def test_the_detector_lets_a_broker_back() -> None:
    faults = FaultStrategy(detector=True, detect_interval_ms=2000)
    faults.note("a", 3, Outcome(is_failed=True, is_reachable=False), 0)
    assert faults.due_for_detection(0) == ["a"]
    assert faults.due_for_detection(1999) == []
    assert faults.due_for_detection(2000) == ["a"]
    assert not faults.is_reachable("a")
    faults.detected("a")
    assert faults.is_reachable("a")
    faults.forget("a")
    assert faults.due_for_detection(9000) == []


def test_a_broker_that_answers_the_detector_is_used_again() -> None:
    async def work() -> None:
        with scripted(brokers=2) as server:
            faults = FaultStrategy(detector=True)
            async with aio.Producer(server.address, group="pg", faults=faults) as producer:
                await producer.send(Message("t", b"x"))
                faults.note("b1", 3, Outcome(is_failed=True, is_reachable=False), monotonic_ms())
                faults.note("gone", 3, Outcome(is_failed=True, is_reachable=False), monotonic_ms())
                await detect_once(producer.instance, producer.sender, faults)
                assert faults.is_reachable("b1")
                # Nobody knows an address of it: it is forgotten.
                assert faults.is_reachable("gone")
                assert RequestCode.GET_MAX_OFFSET in server.codes()

    run_on("asyncio", work())


def test_queues_go_round_and_a_retry_goes_elsewhere() -> None:
    choice = QueueChoice()
    first = [choice.next(QUEUES) for _ in range(4)]
    assert sorted(first) == sorted(QUEUES)
    assert [choice.next(QUEUES) for _ in range(4)] == first
    assert {choice.next(QUEUES, last_broker="a").broker_name for _ in range(9)} == {"b"}
    alone = QUEUES[:2]
    assert choice.next(alone, last_broker="a") in alone


def test_producers_begin_at_random() -> None:
    # One in four thousand million would begin alike by chance.
    assert len({QueueChoice().next(tuple(QUEUES) * 1000) for _ in range(16)}) > 1
