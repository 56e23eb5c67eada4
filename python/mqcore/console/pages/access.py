"""Who may do what: users and policies of all brokers of a cluster, and tests of a decision."""

from typing import TYPE_CHECKING, Any, Final

from mqcore.access import Resource
from mqcore.console.access_at import OLD, AccessTables, cluster_of, entry_text, tables_of
from mqcore.console.listing import listed
from mqcore.console.views import Asked, InputError, View, url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mqcore.access import Entry
    from mqcore.admin import AccessDecision

__all__ = ["ACTIONS", "access", "user"]

ACTIONS: Final = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List", "All")
_KINDS: Final = ("all", "Super", "Normal")


async def access(asked: Asked) -> View:
    """Returns the users."""
    cluster, clusters = await cluster_of(asked)
    tables = await tables_of(asked.questions, cluster)
    counts: dict[str, int] = {}
    for name, _policy, _resource in tables.entries:
        counts[name] = counts.get(name, 0) + 1
    text, kind = asked.query.get("q", "").strip(), asked.choice("kind", _KINDS)
    only = asked.query.get("only", "")
    other = {key[0] for key, at in tables.entries.items() if not tables.is_same(at)}
    rows = [
        row
        for name in tables.users
        if text.lower() in name.lower()
        for row in [_row(tables, name, counts.get(name, 0), cluster, name in other)]
        if kind in ("all", row["kind"]) and (only != "differing" or not row["is_same"])
    ]
    columns = {
        each: lambda row, each=each: (row[each], row["name"])
        for each in ("name", "kind", "status", "entries")
    }
    data = {
        "cluster": cluster,
        "clusters": clusters,
        "brokers": list(tables.brokers),
        "without": sorted(tables.without.items()),
        "are_old": OLD in tables.without.values(),
        "list": listed(rows, asked.query, columns=columns, default="name", of=len(tables.users)),
        "q": text,
        "kind": kind,
        "only": only,
        "differing": sum(
            not tables.is_same(at) or name in other for name, at in tables.users.items()
        ),
    }
    return View("access.html", "Access", data)


def _row(
    tables: AccessTables, name: str, entries: int, cluster: str, has_other_entries: bool
) -> dict[str, Any]:
    at = tables.users[name]
    first = next(iter(at.values()))
    return {
        "name": name,
        "kind": first.kind,
        "status": first.status,
        "entries": entries,
        "is_same": tables.is_same(at) and not has_other_entries,
        "url": url("access", name, cluster=cluster),
    }


async def user(asked: Asked) -> View:
    """Returns a user: what it may at which broker, and why it may do something."""
    name = asked.parts["user"]
    cluster, _clusters = await cluster_of(asked)
    tables = await tables_of(asked.questions, cluster)
    if not tables.users.get(name):
        raise InputError(f"there is no user {name[:100]!r} at a broker that answers")
    keys = [key for key in sorted(tables.entries) if key[0] == name]
    rows = [_entry_row(tables, key[1:], tables.entries[key]) for key in keys]
    at = tables.users[name]
    first = next(iter(at.values()))
    data = {
        "name": name,
        "cluster": cluster,
        "kind": first.kind,
        "status": first.status,
        "is_same": tables.is_same(at),
        "shapes": sorted(tables.shapes_of(name).items()),
        "brokers": list(tables.brokers),
        "entries": rows,
        "actions": ACTIONS,
        "action": asked.choice("action", ACTIONS),
        "resource": asked.query.get("resource", "").strip(),
        "source": asked.query.get("source", "").strip(),
        "decisions": await _decisions(asked, tables, name),
    }
    return View("access_user.html", name, data)


def _entry_row(
    tables: AccessTables, about: tuple[str, str], at: "Mapping[str, Entry]"
) -> dict[str, Any]:
    policy, resource = about
    first = next(iter(at.values()))
    return {
        "policy": policy,
        "resource": resource,
        "actions": first.actions,
        "decision": first.decision,
        "sources": first.sources,
        "is_same": tables.is_same(at),
        "at": [(broker, entry_text(at.get(broker))) for broker in tables.brokers],
    }


async def _decisions(asked: Asked, tables: AccessTables, name: str) -> list[dict[str, Any]]:
    """Returns what each broker decides about what the URL asks; official ones do not report it."""
    text = asked.query.get("resource", "").strip()
    if not text:
        return []
    resource = Resource.of_text(text)
    if resource is None:
        raise InputError(f"{text[:100]!r} is no resource, as Topic:orders or Group:* is")
    action, source = asked.choice("action", ACTIONS), asked.query.get("source", "").strip()
    admin = asked.questions.admin
    found: dict[str, AccessDecision | None] = await asked.questions.each_if_known(
        tables.brokers,
        "a decision",
        lambda broker: admin.access.decision(
            tables.brokers[broker], name, action, resource, source=source
        ),
    )
    return [
        {
            "broker": broker,
            "is_allowed": each.is_allowed,
            "why": each.why,
            "matched": [
                f"{policy.kind} {entry_text(x)} on {x.resource}"
                for policy in each.matched
                for x in policy.entries
            ],
            "authorizes": each.authorizes,
            "is_dry_run": each.is_dry_run,
        }
        if each is not None
        else {"broker": broker, "is_allowed": None}
        for broker, each in sorted(found.items())
    ]
