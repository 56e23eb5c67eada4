"""Figures of the audit that broker, name server and controller show. Knows no server."""

from typing import Final

from mqcore.audit import AuditFigures
from mqcore.metrics.families import Family, Kind, Rows

__all__ = ["AUDIT_FAMILIES", "audit_rows"]

_MS_PER_S: Final = 1_000
_ONLY: Final = "there is an audit (`mqcoreAuditEnable`)"

AUDIT_FAMILIES: Final = (
    Family(
        "mqcore_audit_lines_total",
        Kind.COUNTER,
        ("event",),
        "Lines that were written: changes, refusals of access control, changes that are asked for",
        only=_ONLY,
    ),
    Family("mqcore_audit_bytes_total", Kind.COUNTER, (), "Bytes that were written", only=_ONLY),
    Family(
        "mqcore_audit_lines_missed_total",
        Kind.COUNTER,
        (),
        "Lines that could not be written; the log of the program has them",
        only=_ONLY,
    ),
    Family(
        "mqcore_audit_changes_refused_total",
        Kind.COUNTER,
        (),
        "Changes that were refused because they could have no line (`mqcoreAuditOnFailure=refuse`)",
        only=_ONLY,
    ),
    Family(
        "mqcore_audit_failing", Kind.GAUGE, (), "The last line could not be written (1)", only=_ONLY
    ),
    Family(
        "mqcore_audit_last_failure_seconds",
        Kind.GAUGE,
        (),
        "When a line could not be written last, Unix time; 0: never since the start",
        "seconds",
        only=_ONLY,
    ),
)


def audit_rows(figures: AuditFigures | None) -> dict[str, Rows]:
    """Returns the rows of these families; none without an audit."""
    if figures is None:
        return {}
    return {
        "mqcore_audit_lines_total": {(event,): number for event, number in figures.lines.items()},
        "mqcore_audit_bytes_total": {(): figures.bytes},
        "mqcore_audit_lines_missed_total": {(): figures.missed},
        "mqcore_audit_changes_refused_total": {(): figures.changes_refused},
        "mqcore_audit_failing": {(): int(figures.is_failing)},
        "mqcore_audit_last_failure_seconds": {(): figures.failed_ms / _MS_PER_S},
    }
