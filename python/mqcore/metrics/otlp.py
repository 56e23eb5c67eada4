"""Figures as data points of OpenTelemetry, and where they go: by gRPC, or as lines of JSON.

Instruments have the names, units, types and attributes that RocketMQ's exporter of the same
setting has (`BrokerMetricsManager`, `ControllerMetricsManager`). The only module that imports
OpenTelemetry's SDK and exporter: without the extra `mqcore[otel]` its import is an error that names
it. Blocks: for a thread. Knows no program and no timetable.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Protocol, TypeAlias

from mqcore.errors import UsageError
from mqcore.metrics.families import Buckets, Family, Kind, Rows, Value
from mqcore.metrics.text import SeriesBound, Snapshot, bounded_rows, read_back

try:
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        Gauge,
        Histogram,
        HistogramDataPoint,
        Metric,
        MetricExportResult,
        MetricsData,
        NumberDataPoint,
        ResourceMetrics,
        ScopeMetrics,
        Sum,
    )
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
except ImportError as error:
    raise UsageError(
        "metricsExporterType=OTLP_GRPC and LOG need OpenTelemetry: pip install 'mqcore[otel]',"
        " or metricsExporterType=PROM"
    ) from error

__all__ = ["Collector", "JsonLines", "Points", "Receiver", "Sent", "headers_of", "target_of"]

_log = logging.getLogger("mqcore.metrics")

# Data points of one request: some 300 KB, far below the 4 MiB that receivers of gRPC take, and a
# few milliseconds of the interpreter.
_POINTS_MAX: Final = 500
_MS_PER_S: Final = 1_000
# Attributes that are no text.
_FLAGS: Final = frozenset({"is_system", "is_retry", "is_long_polling"})
_NUMBERS: Final = frozenset({"queue_id"})
_TRUTHS: Final = {"true": True, "false": False}

_Key: TypeAlias = tuple[str, tuple[str, ...]]
_Attributes: TypeAlias = dict[str, str | bool | int]


class Receiver(Protocol):
    """Where data points go."""

    def take(self, data: MetricsData) -> bool:
        """Takes data points; returns whether they have arrived."""

    def close(self) -> None:
        """Ends it; what is under way fails soon."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One request.

    Attributes:
        data: Its data points.
        noted: What counters stand at with it, for the next difference.
    """

    data: MetricsData
    noted: dict[_Key, Value] = field(default_factory=dict)


class Points:
    """Makes data points of snapshots; knows what counters stood at when they last arrived."""

    def __init__(self, meter: str, *, begun_ns: int, in_delta: bool = False) -> None:
        """Prepares.

        Args:
            meter: The name of the meter.
            begun_ns: Since when counters count, Unix nanoseconds.
            in_delta: Whether counters and histograms are reported by what came since the last time
                that arrived.
        """
        self._scope = InstrumentationScope(meter)
        self._resource = Resource({})
        self._begun_ns = begun_ns
        self._in_delta = in_delta
        self._arrived: dict[_Key, tuple[int, Value]] = {}

    def requests(
        self, snapshot: Snapshot, bound: SeriesBound, now_ns: int, pause: Callable[[], None]
    ) -> Iterator[Sent]:
        """Yields the data points of a snapshot in requests of bounded size.

        Args:
            snapshot: The figures.
            bound: How many series there may be.
            now_ns: When they were gathered, Unix nanoseconds.
            pause: Called again and again, so that other threads may run.
        """
        common = snapshot.common
        there: set[_Key] = set()
        points: dict[str, list[NumberDataPoint | HistogramDataPoint]] = {}
        noted: dict[_Key, Value] = {}
        count = 0
        for family, labels, value in _samples(snapshot, bound):
            key = (family.name, labels)
            there.add(key)
            point = self._point(key, family, value, common, now_ns)
            if point is None:
                continue
            points.setdefault(family.name, []).append(point)
            if self._in_delta and family.kind is not Kind.GAUGE:
                noted[key] = value
            count += 1
            if count >= _POINTS_MAX:
                yield Sent(self._data(points, snapshot.families), noted)
                points, noted, count = {}, {}, 0
                pause()
        if points:
            yield Sent(self._data(points, snapshot.families), noted)
        self._arrived = {key: kept for key, kept in self._arrived.items() if key in there}

    def arrived(self, sent: Sent, now_ns: int) -> None:
        """Notes that a request has arrived: differences begin there."""
        self._arrived.update({key: (now_ns, value) for key, value in sent.noted.items()})

    def _point(
        self, key: _Key, family: Family, value: Value, common: Mapping[str, str], now_ns: int
    ) -> NumberDataPoint | HistogramDataPoint | None:
        """Returns a data point; None for a difference of nothing."""
        begun_ns = self._begun_ns
        if self._in_delta and family.kind is not Kind.GAUGE:
            begun_ns, before = self._arrived.get(key, (begun_ns, None))
            value = value if before is None else _difference(value, before)
            if not (sum(value.counts) if isinstance(value, Buckets) else value):
                return None
        attributes = {**common, **_attributes(family, key[1])}
        if not isinstance(value, Buckets):
            return NumberDataPoint(attributes, begun_ns, now_ns, value)
        return HistogramDataPoint(
            attributes=attributes,
            start_time_unix_nano=begun_ns,
            time_unix_nano=now_ns,
            count=sum(value.counts),
            sum=value.total,
            bucket_counts=value.counts,
            explicit_bounds=family.bounds,
            # Optional in the protocol, and not counted here.
            min=None,  # type: ignore[arg-type]
            max=None,  # type: ignore[arg-type]
        )

    def _data(
        self,
        points: Mapping[str, list[NumberDataPoint | HistogramDataPoint]],
        families: Mapping[str, Family],
    ) -> MetricsData:
        metrics = [self._metric(families[name], found) for name, found in points.items()]
        scope = ScopeMetrics(self._scope, metrics, schema_url="")
        return MetricsData([ResourceMetrics(self._resource, [scope], schema_url="")])

    def _metric(self, family: Family, points: list[NumberDataPoint | HistogramDataPoint]) -> Metric:
        whole = AggregationTemporality.CUMULATIVE
        since = AggregationTemporality.DELTA if self._in_delta else whole
        data: Sum | Gauge | Histogram
        numbers = [each for each in points if isinstance(each, NumberDataPoint)]
        if family.kind is Kind.HISTOGRAM:
            shapes = [each for each in points if isinstance(each, HistogramDataPoint)]
            data = Histogram(shapes, since)
        elif family.kind is Kind.COUNTER:
            data = Sum(numbers, since, is_monotonic=True)
        elif family.is_up_down:
            data = Sum(numbers, whole, is_monotonic=False)
        else:
            data = Gauge(numbers)
        name, unit = family.instrument
        return Metric(name, family.words, unit, data)


def _samples(
    snapshot: Snapshot, bound: SeriesBound
) -> Iterator[tuple[Family, tuple[str, ...], Value]]:
    def flat(family: Family, rows: Rows) -> Iterator[tuple[Family, tuple[str, ...], Value]]:
        return ((family, labels, value) for labels, value in rows.items())

    own = (flat(family, rows) for family, rows in bounded_rows(snapshot, bound))
    return chain(chain.from_iterable(own), read_back(snapshot))


def _attributes(family: Family, labels: tuple[str, ...]) -> _Attributes:
    found: _Attributes = {}
    for name, text in zip(family.labels, labels, strict=True):
        if name in _FLAGS:
            found[name] = _TRUTHS.get(text, text)
        elif name in _NUMBERS and text.isdecimal():
            found[name] = int(text)
        else:
            found[name] = text
    return found


def _difference(value: Value, before: Value) -> Value:
    """Returns what came since; a counter that has fallen began anew."""
    if isinstance(value, Buckets) and isinstance(before, Buckets):
        counts = [now - then for now, then in zip(value.counts, before.counts, strict=True)]
        return Buckets(counts, value.total - before.total) if min(counts) >= 0 else value
    if isinstance(value, Buckets) or isinstance(before, Buckets):
        return value
    return value - before if value >= before else value


def target_of(text: str) -> str:
    """Returns the address of a receiver: without a scheme it is asked over TLS, as officially."""
    return text if text.startswith("http") else f"https://{text}"


def headers_of(text: str) -> tuple[tuple[str, str], ...]:
    """Returns the headers of `metricsGrpcExporterHeader`: `name:value` joined by commas.

    gRPC knows names in small letters alone. A part that is no pair is left out.
    """
    found = []
    for part in filter(None, text.split(",")):
        name, separator, value = part.partition(":")
        if separator and ":" not in value:
            found.append((name.strip().lower(), value))
        else:
            _log.warning("metricsGrpcExporterHeader: a part is no name:value, left out")
    return tuple(found)


class Collector:
    """A receiver of the protocol, by gRPC."""

    def __init__(self, target: str, headers: str, *, timeout_ms: int) -> None:
        """Prepares; nothing is dialled yet.

        Args:
            target: `metricsGrpcExporterTarget`.
            headers: `metricsGrpcExporterHeader`.
            timeout_ms: How long a request may take, with its repeats.
        """
        self._exporter = OTLPMetricExporter(
            endpoint=target_of(target), headers=headers_of(headers), timeout=timeout_ms / _MS_PER_S
        )

    def take(self, data: MetricsData) -> bool:
        """Sends data points; returns whether they have arrived."""
        return self._exporter.export(data) is MetricExportResult.SUCCESS

    def close(self) -> None:
        """Ends it; what is under way fails soon."""
        self._exporter.shutdown()


class JsonLines:
    """Lines of JSON, one for each request, as `OtlpJsonLoggingMetricExporter` writes them."""

    def __init__(self, write: Callable[[str], None], close: Callable[[], None]) -> None:
        """Takes what writes a line, and what ends that."""
        self._write = write
        self._close = close

    def take(self, data: MetricsData) -> bool:
        """Writes data points."""
        for each in encode_metrics(data).resource_metrics:
            tree = MessageToDict(each, use_integers_for_enums=True)
            self._write(json.dumps(tree, ensure_ascii=False, separators=(",", ":")))
        return True

    def close(self) -> None:
        """Ends writing."""
        self._close()
