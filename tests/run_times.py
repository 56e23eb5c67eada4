"""Writes how long each test took, and how each of its tries ended, as one JSON line per phase.

Several processes of one run append to the same file: `--times FILE`. `scripts/run_report.py` reads
it. Knows no test and imports nothing of mqcore.
"""

import json
import os
from pathlib import Path

import pytest

# Of the text of a failure: its end, with the assertion and what the test printed.
_WHY_CHARS = 4_000


class RunTimes:
    """Appends to one file; a line is written whole, so that processes do not mix theirs."""

    def __init__(self, path: Path) -> None:
        """Opens the file for appending, and makes its directory."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes one phase of one test: `setup`, `call` or `teardown`."""
        line = {
            "test": report.nodeid,
            "phase": report.when,
            "outcome": report.outcome,
            "took_s": round(report.duration, 4),
        }
        # An outcome of pytest-rerunfailures.
        if str(report.outcome) == "rerun":
            # Nobody prints a try that another one follows.
            line["why"] = report.longreprtext[-_WHY_CHARS:]
        os.write(self._descriptor, (json.dumps(line) + "\n").encode())

    def pytest_unconfigure(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)


def add_option(parser: pytest.Parser) -> None:
    """Adds `--times`."""
    parser.addoption(
        "--times", metavar="FILE", help="append how long each test took, as JSON lines"
    )


def register(config: pytest.Config) -> None:
    """Begins to write where `--times` was given; workers of pytest-xdist leave it to the first."""
    path = config.getoption("--times")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(RunTimes(Path(path)), "run-times")
