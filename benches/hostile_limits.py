"""What a bystander notices while one client brings as much as it can: sends and route queries.

    python benches/hostile_limits.py [NAME ...]

Each scenario starts its own program on the loopback address, with a bystander in a process of its
own that asks once a millisecond; prints what its answers took, before and during. Bounded: some
hundred megabytes, a minute in all.
"""

import argparse
import json
import multiprocessing
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from mqcore.native import Command, FrameReader

SMALL = {
    "mappedFileSizeCommitLog": str(64 << 20),
    "mappedFileSizeConsumeQueue": "600000",
    "maxHashSlotNum": "5000",
    "maxIndexNum": "20000",
    "diskSpaceWarningLevelRatio": "99",
    "diskSpaceCleanForciblyRatio": "99",
    "enablePropertyFilter": "true",
}
# How long the bystander is alone before each attack, and how long after it at the least.
QUIET_S = 1.0
AFTER_S = 1.0
# No attack lasts longer, whatever becomes of it.
ATTACK_S = 30.0
# Never set: what is waited for is time.
QUIET = threading.Event()


class Raw:
    """A client of one socket, without a loop."""

    def __init__(self, port: int) -> None:
        """Connects."""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ATTACK_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = FrameReader()

    def call(self, code: int, ext: dict[str, str], body: bytes = b"") -> Command:
        """Sends a request and returns its answer."""
        self.socket.sendall(Command(code, ext=ext, body=body, opaque=1).encode())
        while True:
            data = self.socket.recv(1 << 18)
            if not data:
                raise ConnectionError("closed")
            for found in self._frames.feed(data):
                if found.is_response:
                    return found


def send(client: Raw) -> Command:
    """Sends a message."""
    ext = dict(zip("abcdefgh", ["p", "T", "TBW102", "8", "0", "0", "1", "0"], strict=True))
    return client.call(310, ext | {"i": "", "j": "0", "k": "false", "m": "false"}, b"x")


def route(client: Raw) -> Command:
    """Asks for a route."""
    return client.call(105, {"topic": "TBW102"})


def bystand(port: int, ask: Callable[[Raw], Command], parent: Connection) -> None:
    """Asks until the parent sends anything; sends it when each answer came and how long it took."""
    client = Raw(port)
    took: list[tuple[float, float]] = []
    refused = 0
    parent.send("ready")
    # Once a millisecond, until something is received.
    while not parent.poll(0.001):
        began_s = time.monotonic()
        refused += ask(client).code not in (0, 17)
        took.append((began_s, time.monotonic() - began_s))
    parent.send((took, refused))


@dataclass(slots=True)
class Program:
    """A program that runs.

    Attributes:
        process: The process.
        ports: Its ports by name.
    """

    process: subprocess.Popen[bytes]
    ports: dict[str, int]


@contextmanager
def running(kind: str, descriptors: int | None = None, **pairs: str) -> Iterator[Program]:
    """Runs a broker or a name server on free ports."""

    def limited() -> None:
        if descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    with tempfile.TemporaryDirectory(prefix="mqcore-bench-") as folder, ExitStack() as stack:
        ports = Path(folder) / "ports.json"
        command = [sys.executable, "-m", "mqcore.cli.main", kind, "--port", "0"]
        command += ["--port-file", str(ports), "--log-level", "error"]
        if kind == "broker":
            command += ["--data", folder + "/store"]
            pairs = SMALL | pairs
        command += [f"--set={key}={value}" for key, value in pairs.items()]
        process = stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=limited)
        )
        stack.callback(process.kill)
        assert process.stdout is not None
        for line in process.stdout:
            if b" ready on " in line:
                break
        yield Program(process, json.loads(ports.read_text()))


@dataclass(slots=True)
class Row:
    """What was measured.

    Attributes:
        name: The scenario.
        quiet_s: What answers took before.
        during_s: What they took from the begin of the attack on.
        notes: What became of the attack.
    """

    name: str
    quiet_s: list[float] = field(default_factory=list)
    during_s: list[float] = field(default_factory=list)
    notes: str = ""


