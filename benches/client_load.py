"""Loads a broker by our own client: `client_load.py KIND NAMESRV TOPIC SECONDS`, one JSON line.

Each kind is a way that people send; `peers.py` runs them beside other clients. A rate counts what
was acknowledged, processor time is this process's own.
"""

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable

import uvloop

from mqcore import Message, Producer, aio

IN_FLIGHT = 256
KB = bytes(1_024)
SMALL = bytes(100)
# Tickets that wait at once: enough for batches to fill, few enough to bound memory.
TICKETS_MAX = 20_000


def blocking(namesrv: str, topic: str, seconds: float) -> int:
    """One thread that sends 1 KB and waits, again and again."""
    sent = 0
    with Producer(namesrv, group="load") as producer:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            producer.send(Message(topic, KB))
            sent += 1
    return sent


async def in_flight(namesrv: str, topic: str, seconds: float, body: bytes, batching: bool) -> int:
    """256 tasks, each of which sends and waits."""
    sent = 0

    async def one(producer: aio.Producer, until: float) -> None:
        nonlocal sent
        while time.perf_counter() < until:
            await producer.send(Message(topic, body))
            sent += 1

    async with aio.Producer(namesrv, group="load", batching=batching) as producer:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(one(producer, until) for _ in range(IN_FLIGHT)))
    return sent


async def soon(namesrv: str, topic: str, seconds: float, body: bytes) -> int:
    """Gathered batches: every ticket is awaited, the oldest first."""
    sent = 0
    waiting: deque[aio.Ticket] = deque()
    async with aio.Producer(namesrv, group="load") as producer:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            for _ in range(200):
                waiting.append(producer.send_soon(Message(topic, body)))
            while len(waiting) > TICKETS_MAX:
                await waiting.popleft()
                sent += 1
            await asyncio.sleep(0)
        for ticket in waiting:
            await ticket
            sent += 1
    return sent


Load = Callable[[str, str, float], Awaitable[int]]
KINDS: dict[str, Load] = {
    "in-flight": lambda n, t, s: in_flight(n, t, s, KB, batching=False),
    "awaited": lambda n, t, s: in_flight(n, t, s, SMALL, batching=True),
    "soon": lambda n, t, s: soon(n, t, s, SMALL),
    "soon-1k": lambda n, t, s: soon(n, t, s, KB),
}


async def timed(load: Load, namesrv: str, topic: str, seconds: float) -> int:
    """Runs a load on this loop."""
    return await load(namesrv, topic, seconds)


def main() -> None:
    """Warms up, measures, prints."""
    kind, namesrv, topic, seconds = sys.argv[1:]

    def run(for_seconds: float) -> int:
        if kind == "blocking":
            return blocking(namesrv, topic, for_seconds)
        return uvloop.run(timed(KINDS[kind], namesrv, topic, for_seconds))

    run(1.0)
    began, processor = time.perf_counter(), time.process_time()
    sent = run(float(seconds))
    took, processor = time.perf_counter() - began, time.process_time() - processor
    rate = {"messages_per_second": sent / took, "us_per_message": processor / sent * 1e6}
    print(json.dumps(rate))


if __name__ == "__main__":
    main()
