"""Topics: the list, and one topic with its routes, queues, groups and settings. Changes nothing."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from mqcore.admin import TopicConfig, TopicStats
from mqcore.console.kinds import KINDS, OF_USERS, server_names, topic_kind
from mqcore.console.listing import Listing, listed
from mqcore.console.views import Asked, InputError, View, url
from mqcore.model.topics import perm_text

__all__ = ["live", "topic", "topics"]

# A topic with what it is for and its configurations by broker.
_Known: TypeAlias = tuple[str, str, Mapping[str, TopicConfig]]

TABS: Final = ("queues", "groups", "settings", "produce")
# Queues that are listed; a topic with more shows how many are left out.
QUEUES_SHOWN_MAX: Final = 512


async def topics(asked: Asked) -> View:
    """Returns the list of topics: what brokers have; figures of the shown ones alone."""
    asks, query = asked.questions, asked.query
    servers = server_names(await asks.cluster())
    tables = await asks.topics()
    kind, text = query.get("type", "user"), query.get("q", "").strip().lower()
    # Of ten thousand topics fifty are shown: only these become rows.
    matching = [
        (name, found, configs)
        for name, configs in tables.items()
        if text in name.lower()
        and _is_of(found := topic_kind(name, configs.values(), servers), kind)
    ]
    columns: dict[str, Callable[[_Known], Any]] = {
        "name": lambda known: known[0],
        "type": lambda known: (known[1], known[0]),
        "queues": lambda known: (sum(each.write_queues for each in known[2].values()), known[0]),
        "brokers": lambda known: (len(known[2]), known[0]),
    }
    page = listed(matching, query, columns=columns, default="name", of=len(tables))
    rows = [_row(name, configs, servers) for name, _, configs in page.rows]
    listing = Listing(rows, page.total, page.of, page.page, page.pages, page.sort)
    await _measure(asked, listing)
    clusters = sorted((await asks.cluster()).clusters)
    return View(
        "topics.html",
        "Topics",
        {"list": listing, "type": kind, "q": text, "kinds": KINDS, "clusters": clusters},
    )


def _row(name: str, configs: Mapping[str, TopicConfig], servers: frozenset[str]) -> dict[str, Any]:
    return {
        "name": name,
        "url": url("topics", name),
        "type": topic_kind(name, configs.values(), servers),
        "brokers": sorted(configs),
        "read_queues": sum(each.read_queues for each in configs.values()),
        "write_queues": sum(each.write_queues for each in configs.values()),
        "perm": " ".join(sorted({perm_text(each.perm) for each in configs.values()})),
        "order": any(each.order for each in configs.values()),
        "messages": None,
        "put_per_s": None,
        "last_ms": None,
    }


def _is_of(found: str, wanted: str) -> bool:
    return wanted == "all" or found == wanted or (wanted == "user" and found in OF_USERS)


async def _measure(asked: Asked, listing: Listing[dict[str, Any]]) -> None:
    """Adds what is asked for per topic: of the rows that are shown."""
    asks = asked.questions
    deciders = await asks.deciders()
    addresses = {
        (row["name"], broker): deciders[broker]
        for row in listing.rows
        for broker in row["brokers"]
        if broker in deciders
    }
    found = await asks.each(
        addresses, "topic figures", lambda key: asks.admin.topics.stats_at(addresses[key], key[0])
    )
    for row in listing.rows:
        parts = [found.get((row["name"], broker)) for broker in row["brokers"]]
        if all(part is not None for part in parts):
            known = [part for part in parts if part is not None]
            row["messages"] = sum(queue.count for part in known for queue in part.queues)
            row["put_per_s"] = sum(part.put_per_s for part in known)
            row["last_ms"] = max(
                (queue.last_update_ms for part in known for queue in part.queues), default=0
            )


async def topic(asked: Asked) -> View:
    """Returns one topic."""
    name, asks = asked.parts["topic"], asked.questions
    admin, tab = asks.admin, asked.choice("tab", TABS)
    configs = (await asks.topics()).get(name)
    if configs is None:
        # It may be newer than the table that is kept.
        asks.changed()
        configs = (await asks.topics()).get(name)
    if configs is None:
        raise InputError(f"no broker that answers has a topic {name[:200]}")
    deciders = await asks.deciders()
    data: dict[str, Any] = {
        **_row(name, configs, server_names(await asks.cluster())),
        "tab": tab,
        "tabs": TABS,
        "configs": [
            {
                "broker": broker,
                "read": each.read_queues,
                "write": each.write_queues,
                "perm": perm_text(each.perm),
                "order": each.order,
                "attributes": dict(each.attributes),
            }
            for broker, each in sorted(configs.items())
        ],
    }
    addresses = {broker: deciders[broker] for broker in configs if broker in deciders}
    if tab == "groups":
        data["groups"] = await _groups(asked, name)
    elif tab not in ("settings", "produce"):
        found = await asks.each(
            addresses, "queues", lambda broker: admin.topics.stats_at(addresses[broker], name)
        )
        data |= _queues(list(found.values()))
        data["routes"] = await asks.ask("name servers", "routes", lambda: admin.topics.route(name))
    return View("topic.html", f"Topic {name}", data)


def _queues(stats: Sequence[TopicStats]) -> dict[str, Any]:
    rows = [queue for part in stats for queue in part.queues]
    return {
        "queues": rows[:QUEUES_SHOWN_MAX],
        "queues_more": max(0, len(rows) - QUEUES_SHOWN_MAX),
        "messages": sum(row.count for row in rows),
        "put_per_s": sum(part.put_per_s for part in stats),
        "last_ms": max((row.last_update_ms for row in rows), default=0),
    }


async def _groups(asked: Asked, name: str) -> list[dict[str, Any]]:
    """Returns the groups that read a topic, with their lag there."""
    asks = asked.questions
    progress = await asks.progress()
    online = await asks.ask("brokers", "groups", lambda: asks.admin.topics.groups(name))
    names = {
        group
        for group, each in progress.items()
        if any(row.queue.topic == name for row in each.queues)
    }
    return [
        {
            "group": group,
            "url": url("groups", group),
            "lag": sum(
                row.lag
                for row in (progress[group].queues if group in progress else ())
                if row.queue.topic == name
            ),
            "has_committed": group in names,
        }
        for group in sorted(names | set(online or ()))
    ]


async def live(asked: Asked) -> View:
    """Returns the page on which a topic's messages appear as they come; `live.py` streams them."""
    name = asked.parts["topic"]
    filters = {each: asked.query.get(each, "") for each in ("tag", "text", "sql")}
    return View("live.html", f"Live: {name}", {"topic": name, **filters})
