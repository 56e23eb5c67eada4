"""The main job on real input: a broker takes the flights of New York 2013, and is killed meanwhile.

Starts `mqcore standalone`; `examples/publish_flights.py` publishes one message per flight, and
`examples/read_flights.py` reads them as a consumer group at the same time. Half way the broker is
killed with -9 and started again; producer and consumer go on by themselves. At the end every flight
that was acknowledged must have been consumed. Then it shows what else a message can do
(`demo_messages.py`): wait, be booked, be chosen, come again, be traced. Three brokers with a
controller lose their master, and go on (`demo_failover.py`). Then Spark streams the topic to
Parquet, shows the delays by carrier and hour, archives the store and verifies the archive
(`demo_spark.py`). What is left stays in .cache/demo: the store, the archive, the report. With
`--console` it ends with the web console over that store.
"""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import demo_console
import demo_failover
import demo_messages
import demo_spark
from demo_process import Process
from flights import CACHE, FLIGHTS, ROOT, flights
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

DATA = CACHE / "broker"
LINES = CACHE / "flights.jsonl"
ACKS = CACHE / "acknowledged.txt"
SEEN = CACHE / "consumed.txt"
LOG = CACHE / "broker.log"
CLIENTS_LOG = CACHE / "clients.log"
EXAMPLES = ROOT / "examples"

KILL_AT = FLIGHTS // 2
# The broker comes back in a second; a run that takes longer than this has stopped.
PATIENCE_S = 120.0
LOOK_S = 0.05

console = Console(soft_wrap=True, highlight=False)


class Broker:
    """The broker's process.

    Attributes:
        killed_s: When it was killed, in Unix seconds.
    """

    def __init__(self) -> None:
        """Takes free ports at the first start."""
        self._process = Process([], LOG, {"broker": 0, "namesrv": 0})
        self.killed_s = 0.0

    @property
    def ports(self) -> dict[str, int]:
        """Where broker and name server listen."""
        return self._process.ports

    @property
    def address(self) -> str:
        """Where it serves."""
        return f"127.0.0.1:{self.ports['broker']}"

    def start(self) -> float:
        """Starts it, on the ports that it had, and waits until it serves; returns the seconds."""
        arguments = ["standalone", "--data", str(DATA), "--port", str(self.ports["broker"])]
        arguments += ["--namesrv-port", str(self.ports["namesrv"])]
        for setting in demo_messages.SETTINGS.items():
            arguments += ["--set", "=".join(setting)]
        self._process.arguments = arguments
        began = time.perf_counter()
        self._process.start()
        return time.perf_counter() - began

    def kill(self) -> None:
        """Kills it with -9."""
        self.killed_s = time.time()
        self._process.kill()

    def stop(self) -> float:
        """Stops it as an operator would; returns the seconds."""
        began = time.perf_counter()
        self._process.stop()
        return time.perf_counter() - began


class Tally:
    """Counts the lines of a file that somebody else writes."""

    def __init__(self, path: Path) -> None:
        """Begins with an empty file."""
        path.write_bytes(b"")
        self._file = path.open("rb")
        self.lines = 0

    def look(self) -> int:
        """Returns the whole lines so far."""
        self.lines += self._file.read().count(b"\n")
        return self.lines


