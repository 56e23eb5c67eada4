"""The test files are divided among processes by measured time (`scripts/split_tests.py`)."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "split_tests.py"
TIMES = """\
{"test": "tests/broker/test_pop.py::test_a", "phase": "setup", "outcome": "passed", "took_s": 1.0}
{"test": "tests/broker/test_pop.py::test_a", "phase": "call", "outcome": "passed", "took_s": 0.25}
{"test": "tests/broker/test_pop.py::test_b[x]", "phase": "call", "outcome": "failed", "took_s": 2.0}
{"test": "tests/test_golden.py::test_c", "phase": "call", "outcome": "passed", "took_s": 0.5}
"""


@pytest.fixture(scope="module")
def split() -> ModuleType:
    """Returns the script as a module."""
    spec = importlib.util.spec_from_file_location("split_tests", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_file_goes_to_one_process(split: ModuleType) -> None:
    files = split.test_files()
    shares = split.divided(files, split.seconds(), 3)
    assert len(shares) == 3
    assert sorted(file for share in shares for file in share) == files
    assert "tests/test_split.py" in files


def test_all_processes_have_as_much_to_do(split: ModuleType) -> None:
    table = {f"tests/test_{number}.py": float(number) for number in range(1, 41)}
    shares = split.divided(table, table, 3)
    loads = [sum(table[file] for file in share) for share in shares]
    assert max(loads) - min(loads) <= 1.0


def test_what_shares_a_session_stays_together(split: ModuleType) -> None:
    spark = {f"tests/spark/test_{number}.py": 1.0 for number in range(9)}
    others = {f"tests/test_{number}.py": 1.0 for number in range(9)}
    shares = split.divided([*spark, *others], spark | others, 2)
    assert sorted(spark) in shares
    assert sorted(others) in shares


def test_times_are_added_up_by_file(split: ModuleType, tmp_path: Path) -> None:
    times = tmp_path / "times.jsonl"
    times.write_text(TIMES, encoding="utf-8")
    assert split.measured(times) == {"tests/broker/test_pop.py": 3.2, "tests/test_golden.py": 0.5}
