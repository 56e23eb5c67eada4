"""The stub of the extension has what the extension has, and whatever it lacks is found."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STUB = Path("mqcore/native/_native.pyi")


def compared(directory: Path) -> subprocess.CompletedProcess[str]:
    """Compares the extension with the stub that a directory of packages has."""
    config = directory / "mypy.ini"
    config.write_text(
        f"[mypy]\nmypy_path = {directory}\nexplicit_package_bases = True\n"
        "[mypy-yaml.*]\nignore_missing_imports = True\n"
    )
    return subprocess.run(
        [
            *(sys.executable, "-m", "mypy.stubtest", "mqcore.native._native"),
            *("--mypy-config-file", str(config)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Returns a directory with the stub and the sources of the package."""
    wanted = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "python" / "mqcore", tmp_path / "mqcore", ignore=wanted)
    return tmp_path


def test_no_result_is_a_tuple_of_unlike_things() -> None:
    text = (ROOT / "python" / STUB).read_text(encoding="utf-8")
    results = re.findall(r"-> ([^\n]*):", text)
    assert "list[Notice]" in results
    assert [each for each in results if re.search(r"tuple\[(?!\w+, \.\.\.\])", each)] == []


@pytest.mark.slow
def test_the_stub_matches_the_module(packages: Path) -> None:
    done = compared(packages)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "planted", "found"),
    [
        (r"    def flush\(self\) -> int: \.\.\.\n", "", "NativeStore.flush is not present in stub"),
        (r"def seen_bytes", "def seen", "VerifyProgress.seen is not present at runtime"),
        (r"def gil_counts\(\)", "def gil_numbers()", "gil_counts"),
        (r"\bTally\b", "Tallies", "_native.Tally is not present in stub"),
        (r"queue_id: int, offset: int\) -> bool", "queue: int, offset: int) -> bool", "queue_id"),
    ],
)
def test_what_the_stub_lacks_or_names_otherwise_is_found(
    packages: Path, pattern: str, planted: str, found: str
) -> None:
    stub = packages / STUB
    text, count = re.subn(pattern, planted, stub.read_text(encoding="utf-8"))
    assert count
    stub.write_text(text, encoding="utf-8")
    done = compared(packages)
    assert done.returncode != 0
    assert found in done.stdout, done.stdout
