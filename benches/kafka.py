"""Apache Kafka beside us: one KRaft node from Maven jars, loaded by Kafka's own performance tool.

Knows nothing of our broker; the tool's batching client is what people measure Kafka with.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from peer_brokers import CACHE, HEAP, IS_QUICK, end, fetched, free_port, until_printed

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "3.9.1"
POM = Path(__file__).with_name("kafka-pom.xml")
# A node needs some id of this shape; it serves nobody else.
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
# So many records that a run takes some ten seconds.
RECORDS = 200_000 if IS_QUICK else 1_000_000
RECORD_BYTES = 1_024
RUN_SECONDS = 300.0
_RATE = re.compile(r"records sent, ([0-9.]+) records/sec")


@dataclass(frozen=True)
class Kafka:
    """A node that serves.

    Attributes:
        jars: Folder of its jars.
        address: Where it listens.
    """

    jars: Path
    address: str

    def run(self, main: str, *arguments: str) -> str:
        """Runs one of Kafka's tools and returns what it printed."""
        return run_tool(self.jars, main, *arguments)

    def create(self, topic: str, partitions: int) -> None:
        """Makes a topic."""
        self.run(
            "org.apache.kafka.tools.TopicCommand",
            "--bootstrap-server", self.address,
            "--create", "--topic", topic, "--partitions", str(partitions),
        )  # fmt: skip

    def produce(self, partitions: int) -> float:
        """Sends to a fresh topic and returns the records per second of the second of two runs."""
        topic = f"p{partitions}"
        self.create(topic, partitions)
        rates = []
        for _ in range(2):
            output = self.run(
                "org.apache.kafka.tools.ProducerPerformance",
                "--topic", topic, "--num-records", str(RECORDS),
                "--record-size", str(RECORD_BYTES), "--throughput", "-1",
                "--producer-props", f"bootstrap.servers={self.address}", "acks=1",
            )  # fmt: skip
            # The last line is of the whole run; those before it are of intervals.
            rates.append(float(_RATE.findall(output)[-1]))
        return rates[-1]


def run_tool(jars: Path, main: str, *arguments: str) -> str:
    """Runs a main class of Kafka's jars."""
    command = ["java", "-Xmx512m", "-cp", f"{jars}/*", main, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{main}: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


@contextmanager
def running_kafka(home: Path) -> Iterator[Kafka]:
    """Runs a node until it is no longer needed."""
    jars = fetched(f"Kafka {VERSION}", CACHE / f"kafka-{VERSION}", POM)
    home.mkdir()
    port, controller = free_port(), free_port()
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "log.dirs": home / "data",
    }
    conf = home / "server.properties"
    conf.write_text("".join(f"{k}={v}\n" for k, v in settings.items()), encoding="utf-8")
    log = home / "log4j.properties"
    log.write_text(
        "log4j.rootLogger=INFO, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n",
        encoding="utf-8",
    )
    run_tool(jars, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(conf))
    memory = [f"-Xms{HEAP}", f"-Xmx{HEAP}", "-XX:+UseG1GC"]
    command = ["java", *memory, f"-Dlog4j.configuration=file:{log}", "-cp", f"{jars}/*"]
    process = subprocess.Popen(
        [*command, "kafka.Kafka", str(conf)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=home,
    )
    try:
        until_printed(process, "Kafka Server started", "Kafka")
        yield Kafka(jars, f"127.0.0.1:{port}")
    finally:
        end(process)


def main() -> None:
    """Measures Kafka alone."""
    import tempfile

    with (
        tempfile.TemporaryDirectory() as scratch,
        running_kafka(Path(scratch) / "kafka") as kafka,
    ):
        for partitions in map(int, sys.argv[1:] or ("4",)):
            started = time.monotonic()
            rate = kafka.produce(partitions)
            print(f"{partitions} partitions: {rate:,.0f}/s ({time.monotonic() - started:.0f} s)")


if __name__ == "__main__":
    main()
