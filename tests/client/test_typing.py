"""Type checkers know every option: they find each mistake, in its line, and no other."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "typing_cases"
PYTHON = Path(__file__).parents[2] / "python"
MARK = "# mistake: "


def lines_found_by_mypy(file: Path, tmp_path: Path) -> set[int]:
    configuration = tmp_path / "mypy.ini"
    configuration.write_text(f"[mypy]\nmypy_path = {PYTHON}\nfollow_imports = silent\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--output", "json"),
            *("--config-file", str(configuration)),
            *("--cache-dir", str(tmp_path / "cache"), str(file)),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line]
    return {each["line"] for each in found if each["severity"] == "error"}


def lines_found_by_pyright(file: Path, tmp_path: Path) -> set[int]:
    (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"))
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps(
            {
                "include": [file.name],
                "extraPaths": [str(PYTHON)],
                "pythonVersion": "3.11",
                "typeCheckingMode": "strict",
                # Other packages, which the client does not show, may be missing here.
                "reportMissingModuleSource": "none",
            }
        )
    )
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pyright", "--outputjson"),
            *("--pythonpath", sys.executable, "--project", str(tmp_path)),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 1
    return {
        each["range"]["start"]["line"] + 1
        for each in found["generalDiagnostics"]
        if each["severity"] == "error"
    }


@pytest.mark.slow
@pytest.mark.parametrize("found_by", [lines_found_by_mypy, lines_found_by_pyright])
def test_every_mistake_is_found_and_no_other(
    found_by: Callable[[Path, Path], set[int]], tmp_path: Path
) -> None:
    wrong = CASES / "wrong.py"
    lines = wrong.read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if MARK in line}
    assert len(marked) == 12
    assert found_by(wrong, tmp_path) == marked
    assert found_by(CASES / "right.py", tmp_path) == set()
