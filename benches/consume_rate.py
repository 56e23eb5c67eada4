"""How fast a push consumer consumes: `consume_rate.py NAMESRV TOPIC COUNT [KIND] [PULL]`.

The topic holds at least COUNT messages; `mqcore-load produce` fills one. KIND is `coroutine`,
`plain`, `batch` or `bodies` (batches whose bodies are read). PULL is how many messages a pull asks
for; official brokers give 32 unless `maxTransferCountOnMessageInMemory` is more. Prints messages
per second from the first to the last one, and processor time of this process per message.
"""

import asyncio
import itertools
import os
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from mqcore import ConsumeFrom, aio

_DEADLINE_S = 120.0
Handler = Callable[[Any], Any]


class Meter:
    """Counts messages between the first and the last one."""

    def __init__(self, count: int) -> None:
        """Takes how many there will be."""
        self.left = count
        self.began_s = self.ended_s = 0.0
        self._loop = asyncio.get_running_loop()
        self.done = asyncio.Event()

    def note(self, count: int) -> None:
        """Counts some."""
        if not self.began_s:
            self.began_s = time.perf_counter()
        self.left -= count
        if self.left <= 0 and not self.ended_s:
            self.ended_s = time.perf_counter()
            self._loop.call_soon_threadsafe(self.done.set)


def handler_of(kind: str, meter: Meter) -> Handler:
    """Returns the handler of a kind."""

    async def coroutine(_: object) -> None:
        meter.note(1)

    def plain(_: object) -> None:
        meter.note(1)

    async def batch(messages: list[Any]) -> None:
        meter.note(len(messages))

    async def bodies(messages: list[Any]) -> None:
        for message in messages:
            _ = message.body
        meter.note(len(messages))

    handlers: dict[str, Callable[[Any], Coroutine[Any, Any, None] | None]] = {
        "coroutine": coroutine,
        "plain": plain,
        "batch": batch,
        "bodies": bodies,
    }
    return handlers[kind]


async def measure(
    namesrv: str, topic: str, count: int, kind: str, pull: int
) -> tuple[float, float]:
    """Consumes; returns messages per second and microseconds of processor per message."""
    meter = Meter(count)
    cpu_s = time.process_time()
    async with aio.PushConsumer(
        namesrv,
        group=f"rate-{os.getpid()}-{kind}-{pull}",
        handler=handler_of(kind, meter),
        topics=topic,
        batch=max(32, pull) if kind in ("batch", "bodies") else None,
        pull_count=pull,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        async with asyncio.timeout(_DEADLINE_S):
            await meter.done.wait()
    cpu_s = time.process_time() - cpu_s
    return count / (meter.ended_s - meter.began_s), cpu_s / count * 1e6


def main() -> None:
    """Measures what the command line asks for, or every kind."""
    namesrv, topic, count, *more = sys.argv[1:]
    kinds = more[:1] or ["coroutine", "plain", "batch", "bodies"]
    pulls = [int(text) for text in more[1:2]] or [32, 512]
    for kind, pull in itertools.product(kinds, pulls):
        rate, us = uvloop.run(measure(namesrv, topic, int(count), kind, pull))
        print(f"{kind:9} {pull:4} a pull {rate / 1000:6.0f} k/s {us:5.2f} us each")


if __name__ == "__main__":
    main()
