"""The window of pulls: every offset is answered once, in order, whatever brokers give."""

import random

import pytest

from mqcore.spark.topic_source.pull_window import PullWindow


@pytest.mark.parametrize("seed", range(60))
def test_answers_cover_the_range_once_and_in_order(seed: int) -> None:
    dice = random.Random(seed)
    start, end = 5, 5 + dice.choice([1, 40, 3000])
    window = PullWindow(start, end, count_max=dice.choice([1, 32, 4096]), depth=dice.choice([1, 8]))
    given, answered = dice.choice([1, 8, 32, 500]), start
    dropped = 0
    while not window.is_done:
        window.next_asks()
        head = window.head
        assert head is not None
        assert head.offset == answered
        assert head.offset + head.count <= end
        if dice.random() < 0.05:
            window.drop()
            continue
        answered += min(head.count, given if dice.random() < 0.9 else 1 + given // 2)
        dropped += not window.answered(answered)
    assert answered == end


def test_it_learns_what_brokers_give() -> None:
    window = PullWindow(0, 10_000, count_max=4096, depth=8)
    assert [ask.count for ask in window.next_asks()] == [4096], "one, until it is known"
    assert window.answered(32)
    asks = window.next_asks()
    assert [(ask.offset, ask.count) for ask in asks] == [(32 + 32 * n, 32) for n in range(8)]
    assert window.answered(64)
    assert [ask.offset for ask in window.next_asks()] == [32 + 32 * 8]


def test_a_short_answer_drops_the_pulls_behind_it() -> None:
    window = PullWindow(0, 10_000, count_max=4096, depth=4)
    window.next_asks()
    window.answered(32)
    window.next_asks()
    assert not window.answered(40)
    assert window.head is None
    assert window.next_asks()[0].offset == 40


def test_full_answers_let_it_ask_for_more() -> None:
    window = PullWindow(0, 100_000, count_max=64, depth=1)
    window.next_asks()
    window.answered(8)
    counts = []
    for _ in range(40):
        ask = window.next_asks()[0]
        counts.append(ask.count)
        window.answered(ask.offset + ask.count)
    assert counts[0] == 8
    assert counts[-1] == 32


def test_of_long_answers_two_are_under_way() -> None:
    window = PullWindow(0, 100_000, count_max=4096, depth=8)
    window.next_asks()
    window.answered(4096)
    assert len(window.next_asks()) == 2
