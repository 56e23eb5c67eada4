"""Messages as they come: a stream of events for one page, bounded per second and in number.

One question per broker and turn asks which queues grew; those alone are read. At most fifty
messages a second are shown, the rest is counted.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mqcore.admin import Admin
from mqcore.admin.transport import all_of
from mqcore.clock import monotonic_ms
from mqcore.console.bodies import summary
from mqcore.errors import MQError
from mqcore.model.queues import MessageQueue

__all__ = ["LIVE_MAX", "Wanted", "live_events"]

# Streams at once, of all users.
LIVE_MAX: Final = 100
SHOWN_PER_TURN: Final = 50
_TURN_S: Final = 1.0
_READ_MAX: Final = 32
_QUEUES_READ_MAX: Final = 16
# A stream that nobody closed ends; its page begins another one.
_LIFE_MS: Final = 30 * 60 * 1_000
_FAILURES_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages a stream shows.

    Attributes:
        tag: Only messages with this tag; empty for all.
        text: Only messages with this in their keys or the begin of their body; empty for all.
        sql: Only messages for which this expression of SQL92 is true; empty for all.
    """

    tag: str = ""
    text: str = ""
    sql: str = ""


async def live_events(admin: Admin, topic: str, wanted: Wanted) -> AsyncIterator[str]:
    """Yields the events of a stream, as server-sent events are written.

    `message` has a message, `count` what came and was left out, `fault` why nothing comes.

    Args:
        admin: The administrator.
        topic: Which.
        wanted: Which of its messages.
    """
    ends: dict[MessageQueue, int] | None = None
    ends_ms, failures = monotonic_ms() + _LIFE_MS, 0
    yield "retry: 2000\n\n"
    while monotonic_ms() < ends_ms and failures < _FAILURES_MAX:
        try:
            now = await _ends(admin, topic)
            if ends is None:
                await _try(admin, now, wanted)
            rows, left_out = await _new(admin, ends or now, now, wanted)
            failures = 0
        except MQError as error:
            failures += 1
            yield event("fault", {"text": error.message})
            await asyncio.sleep(_TURN_S)
            continue
        if ends is None:
            yield event("begin", {"queues": len(now)})
        for row in rows:
            yield event("message", row)
        yield event("count", {"shown": len(rows), "left_out": left_out})
        ends = now
        await asyncio.sleep(_TURN_S)


def event(name: str, data: Mapping[str, Any]) -> str:
    """Returns one event; JSON has no line breaks of its own."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


async def _ends(admin: Admin, topic: str) -> dict[MessageQueue, int]:
    route = await admin.topics.route(topic)
    addresses = [each for broker in route.brokers if (each := broker.any_of(0))]
    parts = await all_of(addresses, lambda address: admin.topics.stats_at(address, topic))
    return {row.queue: row.max_offset for part in parts for row in part.queues}


async def _try(admin: Admin, ends: Mapping[MessageQueue, int], wanted: Wanted) -> None:
    """Lets a broker look at the expression, before the first message comes.

    Raises:
        MQError: It does not take it.
    """
    queue = next(iter(ends), None)
    if wanted.sql and queue is not None:
        await admin.messages.at(queue, ends[queue], 1, sql=wanted.sql)


async def _new(
    admin: Admin,
    before: Mapping[MessageQueue, int],
    now: Mapping[MessageQueue, int],
    wanted: Wanted,
) -> tuple[list[dict[str, Any]], int]:
    """Returns what came and is shown, and how many came beside.

    Raises:
        MQError: A broker does not take the expression.
    """
    grown = {queue: end - before.get(queue, end) for queue, end in now.items()}
    came = sum(max(0, count) for count in grown.values())
    rows: list[dict[str, Any]] = []
    read = 0
    for queue in [queue for queue, count in grown.items() if count > 0][:_QUEUES_READ_MAX]:
        if len(rows) >= SHOWN_PER_TURN:
            break
        # Of a burst the newest.
        begin = max(before[queue], now[queue] - _READ_MAX)
        try:
            found = await admin.messages.at(queue, begin, _READ_MAX, sql=wanted.sql)
        except MQError:
            if wanted.sql:
                raise
            continue
        for each in found:
            read += 1
            row = summary(each, queue.broker_name)
            fits = not wanted.tag or each.tags == wanted.tag
            if fits and (not wanted.text or wanted.text in f"{row['keys']} {row['preview']}"):
                rows.append(row)
    shown = sorted(rows, key=lambda row: int(row["stored_ms"]))[:SHOWN_PER_TURN]
    # What a filter left out was looked at; of an expression the broker looked at all of it.
    looked_at = came if wanted.sql else read if wanted.tag or wanted.text else len(shown)
    return shown, max(0, came - max(looked_at, len(shown)))
