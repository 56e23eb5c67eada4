"""What a broker pushes to OpenTelemetry is what the official one pushes: names, kinds, units.

Both get the same load. What is different is in a list, with its reason, in `test_metrics`.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as shapes

from interop.measured import SETTINGS, driven
from interop.official import NEWEST
from interop.patience import eventually
from interop.servers import OURS, Software, official_software, serving
from interop.test_metrics import NOT_OURS
from otlp_receiver import attributes, points, receiving

pytestmark = pytest.mark.java
matrix = pytest.mark.matrix

# Dead letters come last, after two tries, or the timed message that is due in two seconds.
LAST = {"rocketmq_send_to_dlq_messages_total", "rocketmq_timer_dequeue_total"}
SUFFIXES = ("_milliseconds", "_seconds", "_bytes")


@dataclass(frozen=True, slots=True)
class Seen:
    """A metric as a receiver has it.

    Attributes:
        kind: `gauge`, `sum` or `histogram`.
        unit: Its unit.
        temporality: Of sums and histograms.
        is_monotonic: Of sums.
        numbers: Whether its numbers are whole.
        labels: The names of attributes, each with the type of its values: of every shape that a
            point has. The official pop gives its messages one attribute more than the pull.
    """

    kind: str
    unit: str
    temporality: int
    is_monotonic: bool
    numbers: str
    labels: frozenset[frozenset[tuple[str, str]]]


def seen(metric: shapes.Metric) -> Seen:
    kind = str(metric.WhichOneof("data"))
    data = getattr(metric, kind)
    found = points([metric])
    labels = {
        frozenset((name, type(value).__name__) for name, value in attributes(each).items())
        for each in found
    }
    return Seen(
        kind,
        metric.unit,
        0 if kind == "gauge" else data.aggregation_temporality,
        kind == "sum" and data.is_monotonic,
        "" if kind == "histogram" else found[0].WhichOneof("value"),
        frozenset(labels),
    )


def pushed(software: Software, root: Path, **more: str) -> dict[str, Seen]:
    """Returns what a broker under load pushes."""
    with receiving() as received:
        config = {
            **SETTINGS,
            "metricsExporterType": "OTLP_GRPC",
            "metricsGrpcExporterTarget": received.address,
            "metricGrpcExporterIntervalInMills": "1000",
            **more,
        }
        with serving(software, root, config) as servers, driven(servers):
            eventually(received.metrics, lambda found: set(found) >= LAST)
            found = received.metrics()
    official = {name: each for name, each in found.items() if not name.startswith("mqcore_")}
    return {name: seen(each[-1]) for name, each in official.items() if points(each[-1:])}


@pytest.mark.parametrize("in_delta", [False, pytest.param(True, marks=matrix)])
@pytest.mark.parametrize(
    "version", [pytest.param("5.3.3", marks=matrix), pytest.param(NEWEST, id="newest")]
)
def test_every_official_instrument_is_ours(version: str, in_delta: bool, tmp_path: Path) -> None:
    more = {"metricsInDelta": str(in_delta).lower()}
    official = pushed(official_software(version), tmp_path / "official", **more)
    ours = pushed(OURS, tmp_path / "ours", **more)
    assert len(official) > 30
    not_ours = set(NOT_OURS)
    for name in NOT_OURS:
        not_ours |= {name.removesuffix(suffix) for suffix in SUFFIXES}
    assert set(official) - set(ours) - not_ours == set()
    different = {
        name: (each, ours[name])
        for name, each in official.items()
        if name in ours
        and (
            replace(ours[name], labels=each.labels) != each or not ours[name].labels <= each.labels
        )
    }
    assert different == {}
