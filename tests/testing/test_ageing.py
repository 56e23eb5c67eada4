"""The clock of delayed messages: what was stored before an advance is older, nothing else is."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from mqcore.testing.ageing import Ageing

SECOND = 1_000


def is_due(ageing: Ageing, stored_ms: int, length_ms: int, wall_ms: int) -> bool:
    return stored_ms + length_ms <= ageing.due_ms(length_ms, wall_ms)


def test_without_an_advance_the_wall_clock_counts() -> None:
    assert Ageing().due_ms(10 * SECOND, 1_000_000) == 1_000_000


def test_what_was_stored_before_is_older() -> None:
    ageing = Ageing()
    ageing.advance(10 * SECOND, 100_000)
    assert is_due(ageing, 100_000, 10 * SECOND, 100_001)
    assert not is_due(ageing, 100_000, 10 * SECOND + 2, 100_001)


def test_what_is_stored_afterwards_is_not() -> None:
    ageing = Ageing()
    ageing.advance(60 * SECOND, 100_000)
    assert not is_due(ageing, 100_001, 10 * SECOND, 100_002)
    assert not is_due(ageing, 100_001, 10 * SECOND, 110_000)
    assert is_due(ageing, 100_001, 10 * SECOND, 110_001)


def test_advances_add_up() -> None:
    ageing = Ageing()
    ageing.advance(5 * SECOND, 100_000)
    assert not is_due(ageing, 99_000, 10 * SECOND, 100_001)
    ageing.advance(5 * SECOND, 101_000)
    assert is_due(ageing, 99_000, 10 * SECOND, 101_001)
    assert not is_due(ageing, 100_500, 10 * SECOND, 101_001)


@given(
    jumps=st.lists(st.tuples(st.integers(1, 50), st.integers(0, 80)), max_size=5),
    length_ms=st.integers(1, 100),
    stored_ms=st.integers(0, 300),
    more_ms=st.integers(1, 200),
)
def test_a_message_is_due_when_its_age_is_its_delay(
    jumps: list[tuple[int, int]], length_ms: int, stored_ms: int, more_ms: int
) -> None:
    ageing, now_ms, at = Ageing(), 0, []
    for pause_ms, by_ms in jumps:
        now_ms += pause_ms
        ageing.advance(by_ms, now_ms)
        at.append((now_ms, by_ms))
    now_ms += more_ms
    age_ms = now_ms - stored_ms + sum(by_ms for when, by_ms in at if stored_ms <= when)
    assert is_due(ageing, stored_ms, length_ms, now_ms) == (
        stored_ms <= now_ms and age_ms >= length_ms
    )


def test_the_limit_never_falls_behind_the_wall_clock() -> None:
    # A broker takes a due time that is further away than the delay for that of a clock that
    # stepped, and delivers: the limit must not make it so.
    ageing = Ageing()
    for wall_ms, length_ms in itertools.product(range(0, 200, 7), range(1, 100, 9)):
        if wall_ms % 49 == 0:
            ageing.advance(wall_ms, wall_ms)
        assert ageing.due_ms(length_ms, wall_ms + 1) >= wall_ms + 1
