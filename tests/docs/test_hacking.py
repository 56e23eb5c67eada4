"""The worked examples of HACKING.md: each patch applies to a copy of the tree, and its test passes.

A patch brings the test that calls what it adds. Where a patch touches a page or a stub that is
made from, or compared with, something else, the test of that runs too.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATCHES = ROOT / "docs" / "hacking"
# Patches of Python alone, with the tests that exist already and that HACKING.md names for them.
PYTHON_EXAMPLES = {
    "admin-command": ["tests/cli/test_lazy.py", "tests/admin/test_admin.py"],
    "message-property": ["tests/client/test_message.py"],
    "metric": ["tests/broker/test_metrics.py"],
    "request-code": ["tests/broker/test_request_codes.py", "tests/remoting/test_request_codes.py"],
    "setting": ["tests/config/test_derived.py", "tests/config/test_page.py"],
}
# Patches that change Rust, each with the patch that it goes on from.
NATIVE_EXAMPLES = {"received-attribute": "message-property"}
_LIBRARY = "python/mqcore/native/_native.abi3.so"
# Data that no example reads: most of what the tree holds.
_LEFT_OUT = ("tests/golden/", "benches/results")


def command(*line: str, cwd: Path, **environment: str) -> str:
    """Runs a command; returns what it printed.

    Raises:
        AssertionError: It failed.
    """
    done = subprocess.run(
        line,
        cwd=cwd,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(line)}\n{done.stdout}"
    return done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the tree as it is, with the extension that is built."""
    listed = command(
        "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT
    )
    for name in (*filter(None, listed.split("\0")), _LIBRARY):
        if not name.startswith(_LEFT_OUT) and (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / name)
    return tmp_path


def apply(name: str, tree: Path) -> list[str]:
    """Applies a patch; returns the tests that it brings."""
    patch = PATCHES / f"{name}.patch"
    command("git", "apply", "--whitespace=error", str(patch), cwd=tree)
    brought = re.findall(r"^\+\+\+ b/(tests/.*)$", patch.read_text(encoding="utf-8"), re.MULTILINE)
    assert brought, f"{patch.name} brings no test"
    return brought


def call(tests: Iterable[str], tree: Path) -> None:
    """Runs tests of a copy with the package of that copy."""
    python = str(tree / "python")
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    where = "import mqcore; print(mqcore.__file__)"
    assert command(sys.executable, "-c", where, cwd=tree, PYTHONPATH=python).startswith(python)
    assert " passed" in command(*line, cwd=tree, PYTHONPATH=python)


def check(tree: Path) -> None:
    """Lints a copy as `make lint` does, as far as that takes seconds."""
    for arguments in (("check",), ("format", "--check")):
        command(sys.executable, "-m", "ruff", *arguments, "--no-cache", "python", "tests", cwd=tree)


def test_the_page_names_every_patch_and_no_other() -> None:
    page = (ROOT / "HACKING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"docs/hacking/([\w-]+)\.patch", page))
    assert named == {each.stem for each in PATCHES.glob("*.patch")}
    assert named == {*PYTHON_EXAMPLES, *NATIVE_EXAMPLES}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PYTHON_EXAMPLES))
def test_an_example_applies_and_what_it_adds_is_called(name: str, copy: Path) -> None:
    brought = apply(name, copy)
    check(copy)
    call([*brought, *PYTHON_EXAMPLES[name]], copy)


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", sorted(NATIVE_EXAMPLES))
def test_a_native_example_is_built_and_called(name: str, copy: Path) -> None:
    apply(NATIVE_EXAMPLES[name], copy)
    brought = apply(name, copy)
    check(copy)
    # Dependencies are built once; the crates of the copy are others than those of the tree.
    target = ROOT / "target" / "hacking"
    command(
        *("cargo", "build", "--locked", "--package", "mqcore-bindings"),
        *("--target-dir", str(target)),
        cwd=copy,
        PYO3_PYTHON=sys.executable,
    )
    shutil.copy2(target / "debug" / "lib_native.so", copy / _LIBRARY)
    # Those of this copy are of no use to the next one.
    crates = [f"--package=mqcore-{each.parent.name}" for each in copy.glob("rust/*/Cargo.toml")]
    command("cargo", "clean", "--quiet", *crates, "--target-dir", str(target), cwd=copy)
    call(brought, copy)


def test_the_crash_image_of_the_page_is_read_as_described(tmp_path: Path) -> None:
    page = (ROOT / "HACKING.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "crash_image.py").write_text(script, encoding="utf-8")
    line = (sys.executable, str(tmp_path / "crash_image.py"))
    command(*line, cwd=tmp_path, TMPDIR=str(tmp_path), PYTHONPATH=str(ROOT / "python"))


def test_the_breakpoints_of_the_page_are_at_functions() -> None:
    page = (ROOT / "HACKING.md").read_text(encoding="utf-8")
    breakpoints = re.findall(r"break ([\w/]+\.rs):(\d+)", page)
    assert breakpoints
    for name, line in breakpoints:
        (path,) = (ROOT / "rust").glob(f"*/src/**/{name}")
        lines = path.read_text(encoding="utf-8").splitlines()
        # The function that the file is named for.
        assert f" fn {path.stem}(" in lines[int(line) - 1], f"{name}:{line}"


def test_a_patch_that_does_not_apply_is_noticed(copy: Path) -> None:
    apply("metric", copy)
    with pytest.raises(AssertionError, match="metric"):
        apply("metric", copy)
