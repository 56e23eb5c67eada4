"""The main job on real input: a broker takes the flights of New York 2013, and is killed meanwhile.

Starts `mqcore standalone`, publishes one message per flight over TCP with `mqcore-load`, and reads
them as a consumer group at the same time. Half way the broker is killed with -9 and started again;
producer and consumer go on by themselves. At the end every flight that was acknowledged must have
been consumed. What is left stays in .cache/demo/broker.
"""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from typing import Any

from flights import CACHE, FLIGHTS, ROOT, flights
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

from mqcore.errors import MQError
from mqcore.model.heartbeats import ConsumerData, HeartbeatData
from mqcore.model.subscriptions import SubscriptionData
from mqcore.native import decode_records
from mqcore.remoting import Client, RequestCode, ResponseCode

DATA = CACHE / "broker"
LINES = CACHE / "flights.jsonl"
ACKS = CACHE / "acknowledged.txt"
PORTS = CACHE / "ports.json"
LOG = CACHE / "broker.log"
LOAD = ROOT / "target" / "release" / "mqcore-load"

TOPIC = "flights"
GROUP = "demo"
QUEUES = 4
KILL_AT = FLIGHTS // 2
# Flights per second of the producer: without it all would be over in a few seconds.
RATE = 20_000
# The broker comes back in a second; whoever cannot reach it for this long gives up.
PATIENCE_S = 60.0
# What the official client does: pulls are held for 15 s and given up after 30.
HOLD_MS = 15_000
PULL_TIMEOUT_S = 30.0
RETRY_S = 0.1
HEARTBEAT_S = 5.0
COMMIT = 1
SUSPEND = 2
SUBSCRIPTION = 4

console = Console(soft_wrap=True, highlight=False)


