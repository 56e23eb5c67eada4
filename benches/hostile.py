"""What others wait for while a few connections hold as many requests as they may, and let them go.

A broker in a process of its own over a temporary directory, loopback alone. A bystander in another
process sends one message after the other to a topic of its own; each row is one event, and how long
the bystander's sends took while it went on. Raw frames: no client of ours.

    python benches/hostile.py                    # 240,000 requests of each kind
    python benches/hostile.py --count 20000      # smaller
    python benches/hostile.py --only held,filters

Rows: p50 and max of the bystander's sends in ms, when after the begin of the event the longest one
began, how many there were, and how long the event took.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import selectors
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

SEND, PULL, POP, NOTIFICATION = 310, 11, 200_050, 200_054
ONEWAY = 2
CONNECTIONS = 4
LIMIT = 262_144
# The same words as the broker's: a held request is answered within this, whatever comes.
HOLD_MS = 900_000
EVENT_S_MAX = 120.0
SETTLE_S = 1.0
RECEIVE_BYTES = 1 << 18
CONFIG: dict[str, object] = {
    "brokerName": "b",
    "brokerClusterName": "c",
    "brokerIP1": "127.0.0.1",
    "mappedFileSizeCommitLog": 256 << 20,
    "maxHashSlotNum": 10_000,
    "maxIndexNum": 40_000,
    "enablePropertyFilter": "true",
    "maxPopPollingSize": LIMIT,
    "popPollingSize": LIMIT,
    "heldPullsMax": LIMIT,
    "heldPullsPerConnectionMax": LIMIT,
    "heldPullsPerQueueMax": LIMIT,
    "parkedSendsMax": LIMIT,
    "parkedSendsPerConnectionMax": LIMIT,
}


def frame(code: int, opaque: int, ext: dict[str, object], body: bytes = b"") -> bytes:
    """Returns a request as it goes over the wire."""
    texts = {name: str(value) for name, value in ext.items()}
    head = json.dumps(
        {"code": code, "flag": 0, "language": "JAVA", "opaque": opaque, "version": 409}
        | {"extFields": texts}
    ).encode()
    return struct.pack(">ii", 4 + len(head) + len(body), len(head)) + head + body


def send_frame(opaque: int, topic: str, properties: str = "", body: bytes = b"x") -> bytes:
    """Returns a send to queue 0, which makes its topic."""
    fields = {"a": "p", "b": topic, "c": "TBW102", "d": 1, "e": 0, "f": 0, "g": 1, "h": 0}
    return frame(SEND, opaque, {**fields, "i": properties, "j": 0, "k": "false"}, body)


def pull_frame(opaque: int, topic: str, offset: int, expression: str | None, hold_ms: int) -> bytes:
    """Returns a pull of queue 0 that brings its subscription."""
    flags = 4 if hold_ms == 0 else 6
    fields = {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": flags,
        "commitOffset": 0,
        "suspendTimeoutMillis": hold_ms,
        "subVersion": 1,
        "subscription": expression or "*",
        "expressionType": "SQL92" if expression else "TAG",
    }
    return frame(PULL, opaque, fields)


def pop_frame(opaque: int, topic: str, code: int) -> bytes:
    """Returns a pop, or a question whether there is something to pop, that waits."""
    fields = {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": 0,
        "maxMsgNums": 1,
        "invisibleTime": 60_000,
        "pollTime": HOLD_MS,
        "bornTime": int(time.time() * 1000),
        "initMode": 1,
    }
    return frame(code, opaque, fields)


class Peer:
    """A connection that counts the answers that it gets."""

    def __init__(self, port: int) -> None:
        """Connects."""
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.answers = 0
        self.codes: dict[int, int] = {}
        self._half = bytearray()

    def send(self, data: bytes) -> None:
        """Sends frames."""
        self.sock.sendall(data)

    def receive(self) -> bool:
        """Takes what has come; False at the end."""
        data = self.sock.recv(RECEIVE_BYTES)
        self._half += data
        at = 0
        while len(self._half) - at >= 4:
            (length,) = struct.unpack_from(">i", self._half, at)
            if len(self._half) - at < 4 + length:
                break
            head_len = struct.unpack_from(">i", self._half, at + 4)[0] & 0xFFFFFF
            code = json.loads(self._half[at + 8 : at + 8 + head_len])["code"]
            self.codes[code] = self.codes.get(code, 0) + 1
            self.answers += 1
            at += 4 + length
        del self._half[:at]
        return bool(data)

    def ask(self, data: bytes) -> None:
        """Sends a request and waits for its answer."""
        before = self.answers
        self.send(data)
        while self.answers == before and self.receive():
            pass

    def close(self) -> None:
        """Closes the connection."""
        self.sock.close()


def bystand(port: int, pipe: Connection) -> None:
    """Sends one message after the other; gives begin and length of each send when asked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    peer, sends = Peer(port), []
    with contextlib.suppress(OSError):
        while not pipe.poll():
            began = time.monotonic()
            before = peer.answers
            peer.ask(send_frame(1, "bystander"))
            if peer.answers == before:
                break
            sends.append((began, time.monotonic() - began))
            _pass(0.0005)
    pipe.send(sends)


