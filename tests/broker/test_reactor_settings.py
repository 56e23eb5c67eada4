"""How many threads move bytes: as it is set, else by the processors that the process has."""

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
