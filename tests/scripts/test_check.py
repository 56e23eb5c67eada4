"""`make check` leaves out what passed and has not changed, and nothing else."""

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check.py"
# Records that it ran, and fails where the file has `bad`.
COMMAND = """
import sys
from pathlib import Path
with Path("ran.log").open("a") as log:
    log.write("x")
Path("bytecode.log").write_text(f"{sys.dont_write_bytecode} {sys.pycache_prefix}")
print("because of this")
raise SystemExit("bad" in Path("watched/a.txt").read_text())
"""

Check = Callable[..., tuple[int, int]]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Returns a run of one part in a repository of its own: exit code, and how often it ran."""
    spec = importlib.util.spec_from_file_location("check_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "check_script", module)
    spec.loader.exec_module(module)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("*.log\n.cache/\n")
    (tmp_path / "watched").mkdir()
    (tmp_path / "watched" / "a.txt").write_text("good")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "PASSED", tmp_path / ".cache" / "check")
    monkeypatch.setattr(module, "BYTECODE", tmp_path / ".cache" / "bytecode")
    part = module.Part("the part", ((sys.executable, "-c", COMMAND),), ("watched",))
    monkeypatch.setattr(module, "LINES", ((), (part,)))

    def run(*arguments: str) -> tuple[int, int]:
        # Each run is a process of its own: it reads the files once.
        module.content_digests.cache_clear()
        code = module.main(list(arguments))
        log = tmp_path / "ran.log"
        return code, len(log.read_text()) if log.exists() else 0

    return run


def test_a_part_runs_again_when_something_that_it_depends_on_changed(
    check: Check, tmp_path: Path
) -> None:
    assert check() == (0, 1)
    assert check() == (0, 1), "the same"
    (tmp_path / "other.txt").write_text("new")
    assert check() == (0, 1), "it does not depend on that"
    (tmp_path / "watched" / "b.txt").write_text("new")
    assert check() == (0, 2), "a new file"
    (tmp_path / "watched" / "b.txt").write_text("newer")
    assert check() == (0, 3)
    (tmp_path / "watched" / "b.txt").unlink()
    # The content of the last pass counts, not that of any pass.
    assert check() == (0, 4)
    assert check("--all") == (0, 5)


def test_a_part_that_failed_is_reported_and_runs_again(
    check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check() == (0, 1)
    watched = tmp_path / "watched" / "a.txt"
    watched.write_text("bad")
    assert check() == (1, 2)
    printed = capsys.readouterr().out
    assert "because of this" in printed
    assert "failed: the part" in printed
    assert check() == (1, 3), "it did not pass"
    watched.write_text("good")
    assert check() == (0, 4), "a failure forgets the pass before it"


def test_what_python_compiles_is_kept_whatever_the_environment_wants(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert check() == (0, 1)
    assert (tmp_path / "bytecode.log").read_text() == f"False {tmp_path / '.cache' / 'bytecode'}"
