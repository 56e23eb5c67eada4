"""Runs the Python tests in two processes at once: those of interoperation, and all others.

The former wait most of their time for the servers and clients of others, and take longer: the
second process goes on with some of their files when it has done all others. Arguments go to pytest;
with a path among them there is one process. Prints what the first process says when the second one
has ended. Exits with 0 when no test of either failed.
"""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SAID = ROOT / ".cache" / "interop-tests.txt"
APART = "tests/interop"
# Files of these that the second process takes over: about a third of their time.
SHARED = tuple(
    f"{APART}/test_{name}.py"
    for name in ("pop_clients", "restarts", "takeover", "timers", "transactions", "untouched")
)
# Nothing was chosen, for example by `-k`.
NO_TESTS = 5
LOOK_S = 0.5


def pytest(*arguments: str) -> list[str]:
    """Returns a command."""
    return [sys.executable, "-m", "pytest", *arguments]


def follow(process: subprocess.Popen[bytes]) -> int:
    """Prints what a process has said and goes on saying; returns how it ended."""
    with SAID.open("rb") as said:
        ended = False
        while not ended:
            try:
                process.wait(LOOK_S)
                ended = True
            except subprocess.TimeoutExpired:
                pass
            sys.stdout.buffer.write(said.read())
            sys.stdout.flush()
    return process.returncode


def main(arguments: list[str]) -> int:
    """Runs them."""
    if any((ROOT / argument.split("::")[0]).exists() for argument in arguments):
        return subprocess.run(pytest(*arguments), check=False).returncode
    SAID.parent.mkdir(exist_ok=True)
    began = time.monotonic()
    with SAID.open("wb") as file:
        ignored = [f"--ignore={path}" for path in SHARED]
        apart = subprocess.Popen(pytest(APART, *ignored, *arguments), stdout=file, stderr=file)
    try:
        others = subprocess.run(pytest(f"--ignore={APART}", *arguments), check=False).returncode
        shared = subprocess.run(pytest(*SHARED, *arguments), check=False).returncode
        print(f"the tests of {APART}, begun at the same time:", flush=True)
        codes = {others, shared, follow(apart)}
    finally:
        apart.kill()
    print(f"both ended after {time.monotonic() - began:.0f} s", flush=True)
    return max(codes - {NO_TESTS}, default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
