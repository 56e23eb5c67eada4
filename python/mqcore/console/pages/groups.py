"""Consumer groups: the list, and one group with its progress, members and settings."""

import asyncio
from typing import Any, Final

from mqcore.admin import GroupConnections, GroupProgress
from mqcore.console.inputs import queue_text
from mqcore.console.kinds import is_system_group
from mqcore.console.listing import listed
from mqcore.console.views import Asked, InputError, View, url
from mqcore.model.topics import DLQ_PREFIX, RETRY_PREFIX

__all__ = ["group", "groups", "member"]

TABS: Final = ("progress", "members", "settings", "reset")
_QUEUES_SHOWN_MAX: Final = 512
_QUEUES_ASKED_MAX: Final = 64
# Where the queues are not shown: those that are furthest behind.
_QUEUES_ASKED_BESIDE: Final = 4
# A broker asks a client for its state for 10 s.
_MEMBER_S: Final = 12.0


def oldest_ms(progress: GroupProgress, now_ms: int) -> int | None:
    """Returns for how long the oldest unread message waits, about; None where nothing waits.

    About, because brokers report the time of the message that was read last, not of the next.
    """
    ages = [now_ms - row.last_ms for row in progress.queues if row.lag and row.last_ms > 0]
    return max(ages, default=None)


def lag_of(progress: GroupProgress | None) -> int | None:
    """Returns how many messages a group has not read; None where it has committed nothing."""
    return progress.lag if progress is not None and progress.queues else None


async def groups(asked: Asked) -> View:
    """Returns the list of groups: lag of all, members of the shown ones alone."""
    asks, query = asked.questions, asked.query
    # What the others ask for first.
    await asks.cluster()
    configs, progress, topics = await asyncio.gather(
        asks.groups(), asks.progress(), asks.topic_names()
    )
    rows = []
    for name in sorted({*configs, *progress}):
        known = progress.get(name)
        rows.append(
            {
                "group": name,
                "url": url("groups", name),
                "is_system": is_system_group(name),
                "lag": lag_of(known),
                "oldest_ms": oldest_ms(known, asked.now_ms) if known else None,
                "get_per_s": known.get_per_s if known else None,
                "topics": sorted(
                    {
                        row.queue.topic
                        for row in (known.queues if known else ())
                        if not row.queue.topic.startswith(RETRY_PREFIX)
                    }
                ),
                "is_frozen": any(
                    not each.is_consume_enabled for each in configs.get(name, {}).values()
                ),
                "has_dead_letters": f"{DLQ_PREFIX}{name}" in topics,
                "members": None,
                "model": "",
                "is_divided": False,
            }
        )
    text, kind = query.get("q", "").strip().lower(), query.get("type", "user")
    matching = [
        row
        for row in rows
        if text in str(row["group"]).lower()
        and (kind == "all" or (row["is_system"] if kind == "system" else not row["is_system"]))
        and (query.get("only") != "behind" or row["lag"])
    ]
    columns = {
        "group": lambda row: row["group"],
        "lag": lambda row: (row["lag"] or 0, row["group"]),
        "oldest": lambda row: (row["oldest_ms"] or 0, row["group"]),
        "rate": lambda row: (row["get_per_s"] or 0, row["group"]),
    }
    listing = listed(matching, query, columns=columns, default="group", of=len(rows))
    addresses = {str(row["group"]): "brokers" for row in listing.rows}
    online = await asks.each(addresses, "members", lambda name: _online(asked, name))
    for row in listing.rows:
        found = online.get(str(row["group"]))
        if found is not None:
            each = found[0]
            row["members"] = len(each.clients) if each else 0
            row["model"] = each.message_model.lower() if each else ""
            row["is_divided"] = bool(each and each.differences)
    data = {"list": listing, "q": text, "type": kind, "only": query.get("only", "")}
    return View("groups.html", "Groups", data)


async def _online(asked: Asked, name: str) -> tuple[GroupConnections | None]:
    """Returns the members of a group in a tuple: None within it is an answer, too."""
    return (await asked.questions.admin.groups.connections(name),)


