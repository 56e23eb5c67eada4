"""The table of pages and changes: the only list of them. A path that is not here does not exist."""

from typing import Final

from mqcore.console.pages import (
    access,
    access_changes,
    broker_changes,
    brokers,
    clients,
    dead_letters,
    group_changes,
    groups,
    later,
    messages,
    name_servers,
    overview,
    own,
    topic_changes,
    topics,
    trace,
)
from mqcore.console.users import Role
from mqcore.console.views import Change, Page

__all__ = ["CHANGES", "MENU", "PAGES"]

# Longer paths first: names may have slashes.
PAGES: Final = (
    Page("/", overview.overview),
    Page("/brokers", brokers.brokers),
    Page("/brokers/{name}/{number}", brokers.broker),
    Page("/topics", topics.topics),
    Page("/topics/{topic:path}/live", topics.live),
    Page("/topics/{topic:path}", topics.topic),
    Page("/groups", groups.groups),
    Page("/groups/{group:path}/member", groups.member),
    Page("/groups/{group:path}", groups.group),
    Page("/messages", messages.messages),
    Page("/messages/{id}/body", messages.body),
    Page("/messages/{id}", messages.message),
    Page("/trace", trace.trace),
    Page("/dead-letters", dead_letters.dead_letters),
    Page("/dead-letters/{group:path}/export", dead_letters.export),
    Page("/dead-letters/{group:path}", dead_letters.of_group),
    Page("/later", later.later),
    Page("/clients", clients.clients),
    Page("/namesrv", name_servers.name_servers),
    Page("/access", access.access),
    Page("/access/{user:path}", access.user),
    Page("/audit/file", own.audit_file, Role.ADMIN),
    Page("/audit", own.audit, Role.ADMIN),
    Page("/help", own.help_page),
)
CHANGES: Final[tuple[Change, ...]] = (
    *broker_changes.CHANGES,
    *topic_changes.CHANGES,
    *group_changes.CHANGES,
    *messages.CHANGES,
    *dead_letters.CHANGES,
    *later.CHANGES,
    *name_servers.CHANGES,
    *access_changes.CHANGES,
)
# Path and text; what is not built is not here.
MENU: Final[tuple[tuple[str, str], ...]] = (
    ("/", "Overview"),
    ("/brokers", "Brokers"),
    ("/topics", "Topics"),
    ("/groups", "Groups"),
    ("/messages", "Messages"),
    ("/trace", "Trace"),
    ("/dead-letters", "Dead letters"),
    ("/later", "Later"),
    ("/clients", "Clients"),
    ("/namesrv", "Name servers"),
    ("/access", "Access"),
    ("/audit", "Audit"),
    ("/help", "Help"),
)
