"""Fixtures of the tests with a broker in this process."""

import pytest

from live_broker import SMALL


@pytest.fixture(params=["0", "1", "3"])
def with_reactors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test with the bytes moved by the loop, by one reactor, and by three."""
    monkeypatch.setitem(SMALL, "mqcoreReactors", request.param)
