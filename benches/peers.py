"""Our broker beside the official one, under the same load in the same run: `make bench-peers`.

Both are started here on directories of their own and loaded in turn by `mqcore-load`, row by row,
so that what the machine does to one it does to the other. Prints the table and writes
`target/mqcore-benches/peers.json`. `MQCORE_BENCH=quick` loads for seconds instead of tens.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from interop.install import CACHE, fetched, need_java  # noqa: E402 - found by the line above

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
LOAD = TARGET / "release" / "mqcore-load"
MQCORE = Path(sys.executable).parent / "mqcore"
OUT = TARGET / "mqcore-benches" / "peers.json"
IS_QUICK = os.environ.get("MQCORE_BENCH") == "quick"

VERSION = "5.3.3"
SECONDS = 3 if IS_QUICK else 15
WARM_SECONDS = 2 if IS_QUICK else 5
# A JVM is slow until it has compiled what is hot: both get this long before the first row.
FIRST_SECONDS = 15 if IS_QUICK else 30
IDLE_SECONDS = 5 if IS_QUICK else 30
# The official start script takes 8 GB; with one it is at its best on a small machine.
HEAP = "1g"
OPENED = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.lang")
SEGMENT_BYTES = 1 << 30
START_SECONDS = 90.0
LOAD_SECONDS = 600.0
# Orders per second of the headline load.
HEADLINE_PER_SECOND = 175_000

Report = dict[str, Any]


@dataclass
class Peer:
    """A broker that serves.

    Attributes:
        name: Whose it is.
        address: Where it listens.
        pid: Its process.
        ready_seconds: From its start to its ready line.
        topics: Topics that were made already.
    """

    name: str
    address: str
    pid: int
    ready_seconds: float
    topics: set[str] = field(default_factory=set)

    def load(self, job: str, topic: str, *arguments: object) -> Report:
        """Runs `mqcore-load` against it, and makes the topic the first time."""
        made = () if topic in self.topics or job == "consume" else ("--create",)
        self.topics.add(topic)
        command = [LOAD, job, "--broker", self.address, "--pid", self.pid, "--topic", topic]
        words = [str(word) for word in (*command, *made, *arguments)]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=LOAD_SECONDS, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout}")
        report: Report = json.loads(done.stdout)
        return report

    def produce(self, topic: str, *arguments: object) -> Report:
        """Sends for the usual time."""
        timing = ("--seconds", SECONDS, "--warm-seconds", WARM_SECONDS)
        return self.load("produce", topic, *timing, *arguments)

    def resident_mb(self) -> float:
        """Returns its resident memory that is its own (without mapped files), in MB."""
        lines = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8").splitlines()
        sizes = dict(line.split(":", 1) for line in lines)
        return int(sizes["RssAnon"].split()[0]) / 1024

    def processor_seconds(self) -> float:
        """Returns the processor time it has used."""
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8")
        ticks = stat.rsplit(")", 1)[1].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Row:
    """One line of the table: what both reached, and whether their ratio is what it should be.

    Attributes:
        name: What was measured.
        ours: Our figure.
        other: The figure beside it: the official broker's, or our own under an easier load.
        goal: In words.
        bound: The ratio that is to be reached, or with `is_upper` not to be passed.
        is_upper: Whether less is better.
    """

    name: str
    ours: float
    other: float | None
    goal: str
    bound: float
    is_upper: bool = False

    @property
    def ratio(self) -> float:
        """Ours beside the other; a figure that stands alone is its own ratio."""
        if self.other is None:
            return self.ours
        return self.ours / self.other if self.other else float("inf")

    @property
    def is_missed(self) -> bool:
        """Whether the goal is missed."""
        return self.ratio > self.bound if self.is_upper else self.ratio < self.bound


def until_said(process: subprocess.Popen[str], words: str, name: str) -> str:
    """Reads what a starting broker says until it says `words`; reads on in the background."""
    stream = process.stdout
    if stream is None:
        raise RuntimeError(f"{name} has no output")
    said = []
    timer = threading.Timer(START_SECONDS, process.kill)
    timer.start()
    for line in stream:
        said.append(line)
        if words in line:
            timer.cancel()
            threading.Thread(target=stream.read, daemon=True).start()
            return line
    timer.cancel()
    raise RuntimeError(f"{name} did not start: {''.join(said)[-2000:]}")


@contextmanager
def running(
    name: str, command: list[str], ready: str, port: int | None, **more: Any
) -> Iterator[Peer]:
    """Runs a broker until it is no longer needed."""
    started = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
    )
    try:
        line = until_said(process, ready, name)
        seconds = time.monotonic() - started
        address = (
            f"127.0.0.1:{port}" if port else line.split(" ready on ")[1].split(",")[0].split()[0]
        )
        yield Peer(name, address, process.pid, seconds)
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def official(home: Path, flush: str, port: int) -> Iterator[Peer]:
    """Runs the official broker; no name server is needed."""
    home.mkdir()
    conf = home / "broker.conf"
    settings = {
        "brokerIP1": "127.0.0.1",
        "listenPort": port,
        "storePathRootDir": home / "store",
        "storePathCommitLog": home / "store" / "commitlog",
        "flushDiskType": flush,
        "mappedFileSizeCommitLog": SEGMENT_BYTES,
    }
    conf.write_text("".join(f"{k}={v}\n" for k, v in settings.items()), encoding="utf-8")
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
    memory = [f"-Xms{HEAP}", f"-Xmx{HEAP}", "-XX:+UseG1GC", f"-Duser.home={home}"]
    jars = fetched(VERSION, CACHE / VERSION)
    main = "org.apache.rocketmq.broker.BrokerStartup"
    command = ["java", *opened, *memory, "-cp", f"{jars}/*", main, "-c", str(conf)]
    environment = {**os.environ, "ROCKETMQ_HOME": str(home)}
    with running("official", command, "boot success", port, env=environment, cwd=home) as peer:
        yield peer


@contextmanager
def ours(home: Path, flush: str) -> Iterator[Peer]:
    """Runs our broker, with a name server in the same process."""
    home.mkdir()
    command = [str(MQCORE), "standalone", "--data", str(home / "store"), "--port", "0"]
    command += ["--namesrv-port", "0", "--set", f"flushDiskType={flush}"]
    command += ["--set", f"mappedFileSizeCommitLog={SEGMENT_BYTES}"]
    with running("ours", command, "mqcore standalone ready on", None, cwd=home) as peer:
        yield peer


def free_port() -> int:
    """Returns a port that is free now, with two free ones below: the fast port and its like."""
    import socket

    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port - 2))
            except OSError:
                continue
            return port


def rate(report: Report) -> float:
    """Messages per second of a report."""
    return float(report["messages_per_second"])


def latency(report: Report, quantile: str) -> float:
    """A latency of a report, in microseconds."""
    return float(report["latency_us"][quantile])


def warm(*peers: Peer) -> None:
    """Loads brokers before anything is measured, with small messages."""
    for peer in peers:
        load = ("-c", 8, "-w", 8, "--size", 64, "--seconds", FIRST_SECONDS)
        peer.load("produce", "warm", *load)


def asynchronous_rows(one: Peer, other: Peer) -> Iterator[Row]:
    """Throughput and latency without waiting for the disk."""
    wide = ("-c", 8, "-w", 32)
    warm(one, other)
    a, b = (peer.produce("wide", *wide) for peer in (one, other))
    yield Row("8 x 32, 1 KB: messages/s", rate(a), rate(b), ">= 4x", 4)
    for quantile in ("p99", "p99.9"):
        mine, theirs = latency(a, quantile), latency(b, quantile)
        yield Row(f"8 x 32, 1 KB: {quantile} us", mine, theirs, "<= 1/5", 1 / 5, is_upper=True)
    us = [report["processor"]["us_per_message"] for report in (a, b)]
    yield Row("8 x 32, 1 KB: broker us/message", us[0], us[1], "<= 1/8", 1 / 8, is_upper=True)
    half = rate(b) / 2
    a, b = (peer.produce("wide", *wide, "--rate", half) for peer in (one, other))
    for quantile in ("p99", "p99.9"):
        mine, theirs = latency(a, quantile), latency(b, quantile)
        name = f"open loop, half the official maximum: {quantile} us"
        yield Row(name, mine, theirs, "<= 1/5", 1 / 5, is_upper=True)
    a, b = (peer.produce("wide", *wide, "--size", 128) for peer in (one, other))
    yield Row("8 x 32, 128 B: messages/s", rate(a), rate(b), ">= 6x", 6)
    a, b = (peer.produce("wide") for peer in (one, other))
    mine, theirs = latency(a, "p50"), latency(b, "p50")
    yield Row("1 x 1: p50 us", mine, theirs, "<= 1/3", 1 / 3, is_upper=True)
    a, b = (peer.produce("wide", "-c", 64) for peer in (one, other))
    yield Row("64 x 1: messages/s", rate(a), rate(b), ">= 2x", 2)


def synchronous_rows(one: Peer, other: Peer) -> Iterator[Row]:
    """Throughput where each answer waits for the disk."""
    warm(one, other)
    for connections, outstanding in ((1, 1), (64, 1), (8, 128)):
        load = ("-c", connections, "-w", outstanding)
        a, b = (peer.produce("sync", *load) for peer in (one, other))
        name = f"sync flush {connections} x {outstanding}: messages/s"
        yield Row(name, rate(a), rate(b), ">= 2x", 2)


def fan_out_row(one: Peer, other: Peer) -> Row:
    """Eight consumers of one topic that is still in memory."""

    def bytes_per_processor_second(peer: Peer) -> float:
        peer.load("produce", "hot", "-c", 4, "-w", 32, "--count", 50_000)
        report = peer.load("consume", "hot", "-c", 8, "--until-end", "--seconds", 60)
        used = report["processor"]["user_s"] + report["processor"]["system_s"]
        # A step of the processor clock is 10 ms: what took less took that.
        return float(report["bytes"]) / max(used, 0.01)

    a, b = (bytes_per_processor_second(peer) / 1e6 for peer in (one, other))
    return Row("fan-out to 8 consumers: MB per broker CPU second", a, b, ">= 3x", 3)


def many_rows(one: Peer) -> Iterator[Row]:
    """What many queues and topics cost us, beside ourselves with few."""
    wide = ("-c", 8, "-w", 32)
    few = rate(one.produce("few", *wide))
    many = rate(one.produce("queues", *wide, "--queues", 10_000))
    yield Row("10,000 queues beside 4: messages/s", many, few, "<= 15 % down", 0.85)
    for topics in (256, 1_000):
        many = rate(one.produce(f"topics{topics}", *wide, "--topics", topics))
        yield Row(f"{topics} topics beside 1: messages/s", many, few, "<= 15 % down", 0.85)


def headline_row(one: Peer) -> Row:
    """The load of the seeds: so many orders a second, in an open loop."""
    load = ("-c", 8, "-w", 256, "--rate", HEADLINE_PER_SECOND)
    p99 = latency(one.produce("orders", *load), "p99") / 1_000
    name = f"open loop, {HEADLINE_PER_SECOND:,}/s of 1 KB: p99 ms"
    return Row(name, p99, None, "<= 10", 10, is_upper=True)


def idle_rows(home: Path) -> Iterator[Row]:
    """A broker that nobody uses, and one that only hears heartbeats."""
    with ours(home, "ASYNC_FLUSH") as peer:
        yield Row("start to ready: s", peer.ready_seconds, None, "< 0.5", 0.5, is_upper=True)
        yield Row(
            "idle: anonymous memory, MB", peer.resident_mb(), None, "<= 100", 100, is_upper=True
        )
        peer.load("produce", "idle", "--queues", 1_000, "--count", 4_000, "-w", 32)
        # A load of one heartbeat at the end only: it tells when the time is over.
        report = peer.load("idle", "idle", "--seconds", IDLE_SECONDS, "--heartbeat-seconds", 600)
        share = used_share(report)
        yield Row("idle, 1,000 queues: % of a core", share, None, "<= 0.5", 0.5, is_upper=True)
        report = peer.load("idle", "idle", "-c", 5_000, "--seconds", max(IDLE_SECONDS, 10))
        share = used_share(report)
        yield Row("5,000 heartbeats: % of a core", share, None, "< 10", 10, is_upper=True)
        memory = peer.resident_mb()
        yield Row("5,000 connections: memory, MB", memory, None, "< 300", 300, is_upper=True)


def used_share(report: Report) -> float:
    """Processor time of the broker during a report, in percent of one core."""
    used = report["processor"]["user_s"] + report["processor"]["system_s"]
    return 100 * float(used) / float(report["seconds"])


def rows(scratch: Path) -> Iterator[Row]:
    """Every row, as it is measured."""
    yield from idle_rows(scratch / "idle")
    for flush in ("ASYNC_FLUSH", "SYNC_FLUSH"):
        with ExitStack() as both:
            other = both.enter_context(official(scratch / f"official-{flush}", flush, free_port()))
            one = both.enter_context(ours(scratch / f"ours-{flush}", flush))
            if flush == "SYNC_FLUSH":
                yield from synchronous_rows(one, other)
                continue
            yield from asynchronous_rows(one, other)
            yield fan_out_row(one, other)
    with ours(scratch / "many", "ASYNC_FLUSH") as one:
        yield from many_rows(one)
        yield headline_row(one)


def main() -> None:
    """Measures, prints, writes."""
    need_java()
    console = Console(width=None if sys.stdout.isatty() else 120)
    measured: list[Row] = []
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUT.parent) as scratch:
        for row in rows(Path(scratch)):
            measured.append(row)
            console.print(f"{row.name}: {row.ours:,.2f}", highlight=False)
    table = Table(title=f"mqcore beside Apache RocketMQ {VERSION} ({HEAP} heap), one run")
    for column in ("what", "reached", "beside", "ratio", "goal", ""):
        table.add_column(column, justify="left" if column in ("what", "goal") else "right")
    for row in measured:
        beside = "" if row.other is None else f"{row.other:,.1f}"
        ratio = "" if row.other is None else f"{row.ratio:.2f}"
        missed = "missed" if row.is_missed else ""
        table.add_row(row.name, f"{row.ours:,.2f}", beside, ratio, row.goal, missed)
    console.print(table)
    lines = [
        {
            "name": row.name,
            "reached": row.ours,
            "beside": row.other,
            "ratio": row.ratio,
            "goal": row.goal,
            "missed": row.is_missed,
        }
        for row in measured
    ]
    OUT.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
