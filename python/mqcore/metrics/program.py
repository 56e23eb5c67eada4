"""Figures that every long-running program shows: its version, its process, its certificates.

Asks the kernel and reads files: for a thread.
"""

import os
from pathlib import Path
from typing import Final

from mqcore.config import ListenerSettings
from mqcore.metrics.certificate_ends import certificate_ends
from mqcore.metrics.certificate_renewals import Protections, file_renewals
from mqcore.metrics.families import Family, Kind, Rows
from mqcore.version import __version__

__all__ = ["PROGRAM_FAMILIES", "program_rows"]

_MS_PER_S: Final = 1_000
_PROC: Final = Path("/proc/self")

PROGRAM_FAMILIES: Final = (
    Family("mqcore_build_info", Kind.GAUGE, ("version",), "1; the version is a label"),
    Family("mqcore_process_resident_bytes", Kind.GAUGE, (), "Memory of the process", "bytes"),
    Family("mqcore_process_cpu_seconds_total", Kind.COUNTER, (), "Processor time", "seconds"),
    Family("mqcore_process_open_files", Kind.GAUGE, (), "Open file descriptors"),
    Family("mqcore_process_files_limit", Kind.GAUGE, (), "How many may be open"),
    Family("mqcore_process_start_seconds", Kind.GAUGE, (), "Its start, Unix time", "seconds"),
    Family(
        "mqcore_tls_certificate_not_after_seconds",
        Kind.GAUGE,
        ("kind",),
        "When the certificate of a file ends, Unix time; of several the first",
        "seconds",
        only="there are files of certificates",
    ),
    Family(
        "mqcore_tls_files_taken_total",
        Kind.COUNTER,
        ("kind",),
        "How often renewed files of certificates were taken, while it ran",
        only="TLS is spoken",
    ),
    Family(
        "mqcore_tls_files_refused",
        Kind.GAUGE,
        ("kind",),
        "Changed files of certificates cannot be used, and former ones are (1)",
        only="TLS is spoken",
    ),
)


def program_rows(
    listener: ListenerSettings, started_ms: int, protections: Protections
) -> dict[str, Rows]:
    """Returns the rows of these families; those that the kernel does not report are left out.

    Args:
        listener: Whose files of certificates are looked at.
        started_ms: When the program began, Unix milliseconds.
        protections: What protects its connections, by their kind.
    """
    renewals = file_renewals(protections)
    times = os.times()
    ends = certificate_ends(listener)
    rows: dict[str, Rows] = {
        "mqcore_build_info": {(__version__,): 1},
        "mqcore_process_cpu_seconds_total": {(): times.user + times.system},
        "mqcore_process_start_seconds": {(): started_ms / _MS_PER_S},
        "mqcore_tls_certificate_not_after_seconds": {(kind,): end for kind, end in ends.items()},
        "mqcore_tls_files_taken_total": {(k,): each.taken for k, each in renewals.items()},
        "mqcore_tls_files_refused": {(k,): int(each.is_behind) for k, each in renewals.items()},
    }
    try:
        pages = int((_PROC / "statm").read_text(encoding="ascii").split()[1])
        rows["mqcore_process_resident_bytes"] = {(): pages * os.sysconf("SC_PAGE_SIZE")}
        rows["mqcore_process_open_files"] = {(): len(os.listdir(_PROC / "fd"))}  # noqa: PTH208
        limits = (_PROC / "limits").read_text(encoding="ascii").splitlines()
        files = next(line for line in limits if line.startswith("Max open files"))
        rows["mqcore_process_files_limit"] = {(): int(files.split()[3])}
    except (OSError, ValueError, IndexError, StopIteration):
        pass
    return rows
