"""Our client beside others: the official Java client, and the Python clients of Kafka.

Each runs in a process of its own against a broker that is loaded by nobody else meanwhile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop
from consume_rate import measure
from peer_brokers import IS_QUICK, LOAD_SECONDS, SECONDS, Peer
from peer_rows import Report, Row, rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka import Kafka

HERE = Path(__file__).parent
# So many that a client needs some seconds for them.
CONSUMED = 200_000 if IS_QUICK else 1_000_000
KAFKA_COUNT = 100_000 if IS_QUICK else 400_000
# Messages of a pull: the official default, and what batches are made for.
FEW, MANY = 32, 512
IMPORTS = 7
JAVA_THREADS = 64


def report_of(*command: object, environment: dict[str, str] | None = None) -> Report:
    """Runs a script of ours and returns the JSON of its last line."""
    words = [sys.executable, *map(str, command)]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=LOAD_SECONDS,
        check=False,
        env=environment,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()[-2000:]}")
    report: Report = json.loads(done.stdout.splitlines()[-1])
    return report


def load(kind: str, peer: Peer) -> Report:
    """Sends by our client in one of its ways."""
    return report_of(HERE / "client_load.py", kind, peer.namesrv, "clients", SECONDS)


def producer_rows(one: Peer) -> Iterator[Row]:
    """How fast our producers send."""
    one.load("produce", "clients", "--count", 1)
    java = rate(one.java_clients("clients", 1))
    yield Row("client, one thread: messages/s", rate(load("blocking", one)), java, ">= Java's", 1)
    java_us = one.java_clients("clients", JAVA_THREADS)["us_per_message"]
    found = load("in-flight", one)
    yield Row("client, 256 in flight: messages/s", rate(found), None, ">= 60 k/s", 60_000)
    us = found["us_per_message"]
    yield Row("client, 256 in flight: us/message", us, java_us, "<= Java's", 1, is_upper=True)
    found = load("soon", one)
    yield Row("client, send_soon of 100 B: messages/s", rate(found), None, ">= 400 k/s", 400_000)
    found = load("awaited", one)
    name = "client, gathered sends of 256 tasks, 100 B: messages/s"
    yield Row(name, rate(found), None, ">= 120 k/s", 120_000)


def consumer_rows(one: Peer) -> Iterator[Row]:
    """How fast our push consumers consume 1 KB."""
    one.load("produce", "consumed", "-c", 4, "-w", 32, "--queues", 8, "--count", CONSUMED)
    for kind, pull, goal in (("coroutine", FEW, 100_000), ("batch", MANY, 400_000)):
        found, _ = uvloop.run(measure(one.namesrv, "consumed", CONSUMED, kind, pull))
        name = f"client, push consumer, {kind} handler: messages/s"
        yield Row(name, found, None, f">= {goal // 1000} k/s", goal)


@contextmanager
def compiled() -> Iterator[dict[str, str]]:
    """Gives an environment in which modules are compiled once, as those of a wheel are."""
    with tempfile.TemporaryDirectory(prefix="mqcore-compiled-") as folder:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield environment


BROKER_TWICE = """
import json, time
times = [time.perf_counter()]
from mqcore.testing import Broker
for _ in range(2):
    with Broker():
        times.append(time.perf_counter())
    times.append(time.perf_counter())
print(json.dumps({"cold_s": times[1] - times[0], "second_s": times[3] - times[2]}))
"""


def light_rows(one: Peer) -> Iterator[Row]:
    """What our client, and a broker inside a test, cost before they do anything."""
    with compiled() as environment:

        def seconds(code: str) -> float:
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, env=environment)
            return time.perf_counter() - began

        bare = min(seconds("pass") for _ in range(IMPORTS))
        imported = min(seconds("import mqcore") for _ in range(IMPORTS)) - bare
        yield Row("import mqcore over python: ms", imported * 1e3, None, "< 60", 60, is_upper=True)
        # The first one compiles.
        found = [report_of("-c", BROKER_TWICE, environment=environment) for _ in range(IMPORTS)]
        cold, second = (min(each[key] for each in found) * 1e3 for key in ("cold_s", "second_s"))
        yield Row("testing.Broker(), cold: ms", cold, None, "< 300", 300, is_upper=True)
        yield Row("testing.Broker(), again: ms", second, None, "< 50", 50, is_upper=True)
    code = (
        "import json, mqcore\n"
        f"with mqcore.Producer({one.namesrv!r}, group='idle') as producer:\n"
        "    producer.send(mqcore.Message('clients', b'x'))\n"
        "    lines = open('/proc/self/status').read().splitlines()\n"
        "    print(json.dumps({k: v for k, _, v in (l.partition(':') for l in lines)}))\n"
    )
    resident = int(report_of("-c", code)["VmRSS"].split()[0]) / 1024
    yield Row("client, idle: resident MB", resident, None, "< 40", 40, is_upper=True)


def client_rows(one: Peer) -> Iterator[Row]:
    """All of our client's rows against a broker of ours."""
    yield from producer_rows(one)
    yield from consumer_rows(one)
    yield from light_rows(one)


def kafka_client_rows(one: Peer, kafka: Kafka) -> Iterator[Row]:
    """Ours with our broker beside Python's clients of Kafka with Kafka: 1 KB, gathered."""
    kafka.create("clients", 8)
    produced = rate(load("soon-1k", one))
    one.load("produce", "beside", "-c", 4, "-w", 32, "--queues", 8, "--count", KAFKA_COUNT)
    consumed, _ = uvloop.run(measure(one.namesrv, "beside", KAFKA_COUNT, "batch", MANY))
    for library, goal, bound in (("aiokafka", ">= 3x", 3), ("confluent", ">= 1x", 1)):
        for job, ours in (("produce", produced), ("consume", consumed)):
            script = (HERE / "kafka_clients.py", f"{library}-{job}", kafka.address, "clients")
            other = rate(report_of(*script, KAFKA_COUNT))
            yield Row(f"client beside {library}, {job}: messages/s", ours, other, goal, bound)
