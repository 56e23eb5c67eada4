"""Runs the Python tests in several processes at once, each with files that take about as long.

Most of a test of interoperation is waiting for the programs of others, so there are twice as many
processes as the machines of the project have processors. Arguments go to pytest; with a path among
them there is one process. Prints what the first process prints, and that of the others when it has
ended, then the slowest tests, the time per folder and the tests that needed another try.
`--measure` writes `tests/seconds.json` anew, by which the files are divided. Of the files of
`tests/rotated.txt` a third runs, unless `--matrix` is given; `--seed` chooses which. Exits with 0
when no test failed.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from run_report import print_report
from split_tests import (
    ROOT,
    TABLE,
    divided,
    left_out,
    measured,
    rotated,
    seconds,
    test_files,
)

sys.path.insert(0, str(ROOT / "tests"))
from sampling import seed_of

OUTPUTS = ROOT / ".cache" / "tests"
TIMES = ROOT / ".cache" / "test-times.jsonl"
PROCESSES = 4
# Nothing was chosen, for example by `-k`.
NO_TESTS = 5
LOOK_S = 0.5
MEASURE = "--measure"
MATRIX = "--matrix"
SEED = "--seed="


def pytest(*arguments: str) -> list[str]:
    """Returns a command."""
    return [sys.executable, "-m", "pytest", f"--times={TIMES}", *arguments]


def output(number: int) -> Path:
    """Returns where a process prints to."""
    return OUTPUTS / f"{number}.txt"


def follow(process: subprocess.Popen[bytes], path: Path) -> int:
    """Prints what a process has printed and goes on printing; returns how it ended."""
    with path.open("rb") as printed:
        ended = False
        while not ended:
            try:
                process.wait(LOOK_S)
                ended = True
            except subprocess.TimeoutExpired:
                pass
            sys.stdout.buffer.write(printed.read())
            sys.stdout.flush()
    return process.returncode


def started(number: int, arguments: list[str]) -> subprocess.Popen[bytes]:
    """Starts one process; it prints to a file."""
    with output(number).open("wb") as file:
        return subprocess.Popen(pytest(*arguments), stdout=file, stderr=file)


def files_to_run(arguments: list[str]) -> list[str]:
    """Returns the test files of a run; prints how many of the rotated ones it leaves out."""
    files = test_files()
    if MATRIX in arguments or MEASURE in arguments:
        return files
    given = [each.removeprefix(SEED) for each in arguments if each.startswith(SEED)]
    seed = seed_of(int(given[-1]) if given else None)
    unchosen = left_out(rotated(), seconds(), seed)
    print(
        f"{len(unchosen)} of {len(rotated())} files of tests/rotated.txt are left out "
        f"({SEED}{seed}); {MATRIX} runs all",
        flush=True,
    )
    return [file for file in files if file not in unchosen]


def main(arguments: list[str]) -> int:
    """Runs them."""
    TIMES.unlink(missing_ok=True)
    if any((ROOT / argument.split("::")[0]).exists() for argument in arguments):
        code = subprocess.run(pytest(*arguments), check=False).returncode
        print_report(TIMES)
        return code
    given = [argument for argument in arguments if argument != MEASURE]
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    shares = divided(files_to_run(arguments), seconds(), PROCESSES)
    began = time.monotonic()
    processes = [started(number, [*share, *given]) for number, share in enumerate(shares)]
    codes = set()
    try:
        for number, process in enumerate(processes):
            print(f"process {number + 1} of the Python tests:", flush=True)
            codes.add(follow(process, output(number)))
    finally:
        for process in processes:
            process.kill()
        print_report(TIMES)
    print(f"all ended after {time.monotonic() - began:.0f} s", flush=True)
    if MEASURE in arguments:
        found = measured(TIMES)
        TABLE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return max(codes - {NO_TESTS}, default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