class Running:
    """A broker in a process of its own, and its bystander."""

    def __init__(self, config: dict[str, object]) -> None:
        """Starts both."""
        self.directory = Path(tempfile.mkdtemp(prefix="mqcore-hostile-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        known = _known_keys()
        pairs = {**CONFIG, **config, "listenPort": self.port}
        pairs["storePathRootDir"] = self.directory / "store"
        path = self.directory / "broker.conf"
        lines = [f"{key}={value}\n" for key, value in pairs.items() if key in known]
        path.write_text("".join(lines), encoding="utf-8")
        log = (self.directory / "log").open("wb")
        program = Path(sys.executable).parent / "mqcore"
        self.process = subprocess.Popen(
            [program, "broker", "run", "-c", path], stdout=log, stderr=log
        )
        _until(lambda: _is_listening(self.port))
        first = Peer(self.port)
        for topic in ("bystander", "held"):
            first.ask(send_frame(1, topic))
        first.close()
        self._pipe, theirs = multiprocessing.Pipe()
        self._bystander = multiprocessing.Process(target=bystand, args=(self.port, theirs))
        self._bystander.start()

    def sends(self) -> list[tuple[float, float]]:
        """Ends the bystander; returns begin and length of all its sends, in s."""
        self._pipe.send(None)
        got: list[tuple[float, float]] = self._pipe.recv()
        self._bystander.join()
        return got

    def terminate(self) -> float:
        """Sends SIGTERM; returns how long the broker took, in s."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(EVENT_S_MAX)
        return time.monotonic() - began

    def close(self) -> None:
        """Ends everything and removes the directory."""
        if self._bystander.is_alive():
            self._bystander.terminate()
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def _pass(seconds: float) -> None:
    """Lets an event go on."""
    time.sleep(seconds)  # noqa: TID251 - what is measured goes on meanwhile


def _known_keys() -> set[str]:
    """Returns the keys that this version of the broker knows: an older one ignores the new ones."""
    tables = Path(__file__).parent.parent / "python/mqcore/config/tables"
    lines = "".join(path.read_text("utf-8") for path in tables.glob("*.txt")).splitlines()
    return {line.split("|")[0].strip() for line in lines}


def _is_listening(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


def _until(is_there: Callable[[], bool], timeout_s: float = 30.0) -> bool:
    end = time.monotonic() + timeout_s
    while not is_there():
        if time.monotonic() > end:
            return False
        _pass(0.02)
    return True


class Crowd:
    """The connections that hold requests, and a thread that reads what they are answered."""

    def __init__(self, port: int) -> None:
        """Connects."""
        self.peers = [Peer(port) for _ in range(CONNECTIONS)]
        self._selector = selectors.DefaultSelector()
        for peer in self.peers:
            self._selector.register(peer.sock, selectors.EVENT_READ, peer)
        self._is_over = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._is_over:
            for key, _events in self._selector.select(0.1):
                try:
                    is_open = key.data.receive()
                except OSError:
                    is_open = False
                if not is_open:
                    self._selector.unregister(key.fileobj)

    @property
    def answers(self) -> int:
        """Answers of all connections."""
        return sum(peer.answers for peer in self.peers)

    @property
    def codes(self) -> dict[int, int]:
        """Answers by their codes."""
        codes: dict[int, int] = {}
        for peer in self.peers:
            for code, count in peer.codes.items():
                codes[code] = codes.get(code, 0) + count
        return codes

    def hold(self, count: int, make: Callable[[int], bytes]) -> None:
        """Sends so many requests, by turns over the connections."""
        each = count // len(self.peers)
        for begin in range(0, each, 256):
            for peer in self.peers:
                peer.send(b"".join(make(at) for at in range(begin, min(begin + 256, each))))

    def close(self) -> None:
        """Closes all connections at once."""
        self._is_over = True
        self._thread.join()
        self._selector.close()
        for peer in self.peers:
            peer.close()


class Rows:
    """The table: an event with what the bystander saw of it."""

    def __init__(self) -> None:
        """Begins with none."""
        self.events: list[tuple[str, float, float, str]] = []
        self.lines: list[str] = []

    @contextlib.contextmanager
    def event(self, name: str, note: Callable[[], str] = str) -> Iterator[None]:
        """Times an event."""
        began = time.monotonic()
        yield
        self.events.append((name, began, time.monotonic(), note()))

    def settle(self, sends: list[tuple[float, float]]) -> None:
        """Makes rows of the events, by the sends that were under way meanwhile."""
        for name, began, ended, note in self.events:
            # A send that began before and ended within the event waited for it, too.
            during = [(s * 1000, at) for at, s in sends if at + s >= began and at <= ended]
            p50 = statistics.median(s for s, _at in during) if during else float("nan")
            top, at = max(during, default=(float("nan"), began))
            row = (
                f"{name:34} {p50:9.2f} {top:9.1f} {at - began:9.2f} {len(during):7} "
                f"{ended - began:9.2f}  {note}"
            )
            self.lines.append(row)
            print(row, flush=True)
        self.events.clear()


def held(count: int, rows: Rows) -> None:
    """Pulls on one queue: one send wakes all; all connections close; SIGTERM."""
    broker = Running({})
    crowd = Crowd(broker.port)
    try:
        with rows.event("hold pulls"):
            crowd.hold(count, lambda at: pull_frame(at, "held", 1, None, HOLD_MS))
            _pass(SETTLE_S)
        early = crowd.answers
        sender = Peer(broker.port)
        with rows.event("a send wakes them", lambda: f"answered {crowd.codes}, {early} before"):
            sender.ask(send_frame(1, "held"))
            _until(lambda: crowd.answers >= count // CONNECTIONS * CONNECTIONS, EVENT_S_MAX)
        crowd.hold(count, lambda at: pull_frame(at, "held", 2, None, HOLD_MS))
        _pass(SETTLE_S)
        with rows.event("their connections close"):
            crowd.close()
            _pass(3 * SETTLE_S)
        crowd = Crowd(broker.port)
        crowd.hold(count, lambda at: pull_frame(at, "held", 2, None, HOLD_MS))
        _pass(SETTLE_S)
        rows.settle(broker.sends())
        took_s = broker.terminate()
        rows.lines.append(f"SIGTERM with them held: {took_s:.2f} s")
        print(rows.lines[-1], flush=True)
    finally:
        crowd.close()
        broker.close()


def pops(count: int, rows: Rows) -> None:
    """Pops, then questions, of one line: a send; all connections close."""
    for name, code in (("pops", POP), ("questions", NOTIFICATION)):
        broker = Running({})
        crowd = Crowd(broker.port)
        try:
            # The group begins at the end: the message that made the topic is popped and settled.
            first = Peer(broker.port)
            first.ask(pop_frame(1, "held", POP))
            with rows.event(f"hold {name}"):
                crowd.hold(count, lambda at, code=code: pop_frame(at, "held", code))
                _pass(SETTLE_S)
            with rows.event(f"a send to held {name}", lambda crowd=crowd: f"{crowd.codes}"):
                first.ask(send_frame(2, "held"))
                _pass(2 * SETTLE_S)
            with rows.event("their connections close"):
                crowd.close()
                _pass(2 * SETTLE_S)
            rows.settle(broker.sends())
        finally:
            crowd.close()
            broker.close()


def parked(count: int, rows: Rows) -> None:
    """Sends that wait for their sync; the same with their connections closed."""
    broker = Running({"flushDiskType": "SYNC_FLUSH"})
    crowd = Crowd(broker.port)
    try:
        with rows.event("sends park", lambda: f"{crowd.codes}"):
            crowd.hold(count, lambda at: send_frame(at, "held"))
            _until(lambda: crowd.answers >= count // CONNECTIONS * CONNECTIONS, EVENT_S_MAX)
        crowd.hold(count, lambda at: send_frame(at, "held"))
        with rows.event("their connections close"):
            crowd.close()
            _pass(2 * SETTLE_S)
        rows.settle(broker.sends())
    finally:
        crowd.close()
        broker.close()


def filters(count: int, rows: Rows) -> None:
    """Pulls with an expression of 4 KB over properties of 14 KB; the same, held."""
    del count
    broker = Running({})
    crowd = Crowd(broker.port)
    expression = " OR ".join(f"p{at % 8} CONTAINS 'zz{at:04}'" for at in range(160))
    properties = "".join(f"p{at}\x01{'a' * 1_800}\x02" for at in range(8))
    try:
        sender = Peer(broker.port)
        for at in range(64):
            sender.ask(send_frame(at, "held", properties))
        with rows.event("32 pulls by an expression", lambda: f"{crowd.codes}"):
            crowd.hold(32, lambda at: pull_frame(at, "held", 0, expression, 0))
            _until(lambda: crowd.answers >= 32, EVENT_S_MAX)
        crowd.hold(1_024, lambda at: pull_frame(at, "held", 65, expression, HOLD_MS))
        _pass(SETTLE_S)
        with rows.event("10 records for 1,024 held ones", lambda: f"{crowd.codes}"):
            for at in range(10):
                sender.ask(send_frame(at, "held", properties))
            _pass(3 * SETTLE_S)
        rows.settle(broker.sends())
    finally:
        crowd.close()
        broker.close()


SCENARIOS = {"held": held, "pops": pops, "parked": parked, "filters": filters}


def main() -> None:
    """Runs the scenarios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=240_000)
    parser.add_argument("--only", default=",".join(SCENARIOS))
    options = parser.parse_args()
    rows = Rows()
    heads = f"{'p50 ms':>9} {'max ms':>9} {'at s':>9} {'sends':>7} {'event s':>9}"
    print(f"{'event':34} {heads}", flush=True)
    for name in options.only.split(","):
        SCENARIOS[name](options.count, rows)


if __name__ == "__main__":
    main()