def example(name: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Starts a script as a person would; its output goes to a file."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    with CLIENTS_LOG.open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def run(broker: Broker) -> None:
    """Publishes and reads, with the broker killed half way."""
    acknowledged, consumed = Tally(ACKS), Tally(SEEN)
    namesrv = f"127.0.0.1:{broker.ports['namesrv']}"
    reader = example("read_flights.py", namesrv, SEEN)
    publisher = example("publish_flights.py", namesrv, LINES, ACKS)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    began = time.perf_counter()
    killed = False
    try:
        with Progress(*columns, console=console) as progress:
            bars = [progress.add_task(name, total=FLIGHTS) for name in ("acknowledged", "consumed")]
            while publisher.poll() is None or consumed.lines < FLIGHTS:
                for bar, tally in zip(bars, (acknowledged, consumed), strict=True):
                    progress.update(bar, completed=tally.look())
                if time.perf_counter() - began > PATIENCE_S or publisher.poll() or reader.poll():
                    break
                if not killed and consumed.lines >= KILL_AT:
                    killed = True
                    broker.kill()
                    console.print(f"killed the broker with -9 after {consumed.lines} flights")
                    seconds = broker.start()
                    console.print(f"it serves again {seconds:.2f} s after it was started")
                # The files have no descriptor to wait for, and the reader ends at a signal.
                with suppress(subprocess.TimeoutExpired):
                    reader.wait(LOOK_S)
            for bar, tally in zip(bars, (acknowledged, consumed), strict=True):
                progress.update(bar, completed=tally.look())
        seconds = time.perf_counter() - began
        reader.send_signal(signal.SIGTERM)
        ended = (publisher.wait(PATIENCE_S), reader.wait(PATIENCE_S))
    finally:
        publisher.kill()
        reader.kill()
    if ended != (0, 0):
        sys.exit(f"publisher and reader ended with {ended}; their output is in {CLIENTS_LOG}")
    check_counts(seconds)


def numbers(path: Path) -> Counter[int]:
    """Returns how often each number is in a file."""
    return Counter(map(int, path.read_text(encoding="utf-8").split()))


def check_counts(seconds: float) -> None:
    """Compares what was acknowledged with what was consumed; ends the run where it differs."""
    acknowledged, seen = numbers(ACKS), numbers(SEEN)
    lost = acknowledged.keys() - seen.keys()
    doubled = sum(count - 1 for count in seen.values())
    if lost or len(acknowledged) != FLIGHTS:
        sys.exit(f"{len(acknowledged)} acknowledged, {len(lost)} of them never consumed")
    console.print(
        f"[green]{len(acknowledged)} flights acknowledged, every one of them consumed[/green]; "
        f"{doubled} came twice: the producer sends again what was not answered before the kill"
    )
    console.print(f"{FLIGHTS / seconds:,.0f} messages per second through the kill")


def main() -> None:
    """Runs the demonstration."""
    rows = flights()
    for left in (DATA, demo_spark.SPARK, demo_spark.ARCHIVE, demo_spark.REPORT):
        shutil.rmtree(left, ignore_errors=True)
    CLIENTS_LOG.write_bytes(b"")
    with LINES.open("w", encoding="utf-8") as lines:
        for number, row in enumerate(rows):
            lines.write(json.dumps({"number": number, **row}, separators=(",", ":")) + "\n")
    broker = Broker()
    seconds = broker.start()
    console.print(
        f"mqcore standalone serves on {broker.address} after {seconds:.2f} s, the interpreter's "
        "start included"
    )
    try:
        run(broker)
        namesrv = f"127.0.0.1:{broker.ports['namesrv']}"
        demo_messages.show(namesrv, rows, broker.killed_s)
        demo_failover.show(rows)
        began = time.perf_counter()
        spark = demo_spark.started()
        console.print(f"Spark {spark.version} started in {time.perf_counter() - began:.1f} s")
        demo_spark.show_delays(spark, namesrv, rows)
        console.print(f"the broker stopped cleanly in {broker.stop():.2f} s; mqcore store verify:")
    finally:
        broker.kill()
    command = [sys.executable, "-m", "mqcore.cli.main", "store", "verify", str(DATA)]
    if subprocess.run(command).returncode != 0:
        sys.exit("the store does not agree with itself")
    demo_spark.keep(spark, DATA)
    spark.stop()
    console.print(f"the store stays: mqcore store info {DATA.relative_to(ROOT)}")
    if "--console" in sys.argv[1:]:
        demo_console.main()


if __name__ == "__main__":
    main()
