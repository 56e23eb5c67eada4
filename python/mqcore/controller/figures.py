"""What a controller shows at `/metrics` and pushes: the figures of the official one, and ours.

Names, types, labels and units are those of `ControllerMetricsManager` (5.3.3), which has no prefix;
`dledger_op_*` is not there: nothing of DLedger is. Rows are gathered in a thread.
"""

import inspect
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from mqcore.clock import monotonic_s
from mqcore.config import ControllerSettings
from mqcore.errors import RefusedError
from mqcore.metrics.audit_figures import AUDIT_FAMILIES
from mqcore.metrics.certificate_renewals import Protections
from mqcore.metrics.families import Buckets, Family, Kind, Rows
from mqcore.metrics.program import PROGRAM_FAMILIES, program_rows
from mqcore.metrics.text import Snapshot, common_labels
from mqcore.native import ControllerStanding
from mqcore.remoting import CODES, Answer, Handler, Request, RequestCode, ResponseCode

__all__ = ["FAMILIES", "METER", "SERIES_MAX", "Figures", "snapshot"]

# The name of the meter, for OpenTelemetry.
METER: Final = "controller"
# As many as a controller keeps names of brokers.
SERIES_MAX: Final = 50_000
_US_PER_S: Final = 1_000_000
_MS_US, _S_US = 1_000, 1_000_000
_LATENCY_BOUNDS_US: Final = (
    *(1, 3, 5, 10, 30, 50, 100, 300, 500),
    *(number * _MS_US for number in (1, 3, 5, 10, 30, 50, 100, 300, 500)),
    *(number * _S_US for number in (1, 3, 5, 10)),
)
# `MemberState.Role`: a controller of ours that knows of no leader looks for one.
_CANDIDATE, _FOLLOWER, _LEADER = 1, 2, 3
# Names of the official requests that differ from their prefix and our name (`RequestType`).
_NAMES: Final[Mapping[int, str]] = {
    RequestCode.BROKER_HEARTBEAT: "CONTROLLER_BROKER_HEARTBEAT",
    RequestCode.UPDATE_CONTROLLER_CONFIG: "CONTROLLER_UPDATE_CONTROLLER_CONFIG",
    RequestCode.GET_CONTROLLER_CONFIG: "CONTROLLER_GET_CONTROLLER_CONFIG",
    RequestCode.CLEAN_BROKER_DATA: "CONTROLLER_CLEAN_BROKER_DATA",
}
_RESULTS: Final = {
    ResponseCode.SUCCESS: "new_master_elected",
    ResponseCode.CONTROLLER_MASTER_STILL_EXIST: "keep_current_master",
    ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE: "no_master_elected",
    ResponseCode.CONTROLLER_ELECT_MASTER_FAILED: "no_master_elected",
}
_LATENCY: Final = "request_latency_microseconds"

_ROWS: Final = (
    Family(
        "role",
        Kind.GAUGE,
        (),
        "3 leads, 2 follows, 1 knows of no leader",
        is_up_down=True,
    ),
    Family("dledger_disk_usage_bytes", Kind.GAUGE, (), "Bytes of the log's files", "bytes"),
    Family("active_broker_num", Kind.GAUGE, ("cluster", "broker_set"), "Living brokers of a name"),
    Family(
        "request_total",
        Kind.COUNTER,
        ("request_type", "request_handle_status"),
        "Requests, by whether they were answered; refusals are answers",
    ),
    Family(
        "election_total",
        Kind.COUNTER,
        ("cluster", "broker_set", "election_result"),
        "Elections that were asked for, by their result",
    ),
    Family(
        _LATENCY,
        Kind.HISTOGRAM,
        ("request_type",),
        "From a request to its answer",
        "microseconds",
        _LATENCY_BOUNDS_US,
        pushed=("request_latency", "us"),
    ),
    *AUDIT_FAMILIES,
    *PROGRAM_FAMILIES,
)
FAMILIES: Final = MappingProxyType({row.name: row for row in _ROWS})


