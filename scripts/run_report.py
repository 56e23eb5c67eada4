"""The end of a run of the tests: the slowest of them, the time per folder, and second tries.

    python scripts/run_report.py FILE

FILE has a JSON line per phase of a test, written by `tests/run_times.py` from any number of
processes. A test that was tried again is listed by name, however it ended: `rerun` is the outcome
that pytest-rerunfailures gives to a try that another one follows.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

SLOWEST = 20
_AGAIN = "rerun"
_FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run took.

    Attributes:
        tests_s: Seconds of each test with its fixtures and all its tries, by its name.
        folders_s: The same per folder.
        counts: Tests per folder.
        tried_again: Tests that needed another try: how many, by name.
        failed: Tests that failed in the end.
        whys: Why tries failed that another one followed, by name.
    """

    tests_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    folders_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    counts: Counter[str] = field(default_factory=Counter)
    tried_again: Counter[str] = field(default_factory=Counter)
    failed: set[str] = field(default_factory=set)
    whys: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_lines(cls, lines: Iterable[str]) -> "RunReport":
        """Returns the report of the lines of a run."""
        report = cls()
        for line in lines:
            phase = json.loads(line)
            report._take(phase["test"], phase["outcome"], phase["took_s"])
            if phase.get("why"):
                report.whys[phase["test"]] = phase["why"]
        report.counts.update(_folder_of(test) for test in report.tests_s)
        return report

    def _take(self, test: str, outcome: str, took_s: float) -> None:
        self.tests_s[test] += took_s
        self.folders_s[_folder_of(test)] += took_s
        if outcome == _AGAIN:
            self.tried_again[test] += 1
        if outcome == _FAILED:
            self.failed.add(test)

    def lines(self) -> list[str]:
        """Returns it for people: the least important first, since it is read from its end."""
        if not self.tests_s:
            return ["no test was run"]
        slowest = _longest_first(self.tests_s)[:SLOWEST]
        found = [f"the {len(slowest)} slowest tests:"]
        found += [f"{seconds:8.1f} s  {test}" for test, seconds in slowest]
        found.append("time per folder:")
        for folder, seconds in _longest_first(self.folders_s):
            found.append(f"{seconds:8.1f} s  {folder} ({self.counts[folder]} tests)")
        found.append(f"{sum(self.folders_s.values()):8.1f} s  in all ({len(self.tests_s)} tests)")
        if self.tried_again:
            found.append("needed another try:")
            for test, tries in sorted(self.tried_again.items()):
                ending = "and failed" if test in self.failed else "and passed"
                found.append(f"{tries + 1:5} tries, {ending}: {test}")
                if test not in self.failed and test in self.whys:
                    found += [f"      | {line}" for line in self.whys[test].splitlines()]
        else:
            found.append("no test needed another try")
        return found


def _longest_first(seconds: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda each: -each[1])


def _folder_of(test: str) -> str:
    """Returns the folder below `tests` of a test's name, `tests` for a file of that itself."""
    folders = test.split("::")[0].split("/")[:-1]
    return "/".join(folders[:2])


def print_report(path: Path) -> None:
    """Prints the report of a file, also where no test was run."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    print("\n".join(RunReport.of_lines(lines).lines()), flush=True)


if __name__ == "__main__":
    print_report(Path(sys.argv[1]))
