"""A receiver of OpenTelemetry's protocol, made of the library's own stubs: keeps what comes."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as stubs
from opentelemetry.proto.metrics.v1 import metrics_pb2 as shapes


@dataclass(slots=True)
class Received:
    """What has come.

    Attributes:
        address: Where it listens.
        requests: The requests, in order.
        headers: The headers of the last one.
        refusals: How many requests are to be refused next.
    """

    address: str
    requests: list[service.ExportMetricsServiceRequest] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    refusals: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def metrics(self) -> dict[str, list[shapes.Metric]]:
        """Returns the metrics of all requests, by name."""
        found: dict[str, list[shapes.Metric]] = {}
        with self.lock:
            for request in self.requests:
                for resource in request.resource_metrics:
                    assert not resource.resource.attributes
                    for scope in resource.scope_metrics:
                        for metric in scope.metrics:
                            found.setdefault(metric.name, []).append(metric)
        return found

    def forget(self) -> None:
        """Forgets what has come."""
        with self.lock:
            self.requests.clear()


class _Keeping(stubs.MetricsServiceServicer):
    def __init__(self, received: Received) -> None:
        self._received = received

    def Export(self, request: Any, context: Any) -> service.ExportMetricsServiceResponse:
        """Keeps a request."""
        with self._received.lock:
            if self._received.refusals:
                self._received.refusals -= 1
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "not now")
            self._received.requests.append(request)
            self._received.headers = dict(context.invocation_metadata())
        return service.ExportMetricsServiceResponse()


@contextmanager
def receiving() -> Iterator[Received]:
    """Runs a receiver on a free port."""
    server = grpc.server(ThreadPoolExecutor(2))
    port = server.add_insecure_port("127.0.0.1:0")
    received = Received(f"http://127.0.0.1:{port}")
    stubs.add_MetricsServiceServicer_to_server(_Keeping(received), server)  # type: ignore[no-untyped-call]
    server.start()
    try:
        yield received
    finally:
        server.stop(None).wait()


def points(metrics: list[shapes.Metric]) -> list[Any]:
    """Returns the data points of metrics, whatever they are."""
    found: list[Any] = []
    for metric in metrics:
        found += getattr(metric, str(metric.WhichOneof("data"))).data_points
    return found


def attributes(point: Any) -> dict[str, Any]:
    """Returns the attributes of a data point."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in point.attributes
    }
