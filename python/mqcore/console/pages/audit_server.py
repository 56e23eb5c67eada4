"""The audit of a server: its lines over the wire, a page at a time, and whether it is whole."""

import json
from collections.abc import Iterator
from typing import Any, Final

from mqcore.admin import AuditWanted
from mqcore.console.listing import whole_of
from mqcore.console.views import Asked, InputError, View
from mqcore.errors import MQError

__all__ = ["audited_servers", "server_audit"]

_ROWS: Final = 50
_OUTCOMES: Final = ("", "done", "refused", "failed")
_NUMBER_MAX: Final = 10**15
_SHOWN_CHARS_MAX: Final = 160
# A topic by its name, and each of its settings by its own.
_DEPTH_MAX: Final = 2


async def audited_servers(asked: Asked) -> list[tuple[str, str]]:
    """Returns the servers whose audits may be asked for, with their names.

    Where no name server answers there are none: the console's own audit is shown all the same.
    """
    try:
        known = await asked.questions.brokers()
    except MQError:
        return []
    brokers = [(each.address, f"{each.name} {each.broker_id}") for each in known]
    servers = await asked.questions.admin.name_servers.addresses()
    return [*brokers, *((each, f"name server {each}") for each in servers)]


async def server_audit(asked: Asked, servers: list[tuple[str, str]]) -> View:
    """Returns lines of a server's audit, the newest first."""
    of = asked.query["of"]
    if of not in dict(servers):
        raise InputError(f"{of[:100]!r} is no server that name servers know")
    asks, query = asked.questions, asked.query
    outcome = asked.choice("outcome", _OUTCOMES)
    text, user, resource = (query.get(name, "").strip() for name in ("q", "user", "resource"))
    wanted = AuditWanted(text=text, user=user, resource=resource, outcome=outcome)
    before = whole_of(query.get("before"), 0, 0, _NUMBER_MAX)
    audits = asks.admin.audits
    page = await asks.ask(
        of,
        "its audit",
        lambda: audits.read(of, count=_ROWS, before=before, wanted=wanted),
    )
    check = None
    if query.get("check") == "yes" and page is not None:
        check = await asks.ask(of, "a check of its audit", lambda: audits.check(of))
    data = {
        "servers": servers,
        "of": of,
        "page": page,
        "lines": [_shown(row) for row in page.lines] if page is not None else [],
        "before": page.before if page is not None else 0,
        "check": check,
        "q": text,
        "user_chosen": user,
        "resource": resource,
        "outcome": outcome,
    }
    return View("audit_server.html", "Audit", data)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a line as the table has it: a line of another release may lack any part."""
    found = {
        name: str(row.get(name) or "")
        for name in ("time", "user", "address", "client", "request", "event", "outcome", "remark")
    }
    about = row.get("resource")
    return found | {
        "n": row.get("n"),
        "user": found["user"] or str(row.get("certificate") or ""),
        "about": [str(each) for each in about] if isinstance(about, list) else [],
        "count": row.get("count"),
        "before": _text(row.get("before")),
        "after": _text(row.get("after")),
        "changes": _changes(row.get("before"), row.get("after")),
    }


def _changes(before: Any, after: Any) -> list[tuple[str, str, str]]:
    """Returns what is different: its name, what it was, what it is; empty for what is not there."""
    return [
        (name, _text(was), _text(now))
        for name, was, now in _differing("", before, after, _DEPTH_MAX)
    ]


def _differing(name: str, before: Any, after: Any, depth: int) -> Iterator[tuple[str, Any, Any]]:
    values = [each for each in (before, after) if each is not None]
    if not depth or not values or not all(isinstance(each, dict) for each in values):
        if before != after:
            yield name, before, after
        return
    was, now = before or {}, after or {}
    for key in dict.fromkeys([*was, *now]):
        inner = f"{name}.{key}" if name else str(key)
        yield from _differing(inner, was.get(key), now.get(key), depth - 1)


def _text(value: Any) -> str:
    if value is None:
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}..."
