"""The timer rows: memory for a million timers, and how late and how dear deliveries are.

In one process: the broker's own store, timers and timetable over a directory of its own, without
clients. How late a message is: its store time behind the time it was sent for, rounded up to the
step as the official broker rounds it. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import statistics
import tempfile
import time
from array import array
from pathlib import Path

from mqcore.native import Store, Timers, encode_properties

TIMER_TOPIC = "rmq_sys_wheel_timer"
TOPIC = "timed"
BODY = b"x" * 200
MANY = 1_000
# Settled before the first one is due, and between what is measured.
LEAD_S = 3
LOOK_S = 0.1


def fill(store: Store, count: int, out_ms: int, spread_s: int, step_ms: int) -> None:
    """Appends messages as the fast path rewrites them: over some seconds, by turns."""
    slots = max(1, spread_s * 1000 // step_ms)
    for begin in range(0, count, MANY):
        texts = []
        for at in range(begin, min(begin + MANY, count)):
            due_ms = out_ms + at * slots // count * step_ms
            properties = {
                "UNIQ_KEY": f"{at:032X}",
                "REAL_TOPIC": TOPIC,
                "REAL_QID": str(at % 8),
                "TIMER_DELIVER_MS": str(due_ms + step_ms),
                "TIMER_OUT_MS": str(due_ms),
            }
            texts.append(encode_properties(properties=properties))
        store.append_many(
            TIMER_TOPIC,
            BODY * len(texts),
            array("I", [len(BODY)] * len(texts)),
            queue_ids=0,
            properties=b"".join(texts),
            properties_lens=array("I", map(len, texts)),
        )
    store.wait_dispatched(store.stats().appended, timeout_ms=60_000)


def enter_all(timers: Timers) -> None:
    """Enters everything that waits in the queue."""
    while timers.progress().behind:
        timers.tick()


def resident_bytes() -> int:
    """Returns the memory of this process that no file backs."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def pending(directory: Path, count: int) -> dict[str, float]:
    """A million messages over three days."""
    store = Store(directory, config={"mappedFileSizeCommitLog": 1 << 30})
    timers = Timers(store)
    before = resident_bytes()
    now_ms = time.time_ns() // 1_000_000 // 1000 * 1000
    fill(store, count, now_ms + 600_000, 172_000, 1000)
    appended = resident_bytes()
    began = time.perf_counter()
    enter_all(timers)
    took_s = time.perf_counter() - began
    grown = resident_bytes() - appended
    waiting = timers.progress().waiting
    began = time.perf_counter()
    timers.flush()
    flush_s = time.perf_counter() - began
    began = time.perf_counter()
    Timers(store)
    open_s = time.perf_counter() - began
    store.close()
    return {
        "pending": waiting,
        "entered_per_s": count / took_s,
        "wheel_mib": timers.progress().wheel_bytes / 2**20,
        "grown_mib": grown / 2**20,
        "all_mib": (resident_bytes() - before) / 2**20,
        "flush_s": flush_s,
        "open_s": open_s,
    }


async def deliver(timers: Timers, until_s: float) -> None:
    """The timetable of the broker (`TimerRounds`), without a broker."""
    step_ms = timers.step_ms
    while time.time() < until_s:
        done = await asyncio.to_thread(timers.tick) if timers.is_due() else None
        if done is None or not done.has_more:
            pause_ms = min(100, step_ms - time.time_ns() // 1_000_000 % step_ms)
            await asyncio.sleep(pause_ms / 1000)


async def save(store: Store, timers: Timers) -> None:
    """Writes how far the timers are, every second, in the middle of a long step."""
    while True:
        after_ms = (time.time_ns() // 1_000_000 + 1000 - timers.step_ms // 3) % timers.step_ms
        await asyncio.sleep(1 - (after_ms / 1000 if timers.step_ms >= 500 else 0))
        await asyncio.to_thread(store.flush)
        await asyncio.to_thread(timers.flush)


async def timetable(store: Store, timers: Timers, from_s: float, until_s: float) -> float:
    """Delivers and saves; how much of a processor that took."""
    await asyncio.sleep(max(0.0, from_s - time.time()))
    cpu, began = time.process_time(), time.perf_counter()
    saving = asyncio.create_task(save(store, timers))
    await deliver(timers, until_s)
    saving.cancel()
    return (time.process_time() - cpu) / (time.perf_counter() - began)


def due(directory: Path, per_s: int, seconds: int, step_ms: int) -> dict[str, float]:
    """Some thousands per second that are due."""
    config = {"mappedFileSizeCommitLog": 1 << 30, "timerPrecisionMs": step_ms}
    store = Store(directory, config=config)
    timers = Timers(store)
    step_s = step_ms / 1000
    first_ms = int((time.time() + LEAD_S + per_s * seconds / 100_000) // 1 * 1000)
    fill(store, per_s * seconds, first_ms, seconds, step_ms)
    enter_all(timers)
    timers.flush()
    first_s = first_ms / 1000
    cpu = asyncio.run(timetable(store, timers, first_s - 0.5, first_s + seconds + step_s + 1))
    store.wait_dispatched(store.stats().appended, timeout_ms=60_000)
    late: list[int] = []
    for queue_id in range(8):
        low, high = store.bounds(TOPIC, queue_id) or (0, 0)
        while low < high:
            found = store.get(TOPIC, queue_id, low, 1_000)
            for message in found.messages:
                deliver_ms = int(message.properties["TIMER_OUT_MS"]) + step_ms
                late.append(message.store_timestamp_ms - deliver_ms)
            low = found.next_offset
    store.close()
    cuts = statistics.quantiles(late, n=1000)
    return {
        "step_ms": step_ms,
        "delivered": len(late),
        "early": sum(each < 0 for each in late),
        "late_p50_ms": cuts[499],
        "late_p99_ms": cuts[989],
        "late_max_ms": max(late),
        "cpu": cpu,
    }


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pending", type=int, default=1_000_000)
    parser.add_argument("--per-second", type=int, default=20_000)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--directory", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, float]] = []
    root = Path(tempfile.mkdtemp(prefix="mqcore-timers-", dir=arguments.directory))
    try:
        for step_ms in (1000, 100):
            rows.append(due(root / str(step_ms), arguments.per_second, arguments.seconds, step_ms))
            print(rows[-1])
        if arguments.pending:
            rows.append(pending(root / "pending", arguments.pending))
            print(rows[-1])
    finally:
        shutil.rmtree(root, ignore_errors=True)
    load = os.getloadavg()[0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rows": rows, "load": load, "peak_rss_mib": peak}))


if __name__ == "__main__":
    main()
