"""The console itself: who changed what, who one is, how it is used."""

from typing import Final

from mqcore.console.users import Role
from mqcore.console.views import Asked, View

__all__ = ["audit", "help_page"]

# What a page is for, and the commands that show the same.
COMMANDS: Final = (
    ("Overview", "mqcore doctor --cluster", "mqadmin clusterList"),
    ("Brokers", "mqadmin brokerStatus -b ADDR", "mqadmin getBrokerConfig -b ADDR"),
    ("Topics", "mqcore topic list --long", "mqcore topic describe TOPIC"),
    ("Groups", "mqcore group list", "mqcore group describe GROUP --long"),
    ("Messages", "mqcore msg get ID --topic TOPIC", "mqcore msg query TOPIC KEY"),
    ("Live", "mqcore consume TOPIC", ""),
    ("Trace", "mqcore msg trace ID", ""),
    ("Dead letters", "mqcore dlq list GROUP", "mqcore dlq resend GROUP --dry-run"),
    ("Name servers", "mqadmin getNamesrvConfig", "mqadmin updateKvConfig"),
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
    """Returns the last changes."""
    text = asked.query.get("q", "").strip()
    rows = asked.audit.rows(text)
    return View("audit.html", "Audit", {"rows": rows, "q": text, "file": str(asked.audit.path)})


async def help_page(asked: Asked) -> View:
    """Returns keys, roles, and the commands of each page."""
    roles = [
        (Role.READER.text, "looks at everything, messages too"),
        (Role.OPERATOR.text, "also sends, consumes again, resends dead letters, moves groups"),
        (Role.ADMIN.text, "also makes, changes and deletes topics, groups, settings, keys"),
    ]
    data = {"keys": KEYS, "commands": COMMANDS, "roles": roles, "own_role": asked.role.text}
    return View("help.html", "Help", data)
