"""What every test may ask for: the command-line switches and unpacked golden stores.

Imports nothing of mqcore, so that the project's own rules can be checked before it is built.
"""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import run_times
from golden_stores import GoldenStore
from sampling import VARIABLE, left_out, seed_of

# The same examples in every run and on every machine, however slow; none is written to disk.
settings.register_profile(
    "mqcore",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("mqcore")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds our switches."""
    parser.addoption(
        "--without-java",
        action="store_true",
        help="leave out the tests that need Java 17: the official broker, Spark",
    )
    parser.addoption(
        "--official",
        metavar="VERSION",
        help="run the cases of the official clients against the official servers of this release",
    )
    parser.addoption(
        "--matrix",
        action="store_true",
        help="run the tests marked `matrix` and every case of sampled tables: minutes",
    )
    parser.addoption(
        "--seed",
        type=int,
        help=f"what chooses the cases of sampled tables; without it {VARIABLE}, or the commit",
    )
    run_times.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Begins to note how long tests take, where that is wanted."""
    run_times.register(config)
    # In the background of a script it is ignored, and so it would be by the programs that tests
    # start: one that a test interrupts would be waited for until a deadline.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header(config: pytest.Config) -> str:
    """Returns how the same cases are chosen again."""
    if config.getoption("--matrix"):
        return "sampled tables: whole"
    return f"sampled tables: --seed={seed_of(config.getoption('--seed'))} chooses the same cases"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects what needs Java when asked to; unless `--matrix` asks for all, what it names.

    A case that is named on the command line by its parameters runs whatever the seed chooses.
    """
    unwanted = {"java", "spark"} if config.getoption("--without-java") else set()
    is_whole = config.getoption("--matrix")
    if not is_whole:
        unwanted.add("matrix")
    dropped = {item for item in items if any(map(item.get_closest_marker, unwanted))}
    if not is_whole:
        chosen_from = [
            item for item in items if item not in dropped and item.nodeid not in config.args
        ]
        dropped |= left_out(chosen_from, seed_of(config.getoption("--seed")))
    if dropped:
        config.hook.pytest_deselected(items=[item for item in items if item in dropped])
        items[:] = [item for item in items if item not in dropped]


@pytest.fixture
def unpacked(tmp_path: Path) -> Callable[[GoldenStore], Path]:
    """Returns a function that unpacks a golden store and returns its root directory."""

    def unpack(store: GoldenStore) -> Path:
        return store.unpack(tmp_path)

    return unpack
