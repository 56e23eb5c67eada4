"""What comes later: delay levels, timed and half messages; taken back, or asked about again."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from mqcore.admin import TopicStats
from mqcore.client.recall import RecallHandle
from mqcore.console import formats
from mqcore.console.bodies import summary
from mqcore.console.pages.messages import message_of
from mqcore.console.users import Role
from mqcore.console.views import Asked, Change, Done, InputError, Plan, View, command, url
from mqcore.model.groups import TRANSACTION_GROUP
from mqcore.model.queues import MessageQueue
from mqcore.model.topics import (
    CHECK_MAX_TIME_TOPIC,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)
from mqcore.native import Message
from mqcore.remoting import ResponseCode

__all__ = ["CHANGES", "later"]

# By broker and topic; None where the broker has no such topic, nothing where it did not answer.
Waiting: TypeAlias = dict[tuple[str, str], TopicStats | None]

# Of timed messages and of given-up ones so many of the newest are read of each broker.
_READ_MAX: Final = 96
_PULL_MAX: Final = 32
_SHOWN_MAX: Final = 50
# Properties of a message that waits.
_REAL_TOPIC: Final = "REAL_TOPIC"
_DUE: Final = "TIMER_OUT_MS"
# Of a message that takes another one back: its key, behind that of its topic since 5.3.2.
_RECALLS: Final = "TIMER_DEL_UNIQKEY"
_PRODUCER: Final = "PGROUP"
_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


async def later(asked: Asked) -> View:
    """Returns what waits on each broker."""
    asks, admin = asked.questions, asked.questions.admin
    at = await asks.deciders()
    waiting = await _waiting(asked, at)
    configs = await asks.each(at, "settings", lambda name: admin.brokers.config(at[name]))
    have_timers = {
        name: address
        for name, address in at.items()
        if configs.get(name, {}).get("timerWheelEnable", "").lower() == "true"
    }
    timers = await asks.each(have_timers, "timers", lambda name: admin.brokers.timers(at[name]))
    rows = []
    for broker, address in at.items():
        levels = await _levels(asked, broker, address, configs.get(broker, {}), waiting)
        rows.append(
            {
                "broker": broker,
                "url": url("brokers", broker, "0"),
                "levels": levels,
                "has_timers": broker in have_timers,
                "timers": sorted(
                    (timers.get(broker) or {}).items(), key=lambda row: (-row[1], row[0])
                )[:100],
                "half": await _half(asked, broker, address, waiting),
                "coming": await _coming(asked, broker, address) if broker in have_timers else [],
                "given_up": await _given_up(asked, broker, address, waiting),
            }
        )
    return View("later.html", "Later", {"brokers": rows})


async def _waiting(asked: Asked, at: Mapping[str, str]) -> Waiting:
    """Returns how full the topics of what waits are on each broker."""
    asks, topics = asked.questions, (SCHEDULE_TOPIC, HALF_TOPIC, CHECK_MAX_TIME_TOPIC)
    wanted = {(broker, topic): at[broker] for broker in at for topic in topics}
    return await asks.each_if_known(
        wanted,
        "what waits",
        lambda key: asks.admin.topics.stats_at(wanted[key], key[1]),
        unknown=ResponseCode.TOPIC_NOT_EXIST,
    )


async def _levels(
    asked: Asked, broker: str, address: str, config: dict[str, str], waiting: Waiting
) -> list[dict[str, Any]]:
    """Returns how many messages wait in each delay level, and when the last one came."""
    stats = waiting.get((broker, SCHEDULE_TOPIC))
    if stats is None:
        return []
    asks = asked.questions
    offsets = await asks.ask(
        address, "delivered delays", lambda: asks.admin.brokers.delay_offsets(address)
    )
    names = config.get("messageDelayLevel", _LEVELS).split()
    rows = []
    for row in stats.queues:
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


async def _half(asked: Asked, broker: str, address: str, waiting: Waiting) -> dict[str, Any] | None:
    """Returns the half messages of a broker: those that its check has not passed yet."""
    stats = waiting.get((broker, HALF_TOPIC))
    if stats is None:
        return None
    asks, admin = asked.questions, asked.questions.admin
    ends = await asks.ask(
        address, "ends of transactions", lambda: admin.topics.stats_at(address, OP_HALF_TOPIC)
    )
    progress = await asks.ask(
        address,
        "checks of transactions",
        lambda: admin.groups.progress_at(address, TRANSACTION_GROUP, HALF_TOPIC),
    )
    return {
        "stored": sum(row.max_offset for row in stats.queues),
        "last_ms": max((row.last_update_ms for row in stats.queues), default=0),
        "ends": sum(row.max_offset for row in ends.queues) if ends else None,
        "unchecked": progress.lag if progress else None,
    }


async def _newest(asked: Asked, address: str, broker: str, stats: TopicStats) -> list[Message]:
    """Returns the newest messages of a topic on a broker, the newest first."""
    asks, admin = asked.questions, asked.questions.admin
    begins = {
        MessageQueue(stats.topic, broker, row.queue.queue_id): max(
            row.min_offset, row.max_offset - _READ_MAX
        )
        for row in stats.queues
        if row.count
    }

    async def read(queue: MessageQueue) -> list[Message]:
        found: list[Message] = []
        while len(found) < _READ_MAX:
            begin = found[-1].queue_offset + 1 if found else begins[queue]
            part = await admin.messages.at(queue, begin, _PULL_MAX)
            if not part:
                break
            found += part
        return found

    parts = await asks.each(dict.fromkeys(begins, address), f"messages of {stats.topic}", read)
    rows = [each for part in parts.values() for each in part]
    return sorted(rows, key=lambda each: -each.store_timestamp_ms)


async def _coming(asked: Asked, broker: str, address: str) -> list[dict[str, Any]]:
    """Returns timed messages among the newest that are not due yet, the next one first."""
    asks = asked.questions
    stats = await asks.ask(
        address, TIMER_TOPIC, lambda: asks.admin.topics.stats_at(address, TIMER_TOPIC)
    )
    rows, newest = [], await _newest(asked, address, broker, stats) if stats else []
    recalled = {each.properties.get(_RECALLS, "") for each in newest}
    for each in newest:
        due = each.properties.get(_DUE, "")
        topic = each.properties.get(_REAL_TOPIC, "")
        is_recalled = any(text.endswith(each.uniq_key or " ") for text in recalled)
        is_due = not due.isdecimal() or int(due) <= asked.now_ms
        if topic and each.uniq_key and not (is_due or is_recalled or _RECALLS in each.properties):
            # One more than the time, which is rounded down: as brokers write it.
            handle = RecallHandle(topic, broker, int(due) + 1, each.uniq_key)
            rows.append(
                {**summary(each, broker), "topic": topic, "due_ms": int(due), "handle": handle.text}
            )
    return sorted(rows, key=lambda row: row["due_ms"])[:_SHOWN_MAX]


async def _given_up(
    asked: Asked, broker: str, address: str, waiting: Waiting
) -> list[dict[str, Any]]:
    """Returns the newest half messages that nobody ended and that are not asked about any more."""
    stats = waiting.get((broker, CHECK_MAX_TIME_TOPIC))
    if stats is None:
        return []
    return [
        {
            **summary(each, broker),
            "topic": each.properties.get(_REAL_TOPIC, ""),
            "producer": each.properties.get(_PRODUCER, ""),
        }
        for each in (await _newest(asked, address, broker, stats))[:_SHOWN_MAX]
    ]


async def _plan_recall(asked: Asked) -> Plan:
    handle = RecallHandle.parse(asked.form.get("handle", "").strip())
    return Plan(
        "Take a timed message back",
        "Take it back",
        ("what", "value"),
        (
            ("message", handle.message_id),
            ("topic", handle.topic),
            ("broker", handle.broker_name),
            ("due", formats.when(handle.deliver_at_ms)),
        ),
        command(asked, ("msg", "recall", handle.text)),
        url("later"),
        warning="It is never delivered. One that is due in a moment may come all the same.",
    )


async def _recall(asked: Asked) -> Done:
    message_id = await asked.questions.admin.messages.recall(asked.form["handle"].strip())
    return Done(f"message {message_id} was taken back", url("later"))


async def _resumed(asked: Asked) -> Message:
    """Returns the given-up half message that a form names.

    Raises:
        InputError: The message in that place is another one.
    """
    found = await message_of(asked, asked.form.get("id", "").strip())
    if found.topic != CHECK_MAX_TIME_TOPIC:
        raise InputError(f"the message is in {found.topic}: it was not given up")
    return found


async def _plan_resume(asked: Asked) -> Plan:
    found = await _resumed(asked)
    return Plan(
        "Ask about a half message again",
        "Ask again",
        ("what", "value"),
        (
            ("message", found.uniq_key or found.message_id),
            ("topic", found.properties.get(_REAL_TOPIC, "")),
            ("producer group", found.properties.get(_PRODUCER, "")),
        ),
        command(asked, ("msg", "resume-check", asked.form["id"].strip())),
        url("later"),
        warning="It is stored anew as a half message; a producer of its group is asked how its "
        "transaction ended.",
    )


async def _resume(asked: Asked) -> Done:
    found = await _resumed(asked)
    await asked.questions.admin.messages.resume_check(asked.form["id"].strip())
    return Done(f"message {found.uniq_key or found.message_id} is asked about again", url("later"))


CHANGES: Final = (
    Change("/later/recall", "message recall", Role.OPERATOR, _plan_recall, _recall),
    Change("/later/resume", "half message resume", Role.OPERATOR, _plan_resume, _resume),
)
