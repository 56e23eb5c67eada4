"""The console itself: who changed what, who one is, how it is used."""

import asyncio
from typing import Final

from mqcore.console.listing import listed
from mqcore.console.pages.audit_server import audited_servers, server_audit
from mqcore.console.users import Role
from mqcore.console.views import Asked, View

__all__ = ["audit", "audit_file", "help_page"]

# What a page is for, and the commands that show the same.
COMMANDS: Final = (
    ("Overview", "mqcore doctor --cluster", "mqadmin clusterList"),
    ("Brokers", "mqadmin brokerStatus -b ADDR", "mqadmin getBrokerConfig -b ADDR"),
    ("Memory and store of a broker", "mqcore broker memory ADDR", "mqcore broker memory DIR"),
    ("Slow requests of a broker", "mqcore broker slow -b ADDR", "mqcore broker slow --stages"),
    ("Drain of a broker", "mqcore broker drain NAME", "mqcore broker undrain NAME"),
    ("Topics", "mqcore topic list --long", "mqcore topic describe TOPIC"),
    ("Groups", "mqcore group list", "mqcore group describe GROUP"),
    ("Messages", "mqcore msg get ID --topic TOPIC", "mqcore msg query TOPIC KEY"),
    ("Live", "mqcore consume TOPIC", ""),
    ("Trace", "mqcore msg trace ID", ""),
    ("Dead letters", "mqcore dlq list GROUP", "mqcore dlq resend GROUP --dry-run"),
    ("Name servers", "mqadmin getNamesrvConfig", "mqadmin updateKvConfig"),
    ("Access", "mqcore acl users", "mqcore acl grant USER Pub Topic:T"),
    ("Audit of servers", "mqcore audit search", "mqcore audit verify"),
)
KEYS: Final = (
    ("/", "search"),
    ("g o", "overview"),
    ("g b", "brokers"),
    ("g t", "topics"),
    ("g g", "groups"),
    ("g m", "messages"),
    ("g d", "dead letters"),
    ("j, k", "next row, row before; Enter opens it"),
    ("?", "this page"),
    ("Esc", "leave a field"),
)


async def audit(asked: Asked) -> View:
    """Returns the last changes, the newest first: of this console, or of a server."""
    servers = await audited_servers(asked)
    if asked.query.get("of", ""):
        return await server_audit(asked, servers)
    text, user = asked.query.get("q", "").strip(), asked.query.get("user", "")
    every = asked.audit.rows()
    rows = [
        row
        for row in asked.audit.rows(text)
        if (not user or row.get("user") == user)
        and (asked.query.get("only") != "failed" or row.get("outcome") != "done")
    ]
    columns = {
        name: lambda row, name=name: (str(row.get(name, "")), str(row.get("time", "")))
        for name in ("time", "user", "what", "on", "outcome")
    }
    is_checked = asked.query.get("check") == "yes"
    data = {
        "servers": servers,
        "list": listed(rows, asked.query, columns=columns, default="-time", of=len(every)),
        "q": text,
        "user_chosen": user,
        "users": sorted({str(row.get("user", "")) for row in every} - {""}),
        "only": asked.query.get("only", ""),
        "file": str(asked.audit.path),
        "checked": await asyncio.to_thread(asked.audit.checked) if is_checked else None,
    }
    return View("audit.html", "Audit", data)


async def audit_file(asked: Asked) -> View:
    """Returns the audit log as a file."""
    whole = await asyncio.to_thread(asked.audit.whole)
    return View("", "", {"bytes": whole}, download=asked.audit.path.name)


async def help_page(asked: Asked) -> View:
    """Returns keys, roles, and the commands of each page."""
    roles = [
        (Role.READER.text, "looks at everything, messages too"),
        (Role.OPERATOR.text, "also sends, consumes again, resends dead letters, moves groups"),
        (Role.ADMIN.text, "also makes, changes and deletes topics, groups, settings, keys, users"),
    ]
    data = {"keys": KEYS, "commands": COMMANDS, "roles": roles, "own_role": asked.role.text}
    return View("help.html", "Help", data)