class _Latency:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_LATENCY_BOUNDS_US) + 1)
        self.total = 0.0

    def note(self, took_us: float) -> None:
        self.counts[bisect_left(_LATENCY_BOUNDS_US, took_us)] += 1
        self.total += took_us


class Figures:
    """Counts what a controller is asked."""

    def __init__(self) -> None:
        """Begins without any."""
        self._requests: Counter[tuple[str, ...]] = Counter()
        self._elections: Counter[tuple[str, ...]] = Counter()
        self._latencies: dict[tuple[str, ...], _Latency] = {}

    def counting(self, handler: Handler) -> Handler:
        """Returns a handler whose requests are counted and timed."""

        async def awaited(request: Request, work: Awaitable[Answer], began_s: float) -> Answer:
            try:
                answer = await work
            except Exception as error:
                self._ended(request, began_s, error)
                raise
            self._ended(request, began_s, None)
            return answer

        def serve(request: Request) -> Answer | Awaitable[Answer]:
            began_s = monotonic_s()
            try:
                outcome = handler(request)
            except Exception as error:
                self._ended(request, began_s, error)
                raise
            if inspect.isawaitable(outcome):
                return awaited(request, outcome, began_s)
            self._ended(request, began_s, None)
            return outcome

        return serve

    def _ended(self, request: Request, began_s: float, error: Exception | None) -> None:
        """Counts a request; what is refused in words is answered, as officially."""
        name = _NAMES.get(request.code) or CODES[request.code].name
        if error is None or isinstance(error, RefusedError):
            self._requests[name, "success"] += 1
            latency = self._latencies.setdefault((name,), _Latency())
            latency.note((monotonic_s() - began_s) * _US_PER_S)
        else:
            status = "timeout" if isinstance(error, TimeoutError) else "failed"
            self._requests[name, status] += 1

    def elected(self, cluster: str, name: str, code: int) -> None:
        """Counts an election by the code of its answer."""
        result = _RESULTS.get(ResponseCode(code))
        labels = (cluster, name, result or "")
        if result and (labels in self._elections or len(self._elections) < SERIES_MAX):
            self._elections[labels] += 1

    def rows(
        self, living: Counter[tuple[str, ...]], standing: ControllerStanding
    ) -> dict[str, Rows]:
        """Returns what is counted, on the loop.

        Args:
            living: Living brokers by cluster and name.
            standing: The controller's state among its peers.
        """
        role = _CANDIDATE if standing.leader is None else _FOLLOWER
        return {
            "role": {(): _LEADER if standing.is_leader else role},
            "active_broker_num": dict(living),
            "request_total": dict(self._requests),
            "election_total": dict(self._elections),
            _LATENCY: {
                name: Buckets(tuple(each.counts), each.total)
                for name, each in self._latencies.items()
            },
        }


def snapshot(
    settings: ControllerSettings,
    counted: dict[str, Rows],
    address: str,
    self_id: str,
    started_ms: int,
    protections: Protections,
) -> Snapshot:
    """Returns a controller at this moment; looks at files.

    Args:
        settings: Its settings.
        counted: What it counts.
        address: Where the others reach it.
        self_id: Its id.
        started_ms: When it began, Unix milliseconds.
        protections: What protects its connections, by their kind.
    """
    own = {"address": address, "group": settings.group, "peer_id": self_id}
    common = common_labels(own, settings.metrics_labels, in_delta=settings.metrics_in_delta)
    used = sum(
        _len_bytes(Path(folder) / name)
        for folder, _, names in os.walk(settings.store_dir)
        for name in names
    )
    rows: dict[str, Rows] = {
        **counted,
        "dledger_disk_usage_bytes": {(): used},
        **program_rows(settings.listener, started_ms, protections),
    }
    return Snapshot(FAMILIES, common, rows)


def _len_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        # Replaced meanwhile.
        return 0
