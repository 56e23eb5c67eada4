"""Three brokers and a controller: the master is killed with -9 while flights are published.

A name server with a controller in it elects one of three brokers of one name; a send is
acknowledged when every replica in sync has it, two at the least (`deploy/3r-controller`). In the
middle the master is killed; another one takes over, and the killed one comes back as a slave. At
the end every flight that was acknowledged must be in the store of each of the three.
"""

import asyncio
import json
import shutil
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from demo_process import Process
from flights import CACHE, ROOT
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

import mqcore
from mqcore import aio

HOME = CACHE / "failover"
TOPIC = "departures"
BROKER = "broker-a"
# Some seconds of publishing, so that the kill comes in the middle.
COUNT = 100_000
IN_FLIGHT = 64
REPLICAS = 3
PATIENCE_S = 60.0
LOOK_S = 0.05
RETRY_S = 0.02
# A killed broker's clients find the next master as soon as there is one.
SETTINGS = mqcore.ProducerSettings(timeout_s=2.0)

console = Console(soft_wrap=True, highlight=False)


@dataclass
class Replica:
    """One of the three brokers."""

    store: Path
    process: Process

    @property
    def address(self) -> str:
        """Where it serves."""
        return f"127.0.0.1:{self.process.ports['broker']}"


def free_port() -> int:
    """Returns a port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def with_set(settings: dict[str, object]) -> list[str]:
    """Returns settings as arguments of a command."""
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


def name_server(controller_port: int, **more: object) -> Process:
    """Returns the name server with a controller in it."""
    settings: dict[str, object] = {
        "enableControllerInNamesrv": "true",
        "controllerDLegerPeers": f"n0-127.0.0.1:{controller_port}",
        "controllerDLegerSelfId": "n0",
        "controllerStorePath": HOME / "controller",
        "mqcoreMinInSyncReplicas": 2,
        **more,
    }
    arguments = ["namesrv", "--port", "0", *with_set(settings)]
    return Process(arguments, HOME / "namesrv.log")


def replica(number: int, namesrv: str, controller: str, **more: object) -> Replica:
    """Returns one of the brokers, with the settings of `deploy/3r-controller`."""
    store, port = HOME / f"store-{number}", free_port()
    config = ROOT / "deploy" / "3r-controller" / "broker.properties"
    settings = {
        "controllerAddr": controller,
        "haListenPort": free_port(),
        "mappedFileSizeCommitLog": 64 << 20,
        "storePathRootDir": store,
        **more,
    }
    arguments = ["broker", "run", "-c", str(config), "--namesrv", namesrv, "--port", str(port)]
    return Replica(store, Process([*arguments, *with_set(settings)], HOME / f"broker-{number}.log"))


class Publishing:
    """Flights that are published, and what was acknowledged of them.

    Attributes:
        acknowledged: Their numbers.
        acknowledged_s: When the last one was, by `time.monotonic`.
        tries: How many sends there were.
    """

    def __init__(self, rows: list[dict[str, str]]) -> None:
        """Takes the flights."""
        self._left = iter(enumerate(rows))
        self.acknowledged: set[int] = set()
        self.acknowledged_s = 0.0
        self.tries = 0

    async def run(self, namesrv: str) -> None:
        """Publishes all, so many at a time; one that is not acknowledged is sent again."""
        async with aio.Producer(namesrv, group="departures-publisher", settings=SETTINGS) as by:
            await asyncio.gather(*(self._publish(by) for _ in range(IN_FLIGHT)))

    async def _publish(self, producer: aio.Producer) -> None:
        for number, row in self._left:
            body = json.dumps({"number": number, **row}, separators=(",", ":")).encode()
            message = mqcore.Message(TOPIC, body, tags=row["carrier"], keys=[str(number)])
            while True:
                self.tries += 1
                try:
                    await producer.send(message)
                    break
                except mqcore.MQError:  # There is no master: once more, until there is one.
                    await asyncio.sleep(RETRY_S)
            self.acknowledged.add(number)
            self.acknowledged_s = time.monotonic()


async def until_in_sync(admin: aio.Admin, replicas: list[Replica]) -> Replica:
    """Returns the master, when all replicas are in sync with it."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_S:
        for each in replicas:
            try:
                status = await admin.brokers.replication(each.address)
            except mqcore.MQError:
                continue
            if status.is_master and sum(one.is_in_sync for one in status.replicas) == REPLICAS - 1:
                return each
        await asyncio.sleep(LOOK_S)
    sys.exit("the replicas are not in sync")


