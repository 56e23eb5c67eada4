"""What pages of the web console take over ten thousand topics and a thousand groups.

python benches/console_pages.py

A broker and a console as processes of their own; a visitor loads each page some times. Prints a
table, as Markdown: the processor time of both for a page, and what the console occupies.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import tempfile
import threading
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
ROUNDS = 3
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


def main() -> None:
    """Measures each page."""
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
            heads = ("page", "first: console", "broker", "again: console", "broker, ms")
            print(f"| {' | '.join(heads)} |")
            print("|---|---|---|---|---|")
            for path in PAGES:
                first, again = loaded(visitor, path, (pid, one.pid))
                cells = " | ".join(f"{each:.0f}" for each in (*first, *again))
                print(f"| `{path}` | {cells} |", flush=True)
            found = occupied(pid, None).process
            now, most = found["VmRSS"] >> 20, found["VmHWM"] >> 20
            print(f"\nthe console: {now} MiB resident, at most {most} MiB")


def loaded(
    visitor: Visitor, path: str, processes: tuple[int, int]
) -> tuple[list[float], list[float]]:
    """Returns the processor time of console and broker for a page, ms: the middle of some loads.

    First where nothing that is kept is fresh, then where a page was loaded just before.
    """
    first, again = [], []
    for _ in range(ROUNDS):
        threading.Event().wait(FORGOTTEN_S)
        for found in (first, again):
            before = [used_ms(each) for each in processes]
            visitor.page(path)
            found.append([used_ms(each) - was for each, was in zip(processes, before, strict=True)])
    return middle(first), middle(again)


def middle(rows: list[list[float]]) -> list[float]:
    """Returns the median of each column."""
    return [statistics.median(column) for column in zip(*rows, strict=True)]


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
