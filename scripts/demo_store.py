"""The store on real input: stores the flights of New York 2013, is killed, recovers, queries.

A child process appends one message per flight and prints how many were acknowledged; half way the
parent kills it with -9. Then the store is opened again, everything acknowledged is looked for, the
rest is appended, one aeroplane's flights are found through the index, and the store is verified.
The store stays in .cache/demo/store.
"""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from flights import CACHE, FLIGHTS, ROOT, flights
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TimeElapsedColumn

from mqcore import Store

STORE = CACHE / "store"

TOPIC = "flights"
# One queue per airport of departure.
QUEUES = {"EWR": 0, "JFK": 1, "LGA": 2}
# Small files, so that the log rolls over; an index file that holds two keys per flight.
CONFIG = {
    "mappedFileSizeCommitLog": 32 << 20,
    "maxHashSlotNum": 250_000,
    "maxIndexNum": 1_000_000,
}
# The child prints after this many acknowledged messages, and the parent kills it at this many.
REPORT_EVERY = 500
KILL_AT = FLIGHTS // 2

console = Console(soft_wrap=True, highlight=False)


def body_of(number: int, flight: dict[str, str]) -> bytes:
    """Returns a flight as the body of its message."""
    return json.dumps({"number": number, **flight}, separators=(",", ":")).encode()


def append(store: Store, number: int, flight: dict[str, str]) -> None:
    """Stores one flight: its number and its aeroplane are its keys."""
    keys = [key for key in (flight["carrier"] + flight["flight"], flight["tailnum"]) if key]
    appended = store.append(
        TOPIC,
        body_of(number, flight),
        queue_id=QUEUES[flight["origin"]],
        tags=flight["carrier"],
        keys=keys,
    )
    if appended.status != "PUT_OK":
        sys.exit(f"flight {number}: {appended.status}")


def write_all() -> None:
    """Appends every flight and prints how many were acknowledged. Runs in the child."""
    rows = flights()
    with Store(STORE, config=CONFIG) as store:
        for number, flight in enumerate(rows):
            append(store, number, flight)
            if (number + 1) % REPORT_EVERY == 0:
                print(number + 1, flush=True)


def progress_bar() -> Progress:
    """Returns a progress bar of messages."""
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)


def killed_half_way() -> tuple[int, float]:
    """Lets a child append until it is killed; returns acknowledged messages, and their rate."""
    child = subprocess.Popen(
        [sys.executable, str(Path(__file__)), "--write"], stdout=subprocess.PIPE, text=True
    )
    acknowledged = 0
    started = 0.0
    seconds = 0.0
    with progress_bar() as progress:
        task = progress.add_task("appending", total=FLIGHTS)
        for line in child.stdout or ():
            now = time.perf_counter()
            started = started or now
            acknowledged = int(line)
            seconds = now - started
            progress.update(task, completed=acknowledged)
            if acknowledged >= KILL_AT:
                child.send_signal(signal.SIGKILL)
                break
        # What it printed between the signal and its end counts too.
        for line in child.stdout or ():
            acknowledged = int(line) if line.endswith("\n") else acknowledged
    code = child.wait()
    if code != -signal.SIGKILL:
        sys.exit(f"the child ended by itself with {code}")
    return acknowledged, (acknowledged - REPORT_EVERY) / seconds


def stored(store: Store) -> Iterator[tuple[str, bytes]]:
    """Yields tag and body of every message in the order of the log."""
    for batch in store.scan():
        yield from ((message.tags or "", message.body) for message in batch)


def recovered(rows: list[dict[str, str]], acknowledged: int) -> Store:
    """Opens the store after the kill and looks for everything that was acknowledged."""
    started = time.perf_counter()
    store = Store(STORE, config=CONFIG)
    seconds = time.perf_counter() - started
    report = store.open_report()
    console.print(
        f"reopened in {seconds:.3f} s: walked {report.records} records from "
        f"{report.scanned_from}, the log ends at {report.end}"
    )
    count = 0
    for number, (tags, body) in enumerate(stored(store)):
        if (tags, body) != (rows[number]["carrier"], body_of(number, rows[number])):
            sys.exit(f"flight {number} is not what was stored")
        count = number + 1
    if count < acknowledged:
        sys.exit(f"{acknowledged} flights were acknowledged, {count} are there")
    console.print(
        f"[green]{acknowledged} acknowledged, {count} there, each as it was stored: nothing that "
        "was acknowledged is missing"
    )
    return store


def finish(store: Store, rows: list[dict[str, str]]) -> float:
    """Appends the flights that are not there yet; returns messages per second."""
    done = sum(bounds.max_offset for bounds in store.queues())
    started = time.perf_counter()
    with progress_bar() as progress:
        task: TaskID = progress.add_task("finishing", total=FLIGHTS, completed=done)
        for number in range(done, FLIGHTS):
            append(store, number, rows[number])
            if number % REPORT_EVERY == 0:
                progress.update(task, completed=number)
        progress.update(task, completed=FLIGHTS)
    rate = (FLIGHTS - done) / (time.perf_counter() - started)
    store.wait_dispatched(store.stats().appended)
    departures = {bounds.queue_id: bounds.max_offset for bounds in store.queues()}
    for airport, queue_id in QUEUES.items():
        expected = sum(row["origin"] == airport for row in rows)
        if departures[queue_id] != expected:
            sys.exit(f"{airport}: {departures[queue_id]} messages of {expected} flights")
    return rate


def query(store: Store, rows: list[dict[str, str]]) -> None:
    """Finds the flights of one aeroplane through the index."""
    tail = rows[0]["tailnum"]
    all_flights = [number for number, row in enumerate(rows) if row["tailnum"] == tail]
    started = time.perf_counter()
    found = store.query(TOPIC, tail)
    milliseconds = (time.perf_counter() - started) * 1_000
    numbers = [json.loads(message.body)["number"] for message in found]
    if numbers != all_flights[-len(numbers) :] or not numbers:
        sys.exit(f"the index found flights {numbers} of {tail}, expected of {all_flights}")
    console.print(
        f"aeroplane {tail}: the newest {len(found)} of its {len(all_flights)} flights by key in "
        f"{milliseconds:.1f} ms; the last three:"
    )
    for message in found[-3:]:
        flight = json.loads(message.body)
        console.print(
            f"  {flight['time_hour']} {message.tags}{flight['flight']} "
            f"{flight['origin']} - {flight['dest']}, {flight['dep_delay'] or 'no'} min late"
        )


def main() -> None:
    """Runs the demonstration."""
    rows = flights()
    shutil.rmtree(STORE, ignore_errors=True)
    acknowledged, first_rate = killed_half_way()
    console.print(f"killed with -9 after {acknowledged} acknowledged flights")
    store = recovered(rows, acknowledged)
    with store:
        second_rate = finish(store, rows)
        query(store, rows)
        started = time.perf_counter()
        scanned = sum(len(batch.stored_bodies) for batch in store.scan())
        scan_rate = scanned / (time.perf_counter() - started)
    console.print("closed; mqcore store verify:")
    command = [sys.executable, "-m", "mqcore.cli.main", "store", "verify", str(STORE)]
    if subprocess.run(command).returncode != 0:
        sys.exit("the store does not agree with itself")
    console.print(
        f"messages per second: {first_rate:,.0f} appended by the child, {second_rate:,.0f} by "
        f"this process, {scan_rate:,.0f} scanned with bodies"
    )
    console.print(f"the store stays: mqcore store info {STORE.relative_to(ROOT)}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write_all()
    else:
        main()
