"""A storm of bad bytes at every port of programs that run, and what must hold meanwhile.

    with running(root) as programs:
        result = storm(programs, Plan(seconds=60), root)
        result.faults

A broker, a name server and a controller of ours, as users start them; `mqcore-load fuzz` sends.
Every program lives, answers a good request between bad ones, prints no error that nobody expected,
and gives back memory, descriptors and threads. Knows programs by their ports.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fuzz.seeds import frames_of, good_request, raw_pieces, write_pieces
from interop.patience import eventually
from interop.processes import free_port
from interop.servers import OURS, Program, prepared
from mqcore import Admin, Message, Producer
from mqcore.remoting import RequestCode
from soak.samples import Sampler, Series
from tls_papers import Papers

__all__ = ["PORTS", "Plan", "Port", "Result", "load_program", "running", "storm"]

_MIB: Final = 1 << 20
_ROOT: Final = Path(__file__).resolve().parents[2]
_WITNESS: Final = "Witness"
# Above what a program had before the storm: connections to name servers, threads of pools.
_MORE: Final = {"sockets": 8, "threads": 40}
# What a storm may add in its second half, when every bounded table is full.
_GROWTH_BYTES_MAX: Final = 48 * _MIB
# A shorter storm fills tables to its end.
_MEASURABLE_S: Final = 300.0
# Far beyond the time of one storm.
_MARGIN_S: Final = 120.0
# Settings that a person may change while a program runs: with access control on, or a level of
# logs, nothing behind it would be looked at. `tests/broker/test_hostile.py` sends these.
_WITHOUT: Final = {"broker": (25,), "namesrv": (318,), "controller": (1009,)}
_BROKER_KEYS: Final = {
    "mappedFileSizeCommitLog": str(16 * _MIB),
    "mqcoreLogBytesMax": str(128 * _MIB),
    "cleanResourceInterval": "1000",
    "maxMessageSize": "65536",
    # Tables that fill within a minute, so that what grows beyond is a leak.
    "topicsMax": "1000",
    "queuesMax": "8000",
    "groupsMax": "1000",
    "metricsExporterType": "PROM",
    "timerWheelEnable": "true",
    "mappedFileSizeTimerLog": str(4 * _MIB),
    "deduplicationWindowMinutes": "1",
    "enablePropertyFilter": "true",
    "transactionCheckInterval": "1000",
    "tls.server.mode": "permissive",
}


@dataclass(frozen=True, slots=True)
class Port:
    """A port that is stormed.

    Attributes:
        name: What it is called in reports.
        program: Whose it is.
        setting: The setting that has its number.
        seeds: What inputs are made of: of a server's requests, or another protocol.
        percent: Its part of the time.
        is_raw: Whether its inputs are no frames.
        is_tls: Whether frames go over TLS.
    """

    name: str
    program: str
    setting: str
    seeds: str
    percent: float
    is_raw: bool = False
    is_tls: bool = False


PORTS: Final = (
    Port("broker", "broker", "listenPort", "broker", 45),
    Port("name server", "namesrv", "listenPort", "namesrv", 15),
    Port("controller", "controller", "listenPort", "controller", 10),
    Port("broker over TLS", "broker", "listenPort", "broker", 12, is_tls=True),
    Port("handshake of TLS", "broker", "listenPort", "tls", 6, is_raw=True),
    Port("replication", "broker", "haListenPort", "replication", 6, is_raw=True),
    Port("metrics", "broker", "metricsPromExporterPort", "http", 6, is_raw=True),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a storm is.

    Attributes:
        seconds: Of all ports together.
        seed: What inputs are drawn from.
        connections: How many at once, of each port in its turn.
    """

    seconds: float
    seed: int = 1
    connections: int = 6


@dataclass(slots=True)
class Result:
    """What came of a storm.

    Attributes:
        reports: What `mqcore-load` reported, by port.
        faults: What was broken; empty where all is well.
    """

    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        """How many inputs were tried."""
        return sum(report["inputs"] for report in self.reports.values())


@contextmanager
def running(root: Path) -> Iterator[Mapping[str, Program]]:
    """Starts a name server, a broker and a controller in a directory; ends them."""
    papers = Papers(root / "papers")
    certificate = str(papers.issued("broker"))
    servers = prepared(OURS, root, _BROKER_KEYS)
    servers.broker.settings |= {
        "metricsPromExporterPort": str(free_port()),
        "tls.server.certPath": certificate,
        "tls.server.keyPath": certificate,
    }
    port = free_port()
    keys = {
        "controllerDLegerGroup": "group1",
        "controllerDLegerPeers": f"n0-127.0.0.1:{port}",
        "controllerDLegerSelfId": "n0",
        "controllerStorePath": str(root / "controller" / "store"),
    }
    controller = Program(OURS, "controller", root / "controller", port, keys)
    programs = {"namesrv": servers.namesrv, "broker": servers.broker, "controller": controller}
    with ExitStack() as stack:
        for program in programs.values():
            stack.callback(program.kill)
            program.start()
        with Admin(servers.namesrv.address) as admin:
            eventually(lambda: admin.brokers.cluster().brokers, bool)
            admin.topics.create(_WITNESS, queues=1)
        yield programs


