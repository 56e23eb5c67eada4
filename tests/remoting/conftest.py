"""Every socket test runs on both event loops."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from loops import FACTORIES, run_on

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=sorted(FACTORIES))
def run(request: pytest.FixtureRequest) -> Run:
    """Returns a function that runs a coroutine on one of the loops."""
    kind = str(request.param)
    return lambda work: run_on(kind, work)
