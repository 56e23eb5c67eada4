"""Plans: every offset once, none twice, tasks as long as they may be."""

import random

import pytest

from mqcore.model.queues import MessageQueue
from mqcore.spark.topic_source.planning import QueueRange, limited, plan

KIB = 1 << 10
MIB = 1 << 20


def queue(number: int, broker: str = "b") -> MessageQueue:
    return MessageQueue("t", broker, number)


def covered(tasks: list[list[QueueRange]]) -> list[tuple[MessageQueue, int]]:
    return [
        (part.queue, offset)
        for task in tasks
        for part in task
        for offset in range(part.start, part.end)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_each_offset_is_in_one_task(seed: int) -> None:
    dice = random.Random(seed)
    ranges = [
        QueueRange(queue(n, dice.choice("ab")), start, start + dice.choice([0, 1, 7, 300]), 100.0)
        for n, start in enumerate(dice.sample(range(1000), 6))
    ]
    tasks = plan(
        ranges,
        min_tasks=dice.choice([None, 1, 5, 50]),
        rows_max=dice.choice([None, 1, 13, 1000]),
        bytes_max=dice.choice([150, 5000, MIB]),
    )
    wanted = [(each.queue, at) for each in ranges for at in range(each.start, each.end)]
    assert sorted(covered(tasks)) == sorted(wanted)
    assert all(task and all(part.rows > 0 for part in task) for task in tasks)
    assert all(len({part.queue.broker_name for part in task}) == 1 for task in tasks)


def test_long_ranges_are_cut_and_tiny_ones_travel_together() -> None:
    long = QueueRange(queue(0), 0, 1000, row_bytes=KIB * 10)
    tiny = [QueueRange(queue(n), 0, 5, row_bytes=KIB) for n in (1, 2, 3)]
    tasks = plan([long, *tiny], bytes_max=4 * MIB)
    assert [len(task) for task in tasks] == [1, 1, 1, 3]
    assert [task[0].rows for task in tasks[:3]] == [333, 333, 334]


def test_rows_of_a_task_and_the_number_of_tasks_are_kept() -> None:
    ranges = [QueueRange(queue(n), 10, 110, row_bytes=1) for n in range(2)]
    assert {part.rows for task in plan(ranges, rows_max=25, bytes_max=MIB) for part in task} == {25}
    assert len(plan(ranges, min_tasks=8, bytes_max=MIB)) == 8
    assert len(plan(ranges, min_tasks=10_000, bytes_max=MIB)) == 200


def test_a_limit_is_shared_in_proportion_and_small_queues_do_not_starve() -> None:
    start = {queue(0): 0, queue(1): 0, queue(2): 5}
    end = {queue(0): 1000, queue(1): 2, queue(2): 5}
    assert limited(start, end, 100) == {queue(0): 99, queue(1): 1, queue(2): 5}
    assert limited(start, end, 5000) == end


def test_a_limit_of_bytes_counts_what_messages_take() -> None:
    start, end = {queue(0): 0, queue(1): 0}, {queue(0): 100, queue(1): 100}
    weights = {queue(0): 10.0, queue(1): 30.0}
    assert limited(start, end, 400, weights) == {queue(0): 10, queue(1): 10}
