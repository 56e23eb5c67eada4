"""Clients: producers by group, and members of consumer groups, of all brokers."""

from typing import Any, Final

from mqcore.console.kinds import is_system_group
from mqcore.console.listing import PAGE_ROWS, listed
from mqcore.console.views import Asked, View, url

__all__ = ["clients"]

KINDS: Final = ("producers", "consumers")


async def clients(asked: Asked) -> View:
    """Returns clients of one kind; of consumers those of the groups of this page."""
    query = asked.query
    kind = asked.choice("kind", KINDS)
    text = query.get("q", "").strip().lower()
    rows = await (_producers(asked) if kind == "producers" else _consumers(asked, text))
    matching = [
        row for row in rows if text in f"{row['group']} {row['client_id']} {row['address']}".lower()
    ]
    columns = {
        "group": lambda row: (row["group"], row["client_id"]),
        "client": lambda row: row["client_id"],
        "address": lambda row: row["address"],
        "language": lambda row: (row["language"], row["client_id"]),
        "version": lambda row: (row["version"], row["client_id"]),
    }
    listing = listed(matching, query, columns=columns, default="group", of=len(rows))
    data: dict[str, Any] = {"list": listing, "kind": kind, "kinds": KINDS, "q": text}
    data["groups_asked_max"] = PAGE_ROWS
    return View("clients.html", "Clients", data)


async def _producers(asked: Asked) -> list[dict[str, Any]]:
    asks = asked.questions
    addresses = {each.address: each.address for each in await asks.brokers() if each.broker_id == 0}
    found = await asks.each(addresses, "producers", asks.admin.brokers.all_producers)
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for table in found.values():
        for group, members in table.items():
            for each in members:
                rows[group, each.client_id] = _row(group, each, "")
    return list(rows.values())


async def _consumers(asked: Asked, text: str) -> list[dict[str, Any]]:
    """Asks for the groups whose name has the text, at most a page of them: 203 has no bulk form."""
    asks = asked.questions
    names = [name for name in await asks.groups() if not is_system_group(name)]
    chosen = [name for name in names if text in name.lower()] or names
    addresses = dict.fromkeys(chosen[:PAGE_ROWS], "brokers")
    found = await asks.each(addresses, "members", lambda name: asks.admin.groups.connections(name))
    return [
        _row(group, each, url("groups", group))
        for group, online in found.items()
        if online is not None
        for each in online.clients
    ]


def _row(group: str, each: Any, link: str) -> dict[str, Any]:
    return {
        "group": group,
        "client_id": each.client_id,
        "address": each.address,
        "language": each.language,
        "version": each.version,
        "url": link,
    }
