"""What is missing of a range, and names of what was read: arithmetic against a naive model."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mqcore.spark.pipelines.spans import Span, digest_of, merged, missing, stepped

OFFSETS = st.integers(0, 60)
RANGES = st.lists(st.tuples(OFFSETS, OFFSETS), max_size=8)


def numbers(ranges: list[tuple[int, int]]) -> set[int]:
    return {number for begin, end in ranges for number in range(begin, end)}


@given(RANGES)
def test_merged_ranges_hold_the_same_and_touch_nowhere(ranges: list[tuple[int, int]]) -> None:
    found = merged(ranges)
    assert numbers(found) == numbers(ranges)
    assert all(before[1] < after[0] for before, after in pairwise(found))


@given(OFFSETS, OFFSETS, RANGES)
def test_missing_is_what_no_range_covers(
    begin: int, end: int, ranges: list[tuple[int, int]]
) -> None:
    assert numbers(missing(begin, end, ranges)) == set(range(begin, end)) - numbers(ranges)


@given(OFFSETS, OFFSETS, st.integers(1, 20))
def test_steps_join_to_the_range_and_are_cut_at_multiples(begin: int, end: int, step: int) -> None:
    found = list(stepped(begin, end, step))
    assert numbers(found) == set(range(begin, end))
    assert all(after[0] % step == 0 for after in found[1:])


def test_the_same_cuts_come_whatever_is_there_already() -> None:
    whole = set(stepped(0, 100, 30))
    assert set(stepped(30, 90, 30)) <= whole


def test_only_the_same_spans_have_the_same_digest() -> None:
    spans = [Span("store:a", 0, 10), Span("store:a", 10, 20)]
    assert digest_of(spans) == digest_of(list(spans))
    assert digest_of(spans) != digest_of([Span("store:a", 0, 20)])
    assert digest_of(spans) != digest_of(spans[::-1])