class Broker:
    """The broker's process."""

    def __init__(self) -> None:
        """Takes free ports at the first start."""
        self._process: subprocess.Popen[bytes] | None = None
        self.ports = {"broker": 0, "namesrv": 0}

    @property
    def address(self) -> str:
        """Where it serves."""
        return f"127.0.0.1:{self.ports['broker']}"

    def start(self) -> float:
        """Starts it, on the ports that it had, and waits until it serves; returns the seconds."""
        PORTS.unlink(missing_ok=True)
        command = [sys.executable, "-m", "mqcore.cli.main", "standalone", "--data", str(DATA)]
        command += ["--port", str(self.ports["broker"])]
        command += ["--namesrv-port", str(self.ports["namesrv"]), "--port-file", str(PORTS)]
        began = time.perf_counter()
        with LOG.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        ready = self._process.stdout.readline() if self._process.stdout else b""
        if b"ready" not in ready:
            sys.exit(f"the broker did not start; its log is {LOG}")
        self.ports = json.loads(PORTS.read_text(encoding="utf-8"))
        return time.perf_counter() - began

    def kill(self) -> None:
        """Kills it with -9."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def stop(self) -> float:
        """Stops it as an operator would; returns the seconds."""
        began = time.perf_counter()
        if self._process is not None:
            self._process.terminate()
            if self._process.wait(timeout=60) != 0:
                sys.exit(f"the broker did not stop cleanly; its log is {LOG}")
        return time.perf_counter() - began


class Consumer:
    """A member of a consumer group, on the calls of the protocol: it reads, and commits offsets."""

    def __init__(self, address: str) -> None:
        """Prepares to read from the broker at `address`."""
        self._address = address
        self._client = Client()
        self.seen: Counter[int] = Counter()
        self._offsets = dict.fromkeys(range(QUEUES), 0)
        self._tasks: list[asyncio.Task[None]] = []
        self.interruptions = 0

    async def start(self) -> None:
        """Begins to read."""
        loops = [self._beat(), *(self._read(queue_id) for queue_id in range(QUEUES))]
        self._tasks = [asyncio.create_task(loop) for loop in loops]

    async def stop(self) -> dict[int, int]:
        """Ends; returns the offsets that the broker keeps for the group."""
        kept = {}
        await asyncio.sleep(0)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for queue_id, offset in self._offsets.items():
            place = self._place(queue_id)
            commit = place | {"commitOffset": str(offset)}
            await self._client.call(self._address, RequestCode.UPDATE_CONSUMER_OFFSET, commit)
            told = await self._client.call(self._address, RequestCode.QUERY_CONSUMER_OFFSET, place)
            kept[queue_id] = int(told.ext["offset"])
        await self._client.close()
        return kept

    def _place(self, queue_id: int) -> dict[str, str]:
        return {"consumerGroup": GROUP, "topic": TOPIC, "queueId": str(queue_id)}

    async def _beat(self) -> None:
        wanted = (SubscriptionData.of_expression(TOPIC, "*", 1),)
        group = ConsumerData(
            GROUP, "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET", wanted, False
        )
        body = HeartbeatData("demo@1", (), (group,)).encode()
        while True:
            try:
                await self._client.call(self._address, RequestCode.HEART_BEAT, body=body)
                await asyncio.sleep(HEARTBEAT_S)
            except MQError:
                await asyncio.sleep(RETRY_S)

    async def _read(self, queue_id: int) -> None:
        while True:
            try:
                await self._pull(queue_id)
            except MQError:
                # The broker is away: it is asked again from where this queue stood.
                self.interruptions += 1
                await asyncio.sleep(RETRY_S)

    async def _pull(self, queue_id: int) -> None:
        offset = self._offsets[queue_id]
        ext = self._place(queue_id) | {
            "queueOffset": str(offset),
            "maxMsgNums": "32",
            "sysFlag": str(COMMIT | SUSPEND | SUBSCRIPTION),
            "commitOffset": str(offset),
            "suspendTimeoutMillis": str(HOLD_MS),
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
        }
        answer = await self._client.call(
            self._address, RequestCode.PULL_MESSAGE, ext, timeout_s=PULL_TIMEOUT_S
        )
        if answer.code == ResponseCode.SUCCESS:
            for message in decode_records(answer.body):
                self.seen[json.loads(message.body)["number"]] += 1
        elif answer.code in (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SYSTEM_BUSY):
            await asyncio.sleep(RETRY_S)
        if "nextBeginOffset" in answer.ext:
            self._offsets[queue_id] = int(answer.ext["nextBeginOffset"])


async def produce(namesrv_port: int) -> Process:
    """Starts the producer: 4 connections with 64 requests on their way each."""
    command = [str(LOAD), "produce", "--namesrv", f"127.0.0.1:{namesrv_port}", "--topic", TOPIC]
    command += ["--create", "--queues", str(QUEUES), "--connections", "4", "--outstanding", "64"]
    command += ["--file", str(LINES), "--acks", str(ACKS), "--rate", str(RATE), "--progress"]
    command += ["--keys", "--patience-seconds", str(PATIENCE_S)]
    return await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)


async def follow(producer: Process, told: dict[str, Any]) -> None:
    """Reads what the producer tells every second."""
    while producer.stderr is not None and (line := await producer.stderr.readline()):
        if line.startswith(b"{"):
            told.update(json.loads(line))
        else:
            console.print(line.decode(errors="replace").rstrip())


async def run(broker: Broker) -> None:
    """Produces and consumes, with the broker killed half way."""
    producer = await produce(broker.ports["namesrv"])
    told: dict[str, Any] = {"messages": 0}
    following = asyncio.create_task(follow(producer, told))
    consumer = Consumer(broker.address)
    await consumer.start()
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    began = time.perf_counter()
    killed = False
    with Progress(*columns, console=console) as progress:
        produced = progress.add_task("acknowledged", total=FLIGHTS)
        consumed = progress.add_task("consumed", total=FLIGHTS)
        while not following.done() or len(consumer.seen) < FLIGHTS:
            if following.done() and time.perf_counter() - began > 2 * PATIENCE_S:
                break
            progress.update(produced, completed=told["messages"])
            progress.update(consumed, completed=len(consumer.seen))
            if not killed and len(consumer.seen) >= KILL_AT:
                killed = True
                broker.kill()
                console.print(f"killed the broker with -9 after {len(consumer.seen)} flights")
                seconds = await asyncio.to_thread(broker.start)
                console.print(f"it serves again {seconds:.2f} s after it was started")
            await asyncio.sleep(0.05)
        progress.update(produced, completed=len(acknowledged()))
        progress.update(consumed, completed=len(consumer.seen))
    seconds = time.perf_counter() - began
    output, _ = await producer.communicate()
    if producer.returncode != 0:
        sys.exit(f"the producer ended with {producer.returncode}")
    kept = await consumer.stop()
    judge(consumer, json.loads(output), kept, seconds)


def acknowledged() -> set[int]:
    """Returns the numbers of the flights that the broker has acknowledged."""
    return {int(line) for line in ACKS.read_text(encoding="utf-8").split()}


def judge(consumer: Consumer, report: dict[str, Any], kept: dict[int, int], seconds: float) -> None:
    """Compares what was acknowledged with what was consumed; ends the run where it differs."""
    numbers = acknowledged()
    lost = numbers - consumer.seen.keys()
    doubled = sum(count - 1 for count in consumer.seen.values())
    if lost or len(numbers) != FLIGHTS:
        sys.exit(f"{len(numbers)} acknowledged, {len(lost)} of them never consumed")
    console.print(
        f"[green]{len(numbers)} flights acknowledged, every one of them consumed[/green]; "
        f"{doubled} came twice: the producer sends again what was not answered before the kill"
    )
    console.print(
        f"{len(numbers) / seconds:,.0f} messages per second through the kill, "
        f"{report.get('reconnects', 0)} connections of the producer made again, pulls interrupted "
        f"{consumer.interruptions} times"
    )
    console.print(f"offsets that the broker keeps for group {GROUP}: {kept}")


def main() -> None:
    """Runs the demonstration."""
    rows = flights()
    shutil.rmtree(DATA, ignore_errors=True)
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
        asyncio.run(run(broker))
        console.print(f"the broker stopped cleanly in {broker.stop():.2f} s; mqcore store verify:")
    finally:
        broker.kill()
    command = [sys.executable, "-m", "mqcore.cli.main", "store", "verify", str(DATA)]
    if subprocess.run(command).returncode != 0:
        sys.exit("the store does not agree with itself")
    console.print(f"the store stays: mqcore store info {DATA.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
