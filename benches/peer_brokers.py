"""The brokers that `peers.py` loads: ours and the official one, and what is asked of them.

Knows no figure that is to be reached.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from peer_rows import Report

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from interop.install import CACHE, compiled, fetched  # noqa: E402 - found by the line above

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
LOAD = TARGET / "release" / "mqcore-load"
MQCORE = Path(os.environ.get("MQCORE_PROGRAM", Path(sys.executable).parent / "mqcore"))
IS_QUICK = os.environ.get("MQCORE_BENCH") == "quick"

# The release that most run, and the newest whose jars are all published.
VERSIONS = ("5.3.3", "5.5.0")
# So short that what a run stores fits the memory that the kernel lets be dirty: the disk, which all
# brokers have alike, does not bound it.
SECONDS = 3 if IS_QUICK else 8
WARM_SECONDS = 1 if IS_QUICK else 2
# A JVM is slow until it has compiled what is hot: all get this long before the first row.
FIRST_SECONDS = 15 if IS_QUICK else 30
# `MQCORE_REACTORS`: the setting of our broker in all rows but those about it.
REACTORS = os.environ.get("MQCORE_REACTORS")
MACHINE = f"{os.cpu_count()} cores"
# The official start script takes 8 GB; with one it is at its best on a small machine.
HEAP = "1g"
OPENED = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.lang")
SEGMENT_BYTES = 1 << 30
# Handles of popped messages contain it.
BROKER_NAME = "broker-a"
START_SECONDS = 90.0
STOP_SECONDS = 60.0
LOAD_SECONDS = 600.0


@dataclass
class Peer:
    """A broker that serves.

    Attributes:
        name: Whose it is.
        address: Where it listens.
        pid: Its process.
        ready_seconds: From its start to its ready line.
        namesrv: Address of the name server that knows it.
        topics: Topics that were made already.
    """

    name: str
    address: str
    pid: int
    ready_seconds: float
    namesrv: str = ""
    topics: set[str] = field(default_factory=set)

    def command(self, job: str, topic: str, *arguments: object) -> list[str]:
        """The command that runs `mqcore-load` against it."""
        line = [LOAD, job, "--broker", self.address, "--pid", self.pid, "--topic", topic]
        return [str(word) for word in (*line, *arguments)]

    def load(self, job: str, topic: str, *arguments: object) -> Report:
        """Runs `mqcore-load` against it, and makes the topic the first time."""
        made = () if topic in self.topics or job in ("consume", "pop") else ("--create",)
        self.topics.add(topic)
        words = self.command(job, topic, *made, *arguments)
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

    def transact(self, topic: str, *arguments: object) -> Report:
        """Sends half messages and commits each for the usual time."""
        timing = ("--seconds", SECONDS, "--warm-seconds", WARM_SECONDS)
        return self.load("transact", topic, *timing, *arguments)

    def java_clients(self, topic: str, threads: int) -> Report:
        """Sends by the official Java client: so many threads, each with one message under way."""
        if topic not in self.topics:
            self.load("produce", topic, "--count", 1)
        home = CACHE / VERSIONS[0]
        jars = fetched(VERSIONS[0], home)
        main = ("-cp", f"{compiled(home, jars)}:{jars}/*", "mqcore.interop.Load")
        timing = (threads, WARM_SECONDS, SECONDS, 1024)
        words = ["java", "-Xms512m", "-Xmx512m", *main, self.namesrv, topic, *map(str, timing)]
        before = processor_seconds_of_children()
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=LOAD_SECONDS, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()[-2000:]}")
        report: Report = json.loads(done.stdout.splitlines()[-1])
        # The start of the JVM and what it compiles are a small part of so many seconds.
        count = report["messages_per_second"] * (WARM_SECONDS + SECONDS)
        report["us_per_message"] = (processor_seconds_of_children() - before) / count * 1e6
        return report

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


def processor_seconds_of_children() -> float:
    """Returns the processor time of processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def until_printed(process: subprocess.Popen[str], words: str, name: str) -> str:
    """Reads a starting broker's output until `words` are in it; reads on in the background."""
    stream = process.stdout
    if stream is None:
        raise RuntimeError(f"{name} has no output")
    output = []
    timer = threading.Timer(START_SECONDS, process.kill)
    timer.start()
    for line in stream:
        output.append(line)
        if words in line:
            timer.cancel()
            threading.Thread(target=stream.read, daemon=True).start()
            return line
    timer.cancel()
    raise RuntimeError(f"{name} did not start: {''.join(output)[-2000:]}")


