"""What pages of the web console take over ten thousand topics and a thousand groups.

python benches/console_pages.py [ROUNDS]

A broker and a console as processes of their own; a visitor loads each page some times. Prints a
table, as Markdown: how long a visitor waits, the processor time of both for a page, and what the
console occupies. Exits with 1 where the median of a page is above its limit.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "scripts")]

from demo_console import running_console  # noqa: E402
from peer_brokers import BROKER_NAME, ours  # noqa: E402

from console_visits import Visitor  # noqa: E402 - found by the line above
from mqcore.console.routes import MENU  # noqa: E402
from mqcore.occupancy import occupied  # noqa: E402

TOPICS = 10_000
GROUPS = 1_000
ROUNDS = 7
# Nobody takes it for slow.
LIMIT_MS = 300
# Longer than the console keeps a table.
FORGOTTEN_S = 2.5
PAGES = (
    *(path for path, _ in MENU),
    *("/topics?page=77&sort=-queues", "/topics/topic-00007", "/groups?sort=-lag&page=9"),
    *("/groups/group-0007", "/clients?kind=consumers"),
    *(f"/brokers/{BROKER_NAME}/0?tab={tab}" for tab in ("configuration", "memory", "store")),
)


def write_tables(config: Path) -> None:
    """Writes what a broker of that size would have."""
    config.mkdir(parents=True)
    names = [f"group-{number:04}" for number in range(GROUPS)]
    topics = [f"topic-{number:05}" for number in range(TOPICS)]
    tables = {
        "topics": {
            "topicConfigTable": {
                name: {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
                for name in topics
            }
        },
        "subscriptionGroup": {
            "subscriptionGroupTable": {
                name: {"groupName": name, "consumeEnable": True, "retryMaxTimes": 16}
                for name in names
            }
        },
        "consumerOffset": {
            "offsetTable": {
                f"{topic}@{name}": {"0": 0, "1": 0}
                for topic, name in zip(topics, names, strict=False)
            }
        },
    }
    for file, table in tables.items():
        (config / f"{file}.json").write_text(json.dumps(table), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Loads:
    """Some loads of a page.

    Attributes:
        clock_ms: How long each took by the clock.
        used_ms: The processor time of console and broker for each.
    """

    clock_ms: list[float]
    used_ms: list[tuple[float, ...]]

    @property
    def median_ms(self) -> float:
        """The median by the clock."""
        return statistics.median(self.clock_ms)

    def cells(self) -> list[str]:
        """Returns median and worst by the clock, and the medians of the processor times."""
        used = (statistics.median(column) for column in zip(*self.used_ms, strict=True))
        return [f"{each:.0f}" for each in (self.median_ms, max(self.clock_ms), *used)]


def main() -> None:
    """Measures each page."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        tables = home / "store" / "config"
        with (
            ours(home, "ASYNC_FLUSH", before=lambda: write_tables(tables)) as one,
            running_console(one.namesrv) as (url, password, pid),
        ):
            host, port = url.split("/")[2].split(":")
            visitor = Visitor(host, int(port))
            visitor.log_in("admin", password)
            heads: tuple[str, ...] = ("page", "first: ms", "worst", "console", "broker")
            heads += ("again: ms", "worst", "console", "broker")
            print(f"| {' | '.join(heads)} |")
            print("|---|" + "--:|" * (len(heads) - 1))
            slow = []
            for path in PAGES:
                loads = loaded(visitor, path, (pid, one.pid), rounds)
                cells = " | ".join(each for load in loads for each in load.cells())
                print(f"| `{path}` | {cells} |", flush=True)
                slow += [path for load in loads if load.median_ms > LIMIT_MS]
            found = occupied(pid, None).process
            now, most = found["VmRSS"] >> 20, found["VmHWM"] >> 20
            print(f"\nthe console: {now} MiB resident, at most {most} MiB")
    if slow:
        sys.exit(f"above {LIMIT_MS} ms: {', '.join(dict.fromkeys(slow))}")


def loaded(
    visitor: Visitor, path: str, processes: tuple[int, ...], rounds: int
) -> tuple[Loads, Loads]:
    """Loads a page some times.

    Returns:
        Loads where nothing that is kept is fresh, and those where it was loaded just before.
    """
    first, again = Loads([], []), Loads([], [])
    for _ in range(rounds):
        threading.Event().wait(FORGOTTEN_S)
        for found in (first, again):
            before = [used_ms(each) for each in processes]
            began_s = time.perf_counter()
            visitor.get(path)
            found.clock_ms.append((time.perf_counter() - began_s) * 1_000)
            used = (used_ms(each) for each in processes)
            found.used_ms.append(tuple(now - was for now, was in zip(used, before, strict=True)))
        # Well made, and there: outside of the time.
        visitor.page(path)
    return first, again


def used_ms(pid: int) -> float:
    """Returns the processor time of all threads of a process."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        # A thread may end between the two looks.
        with contextlib.suppress(OSError):
            total += int((task / "schedstat").read_text(encoding="ascii").split()[0])
    return total / 1e6


if __name__ == "__main__":
    main()