async def group(asked: Asked) -> View:
    """Returns one group."""
    name, asks = asked.parts["group"], asked.questions
    tab = asked.choice("tab", TABS)
    configs = (await asks.groups()).get(name, {})
    progress = (await asks.progress()).get(name)
    found = await asks.ask("brokers", "members", lambda: _online(asked, name))
    online = found[0] if found else None
    if not configs and progress is None:
        # One that was given offsets, and never had a member: only who names it is answered.
        known = await asks.ask(
            "brokers", "progress", lambda: asks.admin.groups.progress(name, must_exist=False)
        )
        progress = known if known is not None and known.queues else None
    if not configs and progress is None and online is None:
        # It may be newer than the table that is kept.
        asks.changed()
        configs = (await asks.groups()).get(name, {})
    if not configs and progress is None and online is None:
        raise InputError(f"no broker that answers knows a group {name[:200]}")
    rows = progress.queues if progress else ()
    topics = {row.queue.topic for row in rows}
    asked_max = _QUEUES_ASKED_MAX if tab == TABS[0] else _QUEUES_ASKED_BESIDE
    waits = await _waiting_ms(asked, progress, asked_max) if progress else {}
    oldest = max((each for each in waits.values() if each is not None), default=None)
    data: dict[str, Any] = {
        "group": name,
        "tab": tab,
        "tabs": TABS,
        "lag": lag_of(progress),
        "oldest_ms": oldest
        if oldest is not None
        else (oldest_ms(progress, asked.now_ms) if progress else None),
        "get_per_s": progress.get_per_s if progress else None,
        "online": online,
        "members": [] if online is None else online.clients,
        "differences": {} if online is None else online.differences,
        "waiting_ms": waits,
        "waiting": sorted(
            topic
            for topic in (online.subscriptions if online else ())
            if topic not in topics and not topic.startswith(RETRY_PREFIX)
        ),
        "topics": sorted(topic for topic in topics if not topic.startswith(RETRY_PREFIX)),
        "queues": rows[:_QUEUES_SHOWN_MAX],
        "queues_more": max(0, len(rows) - _QUEUES_SHOWN_MAX),
        "configs": [
            {"broker": broker, **each.to_json()} for broker, each in sorted(configs.items())
        ],
        "has_dead_letters": f"{DLQ_PREFIX}{name}" in await asks.topic_names(),
        "topic": asked.query.get("topic", ""),
    }
    return View("group.html", f"Group {name}", data)


async def _waiting_ms(
    asked: Asked, progress: GroupProgress, asked_max: int
) -> dict[str, int | None]:
    """Returns for how long the next message of each queue that is behind has waited.

    Asks for that message itself: of the queues with most unread messages.
    """
    asks = asked.questions
    behind = sorted((row for row in progress.queues if row.lag), key=lambda row: -row.lag)
    offsets = {row.queue: row.group_offset for row in behind[:asked_max]}
    addresses = {queue: queue.broker_name for queue in offsets}
    found = await asks.each(
        addresses, "next message", lambda queue: asks.admin.messages.at(queue, offsets[queue], 1)
    )
    return {
        f"{queue.topic} {queue_text(queue)}": asked.now_ms - rows[0].store_timestamp_ms
        if rows
        else None
        for queue, rows in found.items()
    }


async def member(asked: Asked) -> View:
    """Returns what a member reports of itself, its stacks too."""
    name, client, asks = asked.parts["group"], asked.query.get("client", ""), asked.questions
    info = await asks.ask(
        f"client {client}",
        "running info",
        lambda: asks.admin.groups.running_info(
            name, client, stacks=asked.query.get("stacks") == "1"
        ),
        deadline_s=_MEMBER_S,
    )
    found = info or {}
    data = {
        "group": name,
        "client": client,
        "properties": sorted((found.get("properties") or {}).items()),
        "queues": sorted((found.get("mqTable") or {}).items(), key=str),
        "status": sorted((found.get("statusTable") or {}).items()),
        "stacks": found.get("jstack") or "",
        "answers": info is not None,
    }
    return View("member.html", f"Member {client} of {name}", data)