def end(process: subprocess.Popen[str]) -> None:
    """Ends a broker cleanly, or kills it when that takes too long."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


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
        line = until_printed(process, ready, name)
        seconds = time.monotonic() - started
        address = (
            f"127.0.0.1:{port}" if port else line.split(" ready on ")[1].split(",")[0].split()[0]
        )
        yield Peer(name, address, process.pid, seconds)
    finally:
        end(process)


@contextmanager
def lent(home: Path) -> Iterator[None]:
    """Makes a directory and removes it: the stores of all rows together fill a disk."""
    home.mkdir()
    try:
        yield
    finally:
        shutil.rmtree(home)


@dataclass(frozen=True)
class Papers:
    """A certificate that all brokers of a run show, and its key.

    Attributes:
        certificate: File of the certificate.
        key: File of its key, in PKCS #8.
    """

    certificate: Path
    key: Path

    @classmethod
    def made(cls, folder: Path) -> Papers:
        """Makes both in a folder."""
        issued = trustme.CA().issue_cert("localhost", "127.0.0.1")
        papers = cls(folder / "server.pem", folder / "server.key")
        chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
        papers.certificate.write_bytes(chain)
        key = load_pem_private_key(issued.private_key_pem.bytes(), password=None)
        # The only form that the official broker reads.
        form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        papers.key.write_bytes(key.private_bytes(*form))
        return papers

    def settings(self) -> dict[str, object]:
        """The settings of a broker that serves TLS and plain connections on one port."""
        return {
            "tls.server.mode": "permissive",
            "tls.server.certPath": self.certificate,
            "tls.server.keyPath": self.key,
        }


@contextmanager
def official(
    home: Path,
    flush: str,
    port: int,
    version: str,
    papers: Papers | None = None,
    more: Mapping[str, object] | None = None,
) -> Iterator[Peer]:
    """Runs an official broker; a name server of ours gives its clients the route."""
    names = [str(MQCORE), "namesrv", "--port", "0", "--set", f"kvConfigPath={home / 'kv.json'}"]
    ready = "mqcore namesrv ready on"
    with lent(home), running("namesrv", names, ready, None, cwd=home) as namesrv:
        conf = home / "broker.conf"
        settings = {
            "brokerIP1": "127.0.0.1",
            "brokerName": BROKER_NAME,
            "listenPort": port,
            "namesrvAddr": namesrv.address,
            "storePathRootDir": home / "store",
            "storePathCommitLog": home / "store" / "commitlog",
            "flushDiskType": flush,
            "mappedFileSizeCommitLog": SEGMENT_BYTES,
            **(more or {}),
        }
        conf.write_text("".join(f"{k}={v}\n" for k, v in settings.items()), encoding="utf-8")
        command = official_command(home, version, papers)
        environment = {**os.environ, "ROCKETMQ_HOME": str(home)}
        options: dict[str, Any] = {"env": environment, "cwd": home}
        with running(f"official {version}", command, "boot success", port, **options) as peer:
            peer.namesrv = namesrv.address
            yield peer


def official_command(home: Path, version: str, papers: Papers | None) -> list[str]:
    """The command line of an official broker whose `broker.conf` is in `home`."""
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
    memory = [f"-Xms{HEAP}", f"-Xmx{HEAP}", "-XX:+UseG1GC", f"-Duser.home={home}"]
    secured = []
    if papers is not None:
        given = {"tls.test.mode.enable": "false", **papers.settings()}
        secured = [f"-D{name}={value}" for name, value in given.items()]
    jars = fetched(version, CACHE / version)
    main = ["org.apache.rocketmq.broker.BrokerStartup", "-c", str(home / "broker.conf")]
    return ["java", *opened, *memory, *secured, "-cp", f"{jars}/*", *main]


@contextmanager
def ours(
    home: Path,
    flush: str,
    papers: Papers | None = None,
    reactors: int | str | None = REACTORS,
    more: Mapping[str, object] | None = None,
    before: Callable[[], None] = lambda: None,
) -> Iterator[Peer]:
    """Runs our broker, with a name server in the same process.

    Args:
        home: Its directory, which is made and removed.
        flush: How it flushes.
        papers: The certificate that it shows, None for plain connections.
        reactors: How many reactors it has.
        more: Settings beside the usual ones.
        before: Done in the directory before it starts.
    """
    command = [str(MQCORE), "standalone", "--data", str(home / "store"), "--port", "0"]
    namesrv = free_port()
    command += ["--namesrv-port", str(namesrv)]
    settings: dict[str, object] = {
        "flushDiskType": flush,
        "mappedFileSizeCommitLog": SEGMENT_BYTES,
        "brokerName": BROKER_NAME,
        **(more or {}),
    }
    if papers is not None:
        settings |= papers.settings()
    if reactors is not None:
        settings["mqcoreReactors"] = reactors
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    ready = "mqcore standalone ready on"
    with lent(home):
        before()
        with running("ours", command, ready, None, cwd=home) as peer:
            peer.namesrv = f"127.0.0.1:{namesrv}"
            yield peer


@contextmanager
def sink(home: Path) -> Iterator[Peer]:
    """Runs the least that stores what the generator sends."""
    command = [str(LOAD), "sink", "--directory", str(home)]
    with lent(home), running("sink", command, "mqcore-load sink ready on", None) as peer:
        yield peer


def free_port() -> int:
    """Returns a port that is free now, with those that the official broker takes beside it."""
    import socket

    while True:
        with socket.socket() as first, socket.socket() as fast, socket.socket() as replication:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                fast.bind(("127.0.0.1", port - 2))
                replication.bind(("0.0.0.0", port + 1))
            except OSError:
                continue
            return port
