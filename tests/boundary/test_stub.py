"""The stub of the extension declares what the extension has."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_stub_matches_the_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "mqcore.native._native"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
