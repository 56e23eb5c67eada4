"""How long `/metrics` takes with many topics and groups, and how long the loop waits for it.

A broker in this process, on its own event loop; a program of its own (curl) asks, so that only the
broker's work is in the interpreter. On the loop a timer of a millisecond is late by as much as the
loop was kept waiting: measured in turns without a scrape and with scrapes one after the other.

    python benches/metrics_scrape.py                              # 10,000 topics, 1,000 groups
    python benches/metrics_scrape.py --topics 1000 --groups 100
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from live_broker import live
from mqcore.remoting import RequestCode

if TYPE_CHECKING:
    from live_broker import Live

# Each group reads so many topics.
TOPICS_PER_GROUP = 10
TICK_S = 0.001
AT_ONCE = 64
ROUNDS = 5
SCRAPES = 20


async def filled(client: Live, topics: int, groups: int) -> None:
    """Makes topics with a message each, and groups with an offset in some of them."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def topic(number: int) -> None:
        async with gate:
            await client.create(f"topic_{number}", 4)
            for queue_id in range(4):
                answer = await client.send(f"topic_{number}", b"x" * 100, queue_id)
                assert answer.code == 0, answer.remark

    async def pulled(group: int, at: int) -> None:
        async with gate:
            name = f"topic_{(group * TOPICS_PER_GROUP + at) % topics}"
            answer = await client.pull(name, 0, group=f"group_{group}")
            assert answer.code == 0, answer.remark
            ext = {
                **{"consumerGroup": f"group_{group}", "topic": name},
                **{"queueId": 0, "commitOffset": 1},
            }
            await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, ext)

    await asyncio.gather(*(topic(number) for number in range(topics)))
    await asyncio.gather(
        *(pulled(group, at) for group in range(groups) for at in range(TOPICS_PER_GROUP))
    )


async def lateness(until: asyncio.Task[Any]) -> list[float]:
    """Returns by how much a timer was late, ms, until something is done."""
    late: list[float] = []
    while not until.done():
        due = time.perf_counter() + TICK_S
        await asyncio.sleep(TICK_S)
        late.append((time.perf_counter() - due) * 1_000)
    return late


async def scraped(port: int, target: Path) -> float:
    """Returns how long one scrape takes, ms, as curl sees it."""
    command = ["curl", "-s", "-o", str(target), "-w", "%{time_total}"]
    process = await asyncio.create_subprocess_exec(
        *command, f"http://127.0.0.1:{port}/metrics", stdout=subprocess.PIPE
    )
    printed, _ = await process.communicate()
    return float(printed) * 1_000


async def measured(client: Live, scratch: Path) -> dict[str, Any]:
    """Returns the figures of all rounds."""
    port, target = client.broker.ports["metrics"], scratch / "metrics.txt"
    took: list[float] = []
    late: list[float] = []
    idle: list[float] = []

    async def scrapes() -> None:
        for _ in range(SCRAPES):
            took.append(await scraped(port, target))

    async def nothing() -> None:
        # The start of a process stops the loop too: it is in both.
        for _ in range(SCRAPES):
            process = await asyncio.create_subprocess_exec("true")
            await process.wait()
            await asyncio.sleep(0.1)

    await scrapes()
    took.clear()
    for _ in range(ROUNDS):
        idle += await lateness(asyncio.create_task(nothing()))
        late += await lateness(asyncio.create_task(scrapes()))
    text = target.read_text(encoding="utf-8")
    samples = sum(not line.startswith("#") for line in text.splitlines())
    return {
        "scrape_ms": {"median": statistics.median(took), "max": max(took)},
        "late_ms": _spread(late),
        "late_without_ms": _spread(idle),
        "samples": samples,
        "bytes": len(text),
    }


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "p50": ordered[len(ordered) // 2],
        "p99": ordered[len(ordered) * 99 // 100],
        "max": ordered[-1],
    }


async def run(topics: int, groups: int, scratch: Path) -> dict[str, Any]:
    """Runs a broker and measures it."""
    keys = {
        "metricsExporterType": "PROM",
        "metricsPromExporterPort": "0",
        "mappedFileSizeCommitLog": str(256 << 20),
        "mqcoreReactors": "1",
    }
    async with live(scratch / "store", **keys) as client:
        await filled(client, topics, groups)
        return await measured(client, scratch)


def main() -> None:
    """Prints the figures as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=1_000)
    given = parser.parse_args()
    if shutil.which("curl") is None:
        sys.exit("curl is needed")
    with tempfile.TemporaryDirectory(prefix="mqcore-scrape-") as scratch:
        found = asyncio.run(run(given.topics, given.groups, Path(scratch)))
    print(json.dumps({"topics": given.topics, "groups": given.groups, **found}))


if __name__ == "__main__":
    main()
