"""What every test may ask for: the command-line switches and unpacked golden stores.

Imports nothing of mqcore, so that the house's own rules can be checked before it is built.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from golden_stores import GoldenStore

# The same examples in every run and on every machine, however slow; none is written to disk.
settings.register_profile(
    "house",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds our switches."""
    parser.addoption(
        "--without-java",
        action="store_true",
        help="leave out the tests that need Java 17: the official broker, Spark",
    )
    parser.addoption(
        "--judge",
        metavar="VERSION",
        help="run the cases of the official clients against the official servers of this release",
    )
    parser.addoption(
        "--matrix",
        action="store_true",
        help="run the tests marked `matrix` too: every pair of versions, minutes",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects what needs Java when asked to, and what is marked `matrix` unless asked for."""
    unwanted = {"java", "spark"} if config.getoption("--without-java") else set()
    if not config.getoption("--matrix"):
        unwanted.add("matrix")
    left_out = [item for item in items if any(map(item.get_closest_marker, unwanted))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def unpacked(tmp_path: Path) -> Callable[[GoldenStore], Path]:
    """Returns a function that unpacks a golden store and returns its root directory."""

    def unpack(store: GoldenStore) -> Path:
        return store.unpack(tmp_path)

    return unpack
