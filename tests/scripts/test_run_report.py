"""The end of `make test`: what took longest, and which tests were tried again."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFTEST = """
import run_times


def pytest_addoption(parser):
    run_times.add_option(parser)


def pytest_configure(config):
    run_times.register(config)
"""
TESTS = """
from pathlib import Path

import pytest

STARTED = Path(__file__).with_suffix(".started")


def test_good():
    pass


def test_second_try():
    has_started = STARTED.exists()
    STARTED.touch()
    assert has_started


@pytest.mark.parametrize("number", [1, 2])
def test_never(number):
    assert number == 1
"""


def run(directory: Path, *words: str) -> None:
    """Runs the tests of a directory as the processes of `make test` do."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "tests"),
        # What else is installed takes seconds to load.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    command += ["-p", "pytest_rerunfailures", "--reruns", "1"]
    command += ["--times", "times.jsonl", *words]
    subprocess.run(command, cwd=directory, env=environment, check=False, capture_output=True)


def report(path: Path) -> list[str]:
    """Returns what the report prints."""
    command = [sys.executable, str(ROOT / "scripts" / "run_report.py"), str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def made(directory: Path) -> Path:
    """Writes two folders of tests below a directory."""
    (directory / "pytest.ini").write_text("[pytest]\n")
    for name in ("one", "two"):
        folder = directory / "tests" / name
        folder.mkdir(parents=True)
        (folder / f"test_{name}.py").write_text(TESTS)
    (directory / "conftest.py").write_text(CONFTEST)
    return directory


def test_second_tries_of_all_processes_are_listed_by_name(tmp_path: Path) -> None:
    directory = made(tmp_path)
    run(directory, "tests/one")
    run(directory, "tests/two")
    lines = report(directory / "times.jsonl")
    at = lines.index("needed another try:")
    ends: list[str] = []
    whys: list[str] = []
    for line in lines[at + 1 :]:
        (whys if line.startswith("      | ") else ends).append(line)
    assert ends == [
        f"    2 tries, and {ending}: tests/{name}/test_{name}.py::test_{test}"
        for name in ("one", "two")
        for test, ending in (("never[2]", "failed"), ("second_try", "passed"))
    ]
    # Why a try failed is printed under a test that passed in the end: nobody else prints it.
    assert sum("AssertionError" in line or "assert" in line for line in whys) >= 2
    assert lines[0] == "the 8 slowest tests:"
    folders = [line.split(" s  ")[1] for line in lines[lines.index("time per folder:") + 1 : at]]
    assert sorted(folders[:2]) == ["tests/one (4 tests)", "tests/two (4 tests)"]
    assert folders[2:] == ["in all (8 tests)"]


def test_a_run_without_second_tries_names_none(tmp_path: Path) -> None:
    directory = made(tmp_path)
    run(directory, "tests/one", "-k", "good")
    assert report(directory / "times.jsonl")[-1] == "no test needed another try"
    assert report(tmp_path / "none.jsonl") == ["no test was run"]
