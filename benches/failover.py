"""How long nobody takes sends when a master dies: three brokers, a controller, our client.

    python benches/failover.py                        # 50 kills, 10 pauses: some five minutes
    MQCORE_FAILOVERS=200 python benches/failover.py

The brokers have one name. A send is acknowledged when every replica in sync has it, two at the
least. The master is killed with -9 (or stopped with SIGSTOP) under sends, one after the other;
measured is the time until the next one is acknowledged. Then it comes back, and the next round
begins when all three are in sync.
Prints the rows and writes `target/mqcore-benches/failover.json`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

import demo_failover as scene
from peer_brokers import TARGET

import mqcore
from mqcore import aio

OUT = TARGET / "mqcore-benches" / "failover.json"
KILLS = int(os.environ.get("MQCORE_FAILOVERS", "50"))
# Each waits for the heartbeat time-out.
PAUSES = max(1, KILLS // 5)
TOPIC = "failover"
# The heartbeat time-out of the bench's brokers, and how often the controller looks.
TIMEOUT_MS = 3_000
SCAN_MS = 1_000
# One try of the client at a master that does not answer.
TRY_S = 1.0
SETTINGS = mqcore.ProducerSettings(timeout_s=30.0, try_timeout_s=TRY_S)


async def until_acknowledged(producer: aio.Producer) -> None:
    """Sends until one is acknowledged."""
    while True:
        try:
            await producer.send(mqcore.Message(TOPIC, b"x"))
        except mqcore.MQError:
            await asyncio.sleep(0.01)
        else:
            return


async def one_round(
    admin: aio.Admin, producer: aio.Producer, replicas: list[scene.Replica], sign: signal.Signals
) -> float:
    """Ends a master; returns the seconds until the next acknowledged send."""
    master = await scene.until_in_sync(admin, replicas)
    for _ in range(20):
        await producer.send(mqcore.Message(TOPIC, b"x"))
    began = time.monotonic()
    master.process.signal(sign)
    await until_acknowledged(producer)
    seconds = time.monotonic() - began
    if sign is signal.SIGSTOP:
        master.process.signal(signal.SIGCONT)
    else:
        await asyncio.to_thread(master.process.kill)
        await asyncio.to_thread(master.process.start)
    return seconds


async def measured(namesrv: str, replicas: list[scene.Replica]) -> dict[str, list[float]]:
    """Returns the seconds of every round, by what ended the master."""
    found: dict[str, list[float]] = {"kill -9": [], "SIGSTOP": []}
    async with (
        aio.Admin(namesrv) as admin,
        aio.Producer(namesrv, group="failover", settings=SETTINGS) as producer,
    ):
        await scene.until_in_sync(admin, replicas)
        await admin.topics.create(TOPIC, queues=4)
        for name, sign, rounds in (
            ("kill -9", signal.SIGKILL, KILLS),
            ("SIGSTOP", signal.SIGSTOP, PAUSES),
        ):
            for number in range(rounds):
                found[name].append(await one_round(admin, producer, replicas, sign))
                print(f"\r{name}: round {number + 1} of {rounds}", end="", flush=True)
            print("\r", end="")
    return found


def row(name: str, seconds: list[float]) -> str:
    """One line of the table."""
    late = quantiles(seconds, n=100)[98] if len(seconds) > 1 else seconds[0]
    return (
        f"{name}, {len(seconds)} rounds: next acknowledged send after {median(seconds):.3f} s "
        f"(median), {late:.3f} s (p99), {max(seconds):.3f} s (longest)"
    )


def main() -> None:
    """Measures, prints, writes."""
    shutil.rmtree(scene.HOME, ignore_errors=True)
    controller_port = scene.free_port()
    names = scene.name_server(controller_port, scanNotActiveBrokerInterval=SCAN_MS)
    replicas: list[scene.Replica] = []
    try:
        names.start()
        namesrv = f"127.0.0.1:{names.ports['namesrv']}"
        for number in range(scene.REPLICAS):
            each = scene.replica(
                number,
                namesrv,
                f"127.0.0.1:{controller_port}",
                controllerHeartBeatTimeoutMills=TIMEOUT_MS,
            )
            replicas.append(each)
            each.process.start()
        found = asyncio.run(measured(namesrv, replicas))
    finally:
        for each in replicas:
            each.process.signal(signal.SIGCONT)
            each.process.kill()
        names.kill()
        shutil.rmtree(scene.HOME, ignore_errors=True)
    for name, seconds in found.items():
        print(row(name, seconds))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
