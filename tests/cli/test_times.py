"""Times on the command line, and rates between two looks."""

from datetime import UTC, datetime

import pytest

from mqcore.cli.rates import Rates
from mqcore.cli.times import parse_time

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("now", NOW),
        ("90s", NOW - 90_000),
        ("10m", NOW - 600_000),
        ("1h30m ago", NOW - 5_400_000),
        ("2d", NOW - 172_800_000),
        ("1w", NOW - 604_800_000),
        ("250ms", NOW - 250),
        ("1699999999999", 1_699_999_999_999),
        ("2023-11-14T22:13:20+00:00", NOW),
        ("2023-11-14T22:13:20.5Z", NOW + 500),
    ],
)
def test_a_time_is_read(text: str, time_ms: int) -> None:
    assert parse_time(text, NOW) == time_ms


def test_a_date_without_a_zone_is_local() -> None:
    local = datetime(2024, 5, 1, 10, 0).astimezone(UTC)
    assert parse_time("2024-05-01T10:00", NOW) == round(local.timestamp() * 1_000)


@pytest.mark.parametrize("text", ["", "soon", "10", "10x", "5m later", "2024-13-01", "-5m", "ago"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        parse_time(text, NOW)


def test_rates_are_between_two_looks() -> None:
    rates: Rates[str] = Rates()
    assert rates.look({"a": 100}, 1_000) == {"a": 0.0}
    assert rates.look({"a": 150, "new": 7}, 1_500) == {"a": 100.0, "new": 0.0}
    # Set back, as a topic that was made anew.
    assert rates.look({"a": 3, "new": 8}, 2_500) == {"a": 0.0, "new": 1.0}
    assert rates.look({"a": 4}, 2_500) == {"a": 0.0}