def watched(name: str, port: int, ask: Callable[[Raw], Command], attack: Callable[[], str]) -> Row:
    """Runs an attack beside a bystander."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    bystander = context.Process(target=bystand, args=(port, ask, theirs), daemon=True)
    bystander.start()
    row = Row(name)
    try:
        assert ours.recv() == "ready"
        QUIET.wait(QUIET_S)
        began_s = time.monotonic()
        row.notes = attack()
        ended_s = time.monotonic()
        QUIET.wait(AFTER_S)
        ours.send("stop")
        if not ours.poll(ATTACK_S):
            row.notes += "; the bystander waits"
            return row
        took, refused = ours.recv()
        row.quiet_s = [each for at, each in took if at < began_s]
        row.during_s = [each for at, each in took if at + each >= began_s]
        row.notes += f"; {ended_s - began_s:.2f} s"
        row.notes += f"; {refused} of the bystander refused" if refused else ""
    except (EOFError, ConnectionError):
        row.notes += "; the bystander was cut off"
    finally:
        bystander.kill()
    return row


def answered(client: Raw, code: int, ext: dict[str, str], body: bytes) -> str:
    """Sends a request; returns its answer as text."""
    try:
        answer = client.call(code, ext, body)
    except (OSError, ConnectionError) as error:
        return f"no answer ({error})"
    return f"code {answer.code} {(answer.remark or '')[:90]}".strip()


def consumer(group: str, topics: list[str]) -> dict[str, object]:
    """Returns one group of a heartbeat."""
    wanted = [
        {"topic": topic, "subString": "*", "tagsSet": [], "codeSet": [], "subVersion": 1}
        for topic in topics
    ]
    return {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": wanted,
        "unitMode": False,
    }


def beat(groups: list[dict[str, object]]) -> bytes:
    """Returns the body of a heartbeat."""
    body = {"clientID": "c", "consumerDataSet": groups, "producerDataSet": []}
    return json.dumps(body, separators=(",", ":")).encode()


def subscriptions() -> Row:
    """A heartbeat of 200,000 subscriptions."""
    body = beat([consumer("g", [f"t{at}" for at in range(200_000)])])
    # A frame has 16 MiB: as many of them as fit.
    count = 200_000 * (15 << 20) // max(len(body), 15 << 20)
    body = beat([consumer("g", [f"t{at}" for at in range(count)])])
    with running("broker") as program:
        client = Raw(program.ports["broker"])
        return watched(
            f"heartbeat, {count} subscriptions",
            program.ports["broker"],
            send,
            lambda: answered(client, 34, {}, body),
        )


def allowed_subscriptions() -> Row:
    """The largest heartbeats that are taken, and the end of their connection."""
    groups = [consumer(f"g{at}", [f"t{at}-{n}" for n in range(4_000)]) for at in range(5)]
    body = beat(groups)

    def attack() -> str:
        client = Raw(program.ports["broker"])
        answer = answered(client, 34, {}, body)
        client.socket.close()
        return answer

    with running("broker") as program:
        return watched("heartbeat, 5 x 4,000 subscriptions", program.ports["broker"], send, attack)


def new_groups() -> Row:
    """Heartbeats that name 20,000 new groups."""
    bodies = [
        beat([consumer(f"group-{first + at}", ["T"]) for at in range(1_000)])
        for first in range(0, 20_000, 1_000)
    ]

    def attack() -> str:
        client = Raw(program.ports["broker"])
        answer = ""
        for body in bodies:
            answer = answered(client, 34, {}, body)
        client.socket.close()
        return answer

    with running("broker") as program:
        return watched("20,000 new groups", program.ports["broker"], send, attack)


def registration() -> Row:
    """A registration of 120,000 topics, and the end of its connection."""
    rows = b"".join(
        struct.pack(">i", len(entry)) + entry
        for entry in (f"topic-{at} 8 8 6 SINGLE_TAG".encode() for at in range(120_000))
    )
    version = b'{"counter":1,"stateVersion":0,"timestamp":7}'
    plain = struct.pack(">i", len(version)) + version + struct.pack(">i", 120_000) + rows
    body = zlib.compress(plain + struct.pack(">i", 0) + struct.pack(">i", 0))
    ext = {
        "brokerName": "b",
        "brokerAddr": "127.0.0.1:1",
        "clusterName": "c",
        "brokerId": "0",
        "haServerAddr": "127.0.0.1:2",
        "compressed": "true",
        "bodyCrc32": "0",
    }

    def attack() -> str:
        client = Raw(program.ports["namesrv"])
        answer = answered(client, 103, ext, body)
        client.socket.close()
        return answer

    with running("namesrv") as program:
        return watched("registration, 120,000 topics", program.ports["namesrv"], route, attack)


def half_frames() -> Row:
    """Thirty half frames of 12 MB, in 160 MiB of memory."""
    half = struct.pack(">ii", 16_000_000, 10) + bytes(12_000_000)

    def attack() -> str:
        sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(30)]
        left = dict.fromkeys(sockets, 0)
        end_s = time.monotonic() + 3.0
        for each in sockets:
            each.setblocking(False)
        while time.monotonic() < end_s and left:
            for each in list(left):
                try:
                    left[each] += each.send(memoryview(half)[left[each] : left[each] + (1 << 20)])
                except BlockingIOError:
                    continue
                except OSError:
                    del left[each]
                    continue
                if left[each] == len(half):
                    del left[each]
            QUIET.wait(0.001)
        status = Path(f"/proc/{program.process.pid}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("RssAnon"))
        for each in sockets:
            each.close()
        return f"anonymous memory {int(peak.split()[1]) >> 10} MiB"

    with running("broker", memoryAllowed="160m") as program:
        port = program.ports["broker"]
        return watched("30 half frames of 12 MB", port, send, attack)


def idle_connections() -> Row:
    """Three hundred idle connections with 256 descriptors."""

    def attack() -> str:
        sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
        QUIET.wait(2.0)
        answers = [answered(Raw(port), 310, fields(f"T{at}"), b"x") for at in range(20)]
        for each in sockets:
            each.close()
        return f"{sum(each.startswith('code 0') for each in answers)} of 20 new clients send"

    def fields(topic: str) -> dict[str, str]:
        ext = dict(zip("abcdefgh", ["p", topic, "TBW102", "8", "0", "0", "1", "0"], strict=True))
        return ext | {"i": "", "j": "0", "k": "false", "m": "false"}

    with running("broker", descriptors=256) as program:
        port = program.ports["broker"]
        return watched("300 idle connections, 256 descriptors", port, send, attack)


def greedy_connections() -> Row:
    """Four connections that each ask 50,000 cheap questions at once."""
    ask = b"".join(
        Command(30, ext={"topic": "T", "queueId": "0"}, opaque=at).encode() for at in range(50_000)
    )

    def attack() -> str:
        clients = [Raw(port) for _ in range(4)]
        for client in clients:
            client.socket.setblocking(False)
        left = dict.fromkeys(clients, 0)
        while left:
            for client in list(left):
                with suppress(BlockingIOError):
                    left[client] += client.socket.send(memoryview(ask)[left[client] :])
                if left[client] == len(ask):
                    del left[client]
                    continue
                with suppress(BlockingIOError):
                    client.socket.recv(1 << 20)
        return "all asked"

    with running("broker") as program:
        port = program.ports["broker"]
        return watched("4 connections, 50,000 questions each", port, send, attack)


SCENARIOS = (
    subscriptions,
    allowed_subscriptions,
    new_groups,
    registration,
    half_frames,
    idle_connections,
    greedy_connections,
)


def shown(took_s: list[float]) -> str:
    """Returns median, 99th percentile and maximum in milliseconds."""
    if not took_s:
        return "-"
    order = sorted(took_s)
    picked = (order[len(order) // 2], order[len(order) * 99 // 100], order[-1])
    return " / ".join(f"{each * 1e3:.2f}" for each in picked)


def main() -> None:
    """Runs the scenarios that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *(each.__name__ for each in SCENARIOS)])
    names = parser.parse_args().names
    print("| scenario | before p50 / p99 / max ms | during p50 / p99 / max ms | notes |")
    print("|---|---|---|---|")
    for scenario in SCENARIOS:
        if not names or scenario.__name__ in names:
            row = scenario()
            print(f"| {row.name} | {shown(row.quiet_s)} | {shown(row.during_s)} | {row.notes} |")


if __name__ == "__main__":
    main()
