"""What comes later: delay levels, timed messages, half messages. Looks, and changes nothing."""

from typing import Any, Final

from mqcore.console.views import Asked, View, url
from mqcore.model.groups import TRANSACTION_GROUP
from mqcore.model.topics import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC

__all__ = ["later"]

_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


async def later(asked: Asked) -> View:
    """Returns what waits on each broker."""
    asks, admin = asked.questions, asked.questions.admin
    at = await asks.deciders()
    topics = await asks.topics()
    configs = await asks.each(at, "settings", lambda name: admin.brokers.config(at[name]))
    have_timers = {
        name: address
        for name, address in at.items()
        if configs.get(name, {}).get("timerWheelEnable", "").lower() == "true"
    }
    timers = await asks.each(have_timers, "timers", lambda name: admin.brokers.timers(at[name]))
    rows = []
    for broker, address in at.items():
        levels = await _levels(asked, broker, address, configs.get(broker, {}), topics)
        rows.append(
            {
                "broker": broker,
                "url": url("brokers", broker, "0"),
                "levels": levels,
                "has_timers": broker in have_timers,
                "timers": sorted(
                    (timers.get(broker) or {}).items(), key=lambda row: (-row[1], row[0])
                )[:100],
                "half": await _half(asked, broker, address, topics),
            }
        )
    return View("later.html", "Later", {"brokers": rows})


async def _levels(
    asked: Asked, broker: str, address: str, config: dict[str, str], topics: Any
) -> list[dict[str, Any]]:
    """Returns how many messages wait in each delay level, and when the last one came."""
    if broker not in topics.get(SCHEDULE_TOPIC, {}):
        return []
    asks = asked.questions
    stats = await asks.ask(
        address, "delay levels", lambda: asks.admin.topics.stats_at(address, SCHEDULE_TOPIC)
    )
    offsets = await asks.ask(
        address, "delivered delays", lambda: asks.admin.brokers.delay_offsets(address)
    )
    names = config.get("messageDelayLevel", _LEVELS).split()
    rows = []
    for row in stats.queues if stats else ():
        level = row.queue.queue_id
        if row.max_offset:
            rows.append(
                {
                    "level": level + 1,
                    "span": names[level] if level < len(names) else "?",
                    "stored": row.max_offset,
                    "waits": None
                    if offsets is None
                    else max(0, row.max_offset - offsets.get(level + 1, 0)),
                    "last_ms": row.last_update_ms,
                }
            )
    return rows


async def _half(asked: Asked, broker: str, address: str, topics: Any) -> dict[str, Any] | None:
    """Returns the half messages of a broker: those that its check has not passed yet."""
    if broker not in topics.get(HALF_TOPIC, {}):
        return None
    asks, admin = asked.questions, asked.questions.admin
    stats = await asks.ask(
        address, "half messages", lambda: admin.topics.stats_at(address, HALF_TOPIC)
    )
    ends = await asks.ask(
        address, "ends of transactions", lambda: admin.topics.stats_at(address, OP_HALF_TOPIC)
    )
    progress = (await asks.progress()).get(TRANSACTION_GROUP)
    rows = progress.queues if progress else ()
    return {
        "stored": sum(row.max_offset for row in stats.queues) if stats else None,
        "last_ms": max((row.last_update_ms for row in stats.queues), default=0) if stats else None,
        "ends": sum(row.max_offset for row in ends.queues) if ends else None,
        "unchecked": sum(
            row.lag
            for row in rows
            if (row.queue.topic, row.queue.broker_name) == (HALF_TOPIC, broker)
        ),
    }
