"""What a name server shows at `/metrics`: officially it has no figures. Knows no socket."""

import asyncio
from types import MappingProxyType
from typing import Final

from mqcore.audit import AuditFigures
from mqcore.metrics.audit_figures import AUDIT_FAMILIES, audit_rows
from mqcore.metrics.certificate_renewals import Protections
from mqcore.metrics.families import Family, Kind, Rows
from mqcore.metrics.program import PROGRAM_FAMILIES, program_rows
from mqcore.metrics.text import Snapshot
from mqcore.namesrv.requests import Requests

__all__ = ["FAMILIES", "SERIES_MAX", "snapshot"]

# No family has more than some series.
SERIES_MAX: Final = 1_000
_ROWS: Final = (
    Family("mqcore_namesrv_topics", Kind.GAUGE, (), "Topics that some broker has"),
    Family("mqcore_namesrv_brokers", Kind.GAUGE, (), "Addresses of brokers that are registered"),
    *AUDIT_FAMILIES,
    *PROGRAM_FAMILIES,
)
FAMILIES: Final = MappingProxyType({row.name: row for row in _ROWS})


async def snapshot(
    requests: Requests, started_ms: int, protections: Protections, audited: AuditFigures | None
) -> Snapshot:
    """Returns a name server at this moment.

    Args:
        requests: Its handlers, with the tables.
        started_ms: When it began, Unix milliseconds.
        protections: What protects its connections, by their kind.
        audited: What its audit has counted; None without one.
    """
    listener = requests.settings.listener
    own = await asyncio.to_thread(program_rows, listener, started_ms, protections)
    counted: dict[str, Rows] = {
        "mqcore_namesrv_topics": {(): len(requests.table.topics)},
        "mqcore_namesrv_brokers": {(): len(requests.table.live)},
        **audit_rows(audited),
    }
    return Snapshot(FAMILIES, {"node_type": "namesrv"}, {**counted, **own})