async def publish_and_kill(
    namesrv: str, replicas: list[Replica], rows: list[dict[str, str]]
) -> Publishing:
    """Publishes, with the master killed in the middle; returns what was acknowledged."""
    publishing = Publishing(rows)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    async with aio.Admin(namesrv) as admin:
        master = await until_in_sync(admin, replicas)
        console.print(f"{master.address} was elected, three replicas are in sync")
        await admin.topics.create(TOPIC, queues=4)
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("acknowledged", total=len(rows))
            running = asyncio.create_task(publishing.run(namesrv))
            killed_s, again = 0.0, None
            while not running.done():
                progress.update(bar, completed=len(publishing.acknowledged))
                if not killed_s and len(publishing.acknowledged) >= len(rows) // 2:
                    killed_s = time.monotonic()
                    await asyncio.to_thread(master.process.kill)
                    await until_acknowledged(publishing)
                    seconds = publishing.acknowledged_s - killed_s
                    console.print(
                        "the master was killed with -9; the next send was acknowledged "
                        f"{seconds:.2f} s later"
                    )
                    # Beside the bar, which goes on.
                    again = asyncio.create_task(asyncio.to_thread(master.process.start))
                await asyncio.sleep(LOOK_S)
            await running
            if again is not None:
                await again
            progress.update(bar, completed=len(publishing.acknowledged))
        heir = await until_in_sync(admin, replicas)
        console.print(f"{heir.address} took over; the killed one came back as its slave, in sync")
    return publishing


async def until_acknowledged(publishing: Publishing) -> None:
    """Returns when another flight is acknowledged than was until now."""
    await asyncio.sleep(LOOK_S)
    # What was answered before the kill has come by now.
    known, began = len(publishing.acknowledged), time.monotonic()
    while len(publishing.acknowledged) == known:
        if time.monotonic() - began > PATIENCE_S:
            sys.exit("nobody took over")
        await asyncio.sleep(LOOK_S / 10)


def stored(directory: Path) -> Counter[int]:
    """Returns the flights of a replica's store, with how often each is there."""
    config = {"mappedFileSizeCommitLog": 64 << 20}
    with mqcore.Store(directory, config=config) as store:
        return Counter(
            json.loads(message.body)["number"]
            for batch in store.scan()
            for message in batch
            if message.topic == TOPIC
        )


def show(rows: list[dict[str, str]]) -> None:
    """Runs the scene; ends the demonstration where something is not as it should be."""
    shutil.rmtree(HOME, ignore_errors=True)
    rows = rows[:COUNT]
    controller_port = free_port()
    names = name_server(controller_port)
    replicas: list[Replica] = []
    try:
        names.start()
        namesrv = f"127.0.0.1:{names.ports['namesrv']}"
        controller = f"127.0.0.1:{controller_port}"
        for number in range(REPLICAS):
            each = replica(number, namesrv, controller)
            replicas.append(each)
            each.process.start()
        publishing = asyncio.run(publish_and_kill(namesrv, replicas, rows))
        for each in replicas:
            each.process.stop()
        names.stop()
    finally:
        for each in replicas:
            each.process.kill()
        names.kill()
    counts = [stored(each.store) for each in replicas]
    lost = [publishing.acknowledged - found.keys() for found in counts]
    if any(lost) or len(publishing.acknowledged) != len(rows):
        sys.exit(f"{[len(each) for each in lost]} acknowledged flights are not on the replicas")
    if counts[0] != counts[1] or counts[0] != counts[2]:
        sys.exit("the replicas do not have the same flights")
    doubled = sum(counts[0].values()) - len(rows)
    console.print(
        f"[green]{len(rows)} flights acknowledged, every one of them on all three replicas"
        f"[/green]; {doubled} of them twice: what the killed master had and did not answer"
    )
