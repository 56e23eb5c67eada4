"""Pauses between retries, by the rules of `GroupRetryPolicy`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.model.groups import GroupConfig
from mqcore.model.retry_policies import CustomizedPolicy, ExponentialPolicy, retry_policy

HOUR_MS = 3_600_000


def test_the_usual_pauses_are_those_of_the_levels() -> None:
    usual = GroupConfig("g").retry_policy
    assert [usual.pause_ms(tries) for tries in (-1, 0, 1, 2)] == [10_000, 10_000, 30_000, 60_000]
    assert usual.pause_ms(15) == usual.pause_ms(99) == 2 * HOUR_MS


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        {},
        {"type": "CUSTOMIZED"},
        {"type": "EXPONENTIAL"},
        {"type": "NEVER"},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": []}},
    ],
)
def test_what_has_no_policy_means_the_usual(value: object) -> None:
    assert retry_policy(value) == CustomizedPolicy()


def test_written_pauses_begin_with_the_third() -> None:
    policy = CustomizedPolicy((1, 2, 3, 4))
    assert [policy.pause_ms(tries) for tries in range(4)] == [3, 4, 4, 4]
    assert CustomizedPolicy((5,)).pause_ms(0) == 5


def test_a_pause_grows_to_its_bound() -> None:
    policy = ExponentialPolicy()
    assert [policy.pause_ms(tries) for tries in (-3, 0, 1, 2)] == [5_000, 5_000, 10_000, 20_000]
    assert policy.pause_ms(32) == policy.pause_ms(2**40) == 2 * HOUR_MS


longs = st.integers(0, 2**63 - 1)


@given(initial=longs, most=longs, factor=st.integers(1, 2**31), tries=st.integers(-5, 100))
def test_no_pause_is_longer_than_the_longest(
    initial: int, most: int, factor: int, tries: int
) -> None:
    policy = ExponentialPolicy(initial, most, factor)
    assert policy.pause_ms(tries) <= policy.pause_ms(tries + 1) <= most


@given(
    policy=st.builds(ExponentialPolicy, longs, longs, longs)
    | st.builds(CustomizedPolicy, st.lists(longs, min_size=1, max_size=20).map(tuple))
)
def test_a_group_keeps_its_policy(policy: CustomizedPolicy | ExponentialPolicy) -> None:
    group = GroupConfig("g").with_policy(policy)
    assert GroupConfig.of_json(group.to_json()).retry_policy == policy
    assert group.policy_type == group.to_json()["groupRetryPolicy"]["type"]
