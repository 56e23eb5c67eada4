"""The audit of a server: who changed what and who was refused, as lines that follow one another.

Broker, name server and controller have one each. Knows no server and no setting but its own.
"""

from mqcore.audit.files import AuditReader, Page
from mqcore.audit.lines import Checked, Ending, Secret, Wanted
from mqcore.audit.looks import settings_named, settings_now
from mqcore.audit.recording import AuditLooks, Look, Resources, recorded
from mqcore.audit.requests import ROWS_MAX, AuditRequests, audit
from mqcore.audit.trail import LOGGER, AuditFigures, AuditSettings, AuditTrail

__all__ = [
    "LOGGER",
    "ROWS_MAX",
    "AuditFigures",
    "AuditLooks",
    "AuditReader",
    "AuditRequests",
    "AuditSettings",
    "AuditTrail",
    "Checked",
    "Ending",
    "Look",
    "Page",
    "Resources",
    "Secret",
    "Wanted",
    "audit",
    "recorded",
    "settings_named",
    "settings_now",
]
