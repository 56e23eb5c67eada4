"""What one runs twenty times a day: every check that needs no JVM and no patience.

    python scripts/check.py          # what changed since it passed
    python scripts/check.py --all    # all of it

A part is left out while nothing that it depends on has changed since it passed: the content of the
files that version control knows or would add, the built extension, the commands and the versions of
the tools are hashed, and the hash is kept in `.cache/check` when the part passes. Rust, lints and
Python tests run at the same time. Prints the time of each part, what a part printed that failed,
and the time of all. Exits with 0 when every part passed. What is left out here is in `make test`.
"""

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PASSED = ROOT / ".cache" / "check"
# What Python compiled, for the next run and for the processes that tests start.
BYTECODE = ROOT / ".cache" / "bytecode"
BIN = Path(sys.executable).parent
PYTHON = str(BIN / "python")

RUST = ("rust", "benches", "Cargo.toml", "Cargo.lock", "clippy.toml", "rustfmt.toml")
PYTHON_SOURCES = ("python", "tests", "scripts", "pyproject.toml", "requirements/dev.txt")
EVERYTHING = ("",)

# Folders of tests without servers of others and without Spark's JVM; of these everything but what
# is marked as slow.
UNITS = (
    *("boundary", "broker", "cli", "client", "config", "console", "deploy", "fast_path", "model"),
    *("namesrv", "own_golden", "periodic", "remoting", "scripts", "state_files"),
    *("test_golden.py", "testing"),
)
# Of Spark's folder what is pure.
PURE_SPARK = (
    "spark/test_locations.py",
    "spark/topic_source/test_course.py",
    "spark/topic_source/test_options.py",
)
NOT_HERE = "not slow and not java and not matrix"
WORKERS = 2
CARGO_TEST = ("cargo", "test", "--locked", "--quiet", "--workspace", "--exclude", "mqcore-bindings")


@dataclass(frozen=True, slots=True)
class Part:
    """One check.

    Attributes:
        name: What it is called.
        commands: What is run, one after another.
        inputs: The files and folders that its outcome depends on, relative to the root.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    inputs: tuple[str, ...]

    def digest(self) -> str:
        """Returns the hash of everything that the outcome depends on."""
        found = hashlib.sha256(repr((self.commands, tool_versions())).encode())
        for path, content in content_digests():
            if any(path == one or path.startswith(f"{one}/") or not one for one in self.inputs):
                found.update(f"{path}\0{content}\n".encode())
        return found.hexdigest()

    @property
    def stamp(self) -> Path:
        """Where the hash is kept with which it passed."""
        return PASSED / self.name.replace(" ", "-")


RUST_PARTS = (
    Part("rust format", (("cargo", "fmt", "--all", "--check"),), RUST),
    Part(
        "clippy",
        (
            (
                *("cargo", "clippy", "--locked", "--quiet", "--workspace", "--all-targets"),
                *("--", "-D", "warnings"),
            ),
        ),
        RUST,
    ),
    Part("rust tests", ((*CARGO_TEST, "--lib"),), (*RUST, "tests/golden")),
)
LINTS = (
    Part(
        "python format",
        (
            (str(BIN / "ruff"), "check", "--quiet", "."),
            (str(BIN / "ruff"), "format", "--check", "--quiet", "."),
        ),
        (*PYTHON_SOURCES, "benches", "examples"),
    ),
    Part(
        "types",
        (
            (str(BIN / "mypy"), "--no-error-summary"),
            (PYTHON, "-m", "mypy.stubtest", "mqcore.native._native"),
        ),
        PYTHON_SOURCES,
    ),
    Part(
        "imports",
        ((str(BIN / "lint-imports"), "--no-cache"),),
        ("python", "pyproject.toml", "requirements/dev.txt"),
    ),
    Part("tidy", ((PYTHON, "-m", "pytest", "--quiet", "tests/tidy"),), EVERYTHING),
)
PYTHON_TESTS = (
    Part(
        "python tests",
        (
            (
                *(PYTHON, "-m", "pytest", "--quiet", "-m", NOT_HERE),
                *("-n", str(WORKERS), "--dist", "worksteal", "--max-worker-restart", "0"),
                *(f"tests/{folder}" for folder in (*UNITS, *PURE_SPARK)),
            ),
        ),
        EVERYTHING,
    ),
)
# Parts of one line run one after another, lines at the same time.
LINES = (RUST_PARTS, LINTS, PYTHON_TESTS)


@cache
def tool_versions() -> str:
    """Returns what the tools are."""
    done = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=False)
    return f"{sys.version} {done.stdout.strip()}"


@cache
def content_digests() -> tuple[tuple[str, str], ...]:
    """Returns every file that version control knows or would add, with the hash of its content."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = {name for name in listing.split("\0") if name}
    # What the tests of Python import, whatever it was built from.
    names |= {str(path.relative_to(ROOT)) for path in ROOT.glob("python/mqcore/native/*.so")}
    return tuple(
        (name, hashlib.sha256((ROOT / name).read_bytes()).hexdigest())
        for name in sorted(names)
        if (ROOT / name).is_file()
    )


class Checks:
    """A run of parts.

    Attributes:
        failed: The names of the parts that failed, as they came.
    """

    def __init__(self, *, runs_all: bool) -> None:
        """Takes whether parts run that passed already."""
        self._runs_all = runs_all
        self._printing = threading.Lock()
        self.failed: list[str] = []

    def run(self, parts: Iterable[Part]) -> None:
        """Runs parts one after another; one that fails does not keep the others from running."""
        for part in parts:
            digest = part.digest()
            has_passed = part.stamp.exists() and part.stamp.read_text() == digest
            if has_passed and not self._runs_all:
                self._print(f"  same          {part.name}")
                continue
            part.stamp.unlink(missing_ok=True)
            began = time.monotonic()
            output = _first_failure(part.commands)
            took_s = time.monotonic() - began
            if output is None:
                part.stamp.write_text(digest)
                self._print(f"  ok    {took_s:5.1f} s {part.name}")
            else:
                self.failed.append(part.name)
                self._print(f"{output}\n  FAILED {took_s:4.1f} s {part.name}")

    def _print(self, text: str) -> None:
        with self._printing:
            print(text, flush=True)


def _first_failure(commands: Iterable[Sequence[str]]) -> str | None:
    """Runs commands; returns what the first one printed that failed, None where none did."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "python"),
        "PYTHONPYCACHEPREFIX": str(BYTECODE),
    }
    # Where it is set every process compiles everything again: a third of all the time.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for command in commands:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            return f"$ {' '.join(command)}\n{done.stdout}"
    return None


def main(arguments: list[str]) -> int:
    """Runs everything; returns the exit code."""
    PASSED.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    checks = Checks(runs_all="--all" in arguments)
    content_digests()
    tool_versions()
    lines = [threading.Thread(target=checks.run, args=(parts,)) for parts in LINES]
    for line in lines:
        line.start()
    for line in lines:
        line.join()
    ending = f"failed: {', '.join(checks.failed)}" if checks.failed else "all is well"
    print(f"{time.monotonic() - began:7.1f} s in all; {ending}")
    return int(bool(checks.failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
