"""How many threads move bytes, and how long they look for more: as set, else by processors."""

import pytest

from mqcore.broker import links
from mqcore.config import settings_of_pairs


def test_reactors_follow_the_processors_unless_they_are_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for processors, reactors in ((1, 1), (2, 1), (4, 2), (8, 4), (64, 4)):
        monkeypatch.setattr(links, "available_processors", lambda found=processors: found)
        assert links.reactors_of(settings_of_pairs({})) == reactors
    for given in (0, 1, 7):
        settings = settings_of_pairs({"mqcoreReactors": str(given)})
        assert links.reactors_of(settings) == given


def test_reactors_look_before_they_sleep_where_somebody_can_send_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for processors, expected_us in ((1, 0), (2, 50), (64, 50)):
        monkeypatch.setattr(links, "available_processors", lambda found=processors: found)
        assert links.busy_poll_us_of(settings_of_pairs({})) == expected_us
    for given_us in (0, 20, 1000):
        settings = settings_of_pairs({"mqcoreBusyPollMicros": str(given_us)})
        assert links.busy_poll_us_of(settings) == given_us
