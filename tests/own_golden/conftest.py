"""Golden directories of mqcore, unpacked once for all tests that change nothing in them."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from own_golden import cases
from own_golden.observed import copied


@pytest.fixture(scope="session")
def golden_root(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns a function that returns an unpacked directory, which must not be changed."""
    into = tmp_path_factory.mktemp("own-golden")

    @cache
    def root(name: str) -> Path:
        return cases.unpack(name, into)

    return root


@pytest.fixture
def golden_copy(golden_root: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """Returns a function that returns a copy of a directory, which may be changed."""

    def copy(name: str) -> Path:
        return copied(golden_root(name), tmp_path)

    return copy