def storm(
    programs: Mapping[str, Program], plan: Plan, root: Path, ports: Sequence[Port] = PORTS
) -> Result:
    """Storms every port in turn; returns what came of it.

    Args:
        programs: They, by kind.
        plan: How long.
        root: Where files for the generator are written.
        ports: Which ports.
    """
    result = Result()
    pids = {name: program.pid for name, program in programs.items()}
    known = {name: pid for name, pid in pids.items() if pid is not None}
    before = {name: _held(pid) for name, pid in known.items()}
    share = sum(port.percent for port in ports)
    for port in ports:
        seconds = plan.seconds * port.percent / share
        with Sampler(lambda: known) as sampler:
            report = _stormed(programs[port.program], port, plan, seconds, root)
        result.reports[port.name] = report
        result.faults += [f"{port.name}: {each}" for each in report.get("gone", [])]
        result.faults += _growth(port, sampler.series.get(port.program), seconds)
        result.faults += [repr(error) for error in sampler.failed]
    for name, program in programs.items():
        if program.has_died:
            result.faults.append(f"{name} has died: {program.printed()[-2000:]}")
            continue
        result.faults += _kept(name, known[name], before[name])
        result.faults += _errors(name, program.printed())
    if not result.faults:
        result.faults += _witnessed(programs)
    return result


def load_program() -> Path:
    """Returns the newest build of the generator.

    Raises:
        AssertionError: There is none.
    """
    built = [_ROOT / "target" / profile / "mqcore-load" for profile in ("release", "debug")]
    found = [path for path in built if path.exists()]
    assert found, "cargo build --release -p mqcore-load makes the generator"
    return max(found, key=lambda path: path.stat().st_mtime)


def _stormed(
    program: Program, port: Port, plan: Plan, seconds: float, root: Path
) -> dict[str, Any]:
    seeds, probe = root / f"{port.seeds}.seeds", root / f"{port.seeds}.probe"
    pieces = raw_pieces(port.seeds) if port.is_raw else frames_of(port.seeds)
    write_pieces(seeds, pieces, are_frames=not port.is_raw)
    line: list[object] = [load_program(), "fuzz", "--seeds", seeds]
    line += ["--address", f"127.0.0.1:{program.settings[port.setting]}", "--seed", plan.seed]
    line += ["--seconds", seconds, "-c", plan.connections]
    line += ["--kind", "raw" if port.is_raw else "remoting"]
    good = _good(port)
    if good:
        probe.write_bytes(good)
        line += ["--probe", probe]
    if without := _WITHOUT.get(port.seeds):
        line += ["--without", ",".join(map(str, without))]
    line += ["--tls"] if port.is_tls else []
    done = subprocess.run(
        [str(word) for word in line],
        capture_output=True,
        text=True,
        timeout=seconds + _MARGIN_S,
        check=False,
    )
    if not done.stdout:
        return {"inputs": 0, "gone": [done.stderr.strip()]}
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def _good(port: Port) -> bytes:
    """Returns a request whose answer has to come; empty for a port that answers nobody."""
    if port.seeds == "http":
        return b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    if port.is_raw:
        return b""
    if port.program == "broker":
        return good_request(RequestCode.GET_MIN_OFFSET, {"topic": _WITNESS, "queueId": "0"})
    if port.program == "namesrv":
        return good_request(RequestCode.GET_BROKER_CLUSTER_INFO, {})
    return good_request(RequestCode.CONTROLLER_GET_METADATA_INFO, {})


def _growth(port: Port, series: Series | None, seconds: float) -> list[str]:
    if series is None:
        return [f"{port.name}: nobody was there to be looked at"]
    values = series.values["memory"]
    half, last = max(values[: len(values) // 2 + 1]), values[-1]
    if seconds < _MEASURABLE_S or last - half <= _GROWTH_BYTES_MAX:
        return []
    return [f"{port.name}: memory grew from {half / _MIB:.0f} to {last / _MIB:.0f} MiB"]


def _held(pid: int) -> dict[str, int]:
    """Returns what a program has of that which goes with a connection; files of topics stay."""
    folder = Path(f"/proc/{pid}")
    sockets = 0
    for entry in (folder / "fd").iterdir():
        with suppress(OSError):  # Closed meanwhile.
            sockets += str(entry.readlink()).startswith("socket:")
    return {"sockets": sockets, "threads": sum(1 for _ in (folder / "task").iterdir())}


def _kept(name: str, pid: int, before: Mapping[str, int]) -> list[str]:
    """Returns what a program did not give back."""

    def is_back(seen: Mapping[str, int]) -> bool:
        return all(seen[what] <= before[what] + more for what, more in _MORE.items())

    after = eventually(lambda: _held(pid), is_back)
    return [
        f"{name}: {after[what]} {what} behind a storm, {before[what]} before it"
        for what, more in _MORE.items()
        if after[what] > before[what] + more
    ]


def _errors(name: str, printed: str) -> list[str]:
    for mark in ("Traceback (most recent call last)", "panicked at", "never retrieved"):
        if mark in printed:
            at = printed.index(mark)
            return [f"{name} printed an error that nobody expected: {printed[at : at + 3_000]}"]
    return []


def _witnessed(programs: Mapping[str, Program]) -> list[str]:
    """Sends a message, as a client that has seen nothing of it."""
    with Producer(programs["namesrv"].address, group="witness") as producer:
        result = producer.send(Message(_WITNESS, b"still there"))
    return [] if result.is_ok else [f"a message was not kept: {result}"]
