"""The list of all tests, as the programs that run them collect them.

    cd tests && python -m tidy.list_tests --write   # makes tests/listed.txt anew
    cd tests && python -m tidy.list_tests           # compares: what is gone must name its successor

A Python test is listed once, whatever its parameters; tests of documentation are not listed. The
comparison goes by the names of tests and not by their files: a test that was moved is there.
`tests/successors.txt` names what became of each listed test that is gone. `test_listed.py` compares
the list with the sources, in a moment and without building anything; here it is compared with what
is collected, which finds tests that are written and never run.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tidy.project import ROOT, texts

LISTED: Final = ROOT / "tests" / "listed.txt"
SUCCESSORS: Final = ROOT / "tests" / "successors.txt"
PYTEST: Final = ["--collect-only", "--quiet", "--matrix", "-p", "no:cacheprovider"]
# As `make test` runs them: with other features they would be compiled again.
CARGO: Final = (
    *("cargo", "test", "--locked", "--workspace"),
    *("--exclude", "mqcore-bindings", "--exclude", "mqcore-benches"),
    *("--features", "mqcore-reactor/model", "--", "--list"),
)
_DOC_TEST = re.compile(r"\S+\.rs - .*\(line \d+\)")
# The attribute, perhaps others behind it, and the function.
_RUST_TEST = re.compile(r"#\[test\]\s*(?:#\[[^\n]*\]\s*|//[^\n]*\s*)*fn\s+(\w+)")
_RUNNING = re.compile(r"\s+Running (?:unittests )?(\S+) \(\S*deps/(\w+)-[0-9a-f]+\)")


def python_tests() -> set[str]:
    """Returns what pytest collects, the tests that only run with `--matrix` too."""
    command = [sys.executable, "-m", "pytest", *PYTEST]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = {line.split("[")[0] for line in done.stdout.splitlines() if "::" in line}
    if done.returncode or not found:
        sys.exit(f"pytest collects nothing:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return found


def rust_tests() -> list[str]:
    """Returns what the test programs of Rust list. Builds them first.

    Programs of different crates may have the same name, and so may their tests.
    """
    done = subprocess.run(
        CARGO, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"cargo lists nothing:\n{done.stdout[-4000:]}")
    return list(rust_names(done.stdout.splitlines()))


def rust_names(lines: Iterable[str]) -> Iterable[str]:
    """Yields the tests that are in what `cargo test -- --list` prints."""
    program = ""
    for line in lines:
        if running := _RUNNING.match(line):
            program = f"{running[2]} {running[1]}"
        elif line.endswith(": test") and not _DOC_TEST.match(line):
            yield f"{program} {line.removesuffix(': test')}"


def name_of(test: str) -> str:
    """Returns the name of a test without where it is."""
    # A state machine of hypothesis is a class with one test of this name.
    return test.removesuffix("::runTest").rpartition("::")[2].rpartition(" ")[2]


def names_in_sources(texts: Iterable[tuple[str, str]]) -> Counter[str]:
    """Returns how often each name of a test is in the sources.

    Args:
        texts: Path and text of sources in Rust and Python.
    """
    found: Counter[str] = Counter()
    for path, text in texts:
        if path.endswith(".rs"):
            found.update(match[1] for match in _RUST_TEST.finditer(text))
        elif path.rpartition("/")[2].startswith("test_"):
            found.update(_python_names(ast.parse(text)))
    return found


def _python_names(module: ast.Module) -> Iterable[str]:
    """Yields the functions that are tests, and the names of state machines of hypothesis."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("test_"):
                yield node.name
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            yield from (name for name in names if name.startswith("Test"))


def gone(listed: Iterable[str], present: Counter[str]) -> list[str]:
    """Returns the listed tests whose names are not there as often any more."""
    left = Counter(present)
    found = []
    for test in sorted(listed):
        name = name_of(test)
        if left[name]:
            left[name] -= 1
        else:
            found.append(test)
    return found


def read_lines(path: Path) -> list[str]:
    """Returns the lines of a list that are no remarks."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line for line in lines if line.strip() and not line.startswith("#")]


def successors() -> dict[str, str]:
    """Returns what became of tests that are gone: the new name, or why there is none."""
    pairs = (line.split(" -> ", 1) for line in read_lines(SUCCESSORS))
    return {old.strip(): new.strip() for old, new in pairs}


def unexplained(
    listed: Iterable[str], present: Counter[str], known: Mapping[str, str]
) -> list[str]:
    """Returns the listed tests that are gone and have no successor that is there.

    Args:
        listed: The list.
        present: How often each name is there now.
        known: The successor of a test that is gone, or a reason in brackets.
    """
    return [
        f"{test}: {known.get(test, 'no successor is named in tests/successors.txt')}"
        for test in gone(listed, present)
        if not _is_explained(known.get(test), present)
    ]


def _is_explained(successor: str | None, present: Counter[str]) -> bool:
    if successor is None:
        return False
    # Words in brackets are a reason: what was tested is no more.
    return successor.startswith("(") or present[name_of(successor)] > 0


def rust_tests_in_sources() -> set[str]:
    """Returns the tests of Rust as their files have them: nothing is built for the list."""
    return {
        f"{path}::{name}"
        for path, text in texts(".rs")
        for name in names_in_sources([(path, text)])
    }


def main(arguments: list[str]) -> int:
    """Writes or compares."""
    if arguments == ["--write"]:
        written = python_tests() | rust_tests_in_sources()
        head = "# Made by tests/tidy/list_tests.py: every test when the list was written.\n"
        LISTED.write_text(head + "".join(f"{test}\n" for test in sorted(written)), encoding="utf-8")
        print(f"{len(written)} tests")
        return 0
    tests = [*python_tests(), *rust_tests()]
    present = Counter(map(name_of, tests))
    missing = unexplained(read_lines(LISTED), present, successors())
    print("\n".join(missing) or f"{len(tests)} tests, none of those listed is gone")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
