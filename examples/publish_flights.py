"""Sends every line of a file: python examples/publish_flights.py NAMESRV LINES ACKNOWLEDGED."""

import asyncio
import json
import sys
from pathlib import Path
from typing import TextIO

from mqcore import Message, MQError, aio

IN_FLIGHT = 256
RETRY_S = 0.1


async def send_all(producer: aio.Producer, lines: TextIO, acks: TextIO) -> None:
    """Several of these share the lines: each has one message under way."""
    for line in lines:
        flight = json.loads(line)
        tag, fields = flight["carrier"], {name: flight[name] for name in ("origin", "dep_delay")}
        keys = [tag + flight["flight"], *filter(None, [flight["tailnum"]])]
        message = Message("flights", line.rstrip(), tags=tag, keys=keys, properties=fields)
        while True:
            try:
                await producer.send(message)
                break
            except MQError:  # The broker is away: once more, until it is back.
                await asyncio.sleep(RETRY_S)
        acks.write(f"{flight['number']}\n")


async def publish(namesrv: str, lines: TextIO, acks: TextIO) -> None:
    """Sends all lines, so many at a time."""
    async with aio.Producer(namesrv, group="flights-publisher") as producer:
        await asyncio.gather(*(send_all(producer, lines, acks) for _ in range(IN_FLIGHT)))


_, address, source, sink = sys.argv
with Path(source).open(encoding="utf-8") as lines, Path(sink).open("w", buffering=1) as acks:
    asyncio.run(publish(address, lines, acks))
