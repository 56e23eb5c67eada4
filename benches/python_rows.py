"""The Python rows: appends in one crossing and one by one, scans by column and message by message.

Each next to the same work in Rust's own bench or to its own goal; needs the built extension. Writes
its rows where the other benches write theirs.
"""

from __future__ import annotations

import array
import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqcore.native.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
OUT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "mqcore-benches"
IS_QUICK = os.environ.get("MQCORE_BENCH") == "quick"
TOPIC = "bench"
BODY_LEN_BYTES = 1024
# One property of 100 bytes in all: name, separators and value.
PROPERTIES = {"pad": "x" * 95}
# What fits one prepared file of 512 MiB, so that no round rolls over.
COUNT = 100_000 if IS_QUICK else 400_000
ROUNDS = 3
SETTINGS = {
    "mappedFileSizeCommitLog": 512 << 20,
    "warmMapedFileEnable": True,
    "messageIndexEnable": False,
}
Row = dict[str, Any]
# Messages of one call of `append_many`.
MANY = 1_000


def rust_append_rate() -> float | None:
    """Gives Rust's records per second of this machine, if the append bench has run."""
    path = OUT / "rows" / "append.jsonl"
    if not path.exists():
        return None
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = [row["reached"] for row in rows if row["name"] == "append, one thread, async flush"]
    return float(found[0]) if found else None


def wait_for_warm_file(store: Store) -> None:
    """Waits until the warm-up of the first file, in the background, is done: a minute at most."""
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        first = store.stats().segments[0]
        if first.populated_bytes >= first.len_bytes:
            return
        # The look itself takes as long as a step of the warm-up: no pause is needed.


def with_store(work: Callable[[Store], float]) -> float:
    """Gives the middle rate of `work` on fresh stores whose first file is warm."""
    rates = []
    for number in range(ROUNDS):
        directory = OUT / "stores" / f"python-{os.getpid()}-{number}"
        shutil.rmtree(directory, ignore_errors=True)
        with Store(directory, config=SETTINGS) as store:
            store.append(TOPIC, b"first")
            wait_for_warm_file(store)
            rates.append(work(store))
        shutil.rmtree(directory, ignore_errors=True)
    return statistics.median(rates)


def append_many(store: Store) -> float:
    """Appends in crossings of many; messages per second."""
    bodies = os.urandom(BODY_LEN_BYTES * MANY)
    lens = array.array("I", [BODY_LEN_BYTES] * MANY)
    text = b"pad\x01" + b"x" * 95 + b"\x02"
    started = time.perf_counter()
    for _ in range(COUNT // MANY):
        store.append_many(TOPIC, bodies, lens, queue_ids=0, properties=text)
    return COUNT / (time.perf_counter() - started)


def append_single(store: Store) -> float:
    """Appends one by one; messages per second."""
    body = os.urandom(BODY_LEN_BYTES)
    append = store.append
    started = time.perf_counter()
    for _ in range(COUNT):
        append(TOPIC, body, properties=PROPERTIES)
    return COUNT / (time.perf_counter() - started)


def filled(store: Store) -> None:
    """Fills the store for a scan."""
    append_many(store)


def scan_columns(store: Store) -> float:
    """Scans by column: offsets, queues, body lengths as arrays; messages per second."""
    filled(store)
    started = time.perf_counter()
    count = total = 0
    for batch in store.scan():
        count += len(batch)
        total += len(batch.queue_offsets) + len(batch.physical_offsets)
        total += sum(batch.stored_body_lens_bytes)
    assert count > COUNT
    return count / (time.perf_counter() - started)


def scan_loop(store: Store) -> float:
    """Scans message by message: topic, offset, body length; messages per second."""
    filled(store)
    started = time.perf_counter()
    count = total = 0
    for batch in store.scan():
        for message in batch:
            total += len(message.topic) + message.queue_offset + len(message.body)
            count += 1
    assert count > COUNT
    return count / (time.perf_counter() - started)


def row(name: str, goal: str, reached: float, limit: float | None, missed: bool | None) -> Row:
    """Gives a row of the table."""
    return {
        "bench": "python",
        "mode": "quick" if IS_QUICK else "full",
        "name": name,
        "goal": goal,
        "unit": "records/s",
        "reached": reached,
        "limit": limit,
        "ratio": reached / limit if limit else None,
        "missed": missed,
        "note": f"{COUNT} messages of 1 KB, middle of {ROUNDS} rounds",
    }


def main() -> int:
    """Measures all rows and writes them."""
    rust = rust_append_rate()
    many = with_store(append_many)
    single = with_store(append_single)
    columns = with_store(scan_columns)
    loop = with_store(scan_loop)
    missed = many < 0.6 * rust if rust else None
    rows = [
        row("Python append_many", ">= 60 % of Rust's append", many, rust, missed),
        row("Python append, one by one", ">= 700 k/s", single, None, single < 7e5),
        row("Python scan, columns", ">= 2 M/s", columns, None, columns < 2e6),
        row("Python loop: topic, offset, len(body)", ">= 700 k/s", loop, None, loop < 7e5),
    ]
    path = OUT / "rows" / "python.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in rows), encoding="utf-8")
    for line in rows:
        print(f"{line['name']}: {line['reached']:.0f} {line['unit']} ({line['goal']})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
