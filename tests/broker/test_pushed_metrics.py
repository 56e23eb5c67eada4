"""Figures that a broker pushes (`metricsExporterType` OTLP_GRPC and LOG), at a real receiver."""

import asyncio
import json
import logging
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics.export import Sum

from live_broker import Live, live
from loops import run_on, until
from mqcore.broker.metric_families import COMMON, FAMILIES
from mqcore.errors import ConfigurationError
from mqcore.metrics.families import Buckets, Rows
from mqcore.metrics.otlp import Points, headers_of, target_of
from mqcore.metrics.text import SeriesBound, Snapshot
from mqcore.remoting import RequestCode
from otlp_receiver import Received, attributes, points, receiving

CUMULATIVE, DELTA = 2, 1
OWN = {"cluster": "c", "node_type": "broker", "node_id": "b"}


async def driven(client: Live) -> None:
    """Sends and pulls some messages."""
    await client.create("T")
    for number in range(3):
        assert (await client.send("T", b"x" * (number * 2_000))).code == 0
    await client.settled()
    assert (await client.pull("T", 0, group="g")).code == 0
    ext = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 1}
    assert (await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, ext)).code == 0


def pushing(received: Received, **more: str) -> dict[str, str]:
    """Returns the settings of a broker that pushes to a receiver."""
    return {
        "metricsExporterType": "OTLP_GRPC",
        "metricsGrpcExporterTarget": received.address,
        "metricsGrpcExporterHeader": "X-Tenant:seven,broken,authorization:Basic abc",
        "metricGrpcExporterIntervalInMills": "100",
        **more,
    }


def test_a_broker_pushes_its_figures(tmp_path: Path) -> None:
    async def run(received: Received) -> None:
        async with live(tmp_path, **pushing(received, metricsLabel="zone:a")) as client:
            await driven(client)
            # A request that was made before may still be under way.
            wanted = {"rocketmq_messages_out_total", "rocketmq_consumer_lag_latency"}
            await until(lambda: wanted <= set(received.metrics()) and in_since(received)[-1] == 3)

    with receiving() as received:
        run_on("uvloop", run(received))
        found = received.metrics()
    assert received.headers["x-tenant"] == "seven"
    assert received.headers["authorization"] == "Basic abc"
    scopes = [
        scope.scope.name
        for request in received.requests
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
    ]
    assert set(scopes) == {"broker-meter"}
    # The last request of a broker that ends has everything.
    sent = [
        each
        for each in points(found["rocketmq_messages_in_total"])
        if attributes(each)["topic"] == "T"
    ][-1]
    assert sent.as_int == 3
    assert attributes(sent) == {
        **OWN,
        "zone": "a",
        "topic": "T",
        "message_type": "normal",
        "is_system": False,
    }
    assert 0 < sent.start_time_unix_nano < sent.time_unix_nano
    metric = found["rocketmq_messages_in_total"][-1]
    assert metric.sum.is_monotonic
    assert metric.sum.aggregation_temporality == CUMULATIVE
    sizes = found["rocketmq_message_size"][-1].histogram
    assert sizes.aggregation_temporality == CUMULATIVE
    bounds = list(sizes.data_points[0].explicit_bounds)
    assert bounds == [1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20]
    assert list(sizes.data_points[0].bucket_counts) == [1, 1, 1, 0, 0, 0, 0]
    assert sizes.data_points[0].count == 3
    lag = found["rocketmq_consumer_lag_latency"][-1]
    assert (lag.WhichOneof("data"), lag.unit) == ("gauge", "milliseconds")
    assert set(attributes(points([lag])[0])) == {
        *OWN,
        "zone",
        *FAMILIES["rocketmq_consumer_lag_latency_milliseconds"].labels,
    }


def test_every_family_has_its_official_instrument() -> None:
    # As `BrokerMetricsConstant`, `DefaultStoreMetricsConstant` and the like of 5.3.3 declare them.
    units = {
        "rocketmq_topic_create_execution_time": "milliseconds",
        "rocketmq_consumer_group_create_execution_time": "milliseconds",
        "rocketmq_consumer_lag_latency": "milliseconds",
        "rocketmq_consumer_queueing_latency": "milliseconds",
        "rocketmq_finish_message_latency": "ms",
        "rocketmq_rpc_latency": "milliseconds",
        "rocketmq_storage_size": "bytes",
        "rocketmq_storage_flush_behind_bytes": "bytes",
        "rocketmq_storage_dispatch_behind_bytes": "bytes",
        "rocketmq_storage_message_reserve_time": "milliseconds",
        "rocketmq_timer_enqueue_latency": "milliseconds",
        "rocketmq_timer_dequeue_latency": "milliseconds",
        "rocketmq_delay_message_latency": "seconds",
        "rocketmq_pop_revive_lag": "milliseconds",
        "rocketmq_pop_revive_latency": "milliseconds",
    }
    found = dict(family.instrument for family in FAMILIES.values() if family.is_official)
    assert {name: unit for name, unit in found.items() if unit} == units
    assert len(found) == sum(family.is_official for family in FAMILIES.values())
    ours = [family for family in FAMILIES.values() if not family.is_official]
    assert all(family.instrument[0] == family.name for family in ours)


def reported(points_of: Points, rows: dict[str, Rows], now_ns: int, *, arrives: bool = True) -> int:
    """Pushes a counter; returns by how much it is reported to have grown."""
    snapshot = Snapshot(FAMILIES, OWN, rows)
    total = 0
    for sent in points_of.requests(snapshot, SeriesBound(100), now_ns, lambda: None):
        for metric in sent.data.resource_metrics[0].scope_metrics[0].metrics:
            if metric.name == "rocketmq_messages_in_total":
                assert isinstance(metric.data, Sum)
                total += sum(int(point.value) for point in metric.data.data_points)
        if arrives:
            points_of.arrived(sent, now_ns)
    return total


def test_differences_begin_where_the_last_one_arrived() -> None:
    made = Points("m", begun_ns=1, in_delta=True)
    labels = ("t", "normal", "false")

    def counter(number: int) -> dict[str, Rows]:
        return {
            "rocketmq_messages_in_total": {labels: number},
            "rocketmq_message_size": {labels: Buckets((number, 0, 0, 0, 0, 0, 0), 1.0)},
        }

    assert reported(made, counter(5), 10) == 5
    assert reported(made, counter(5), 20) == 0
    assert reported(made, counter(9), 30, arrives=False) == 4
    assert reported(made, counter(11), 40) == 6
    # One that begins anew is reported whole.
    assert reported(made, counter(2), 50) == 2


@pytest.mark.parametrize("in_delta", [False, True])
def test_a_broker_reports_what_came_since(in_delta: bool, tmp_path: Path) -> None:
    async def run(received: Received) -> None:
        keys = pushing(received, metricsInDelta=str(in_delta).lower())
        async with live(tmp_path, **keys) as client:
            await driven(client)
            await until(lambda: "rocketmq_messages_in_total" in received.metrics())
            received.forget()
            await until(lambda: "rocketmq_topic_number" in received.metrics())
            assert (await client.send("T", b"more")).code == 0
            await until(lambda: bool(in_since(received)))

    with receiving() as received:
        run_on("uvloop", run(received))
    metrics = received.metrics()["rocketmq_messages_in_total"]
    wanted = DELTA if in_delta else CUMULATIVE
    assert {each.sum.aggregation_temporality for each in metrics} == {wanted}
    shown = [attributes(each).get("aggregation") for each in points(metrics)]
    assert set(shown) == {"delta" if in_delta else None}
    numbers = in_since(received)
    assert sum(numbers) == 1 if in_delta else max(numbers) == 4


def in_since(received: Received) -> list[int]:
    """Returns what was reported of the messages of the topic."""
    found = points(received.metrics().get("rocketmq_messages_in_total", []))
    return [each.as_int for each in found if attributes(each)["topic"] == "T"]


def test_what_is_refused_is_pushed_the_next_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run(received: Received) -> None:
        received.refusals = 2
        async with live(tmp_path, **pushing(received)):
            await until(lambda: "rocketmq_topic_number" in received.metrics())

    with receiving() as received, caplog.at_level(logging.INFO, "mqcore.metrics"):
        run_on("uvloop", run(received))
    lines = [record.message for record in caplog.records if record.name == "mqcore.metrics"]
    assert lines == [
        "metricsGrpcExporterHeader: a part is no name:value, left out",
        "figures could not be pushed; it is tried again after each interval",
        "figures arrive again",
    ]


def test_a_receiver_that_is_not_there_holds_no_end_up(tmp_path: Path) -> None:
    async def run() -> float:
        keys = {
            "metricsExporterType": "OTLP_GRPC",
            "metricsGrpcExporterTarget": "http://127.0.0.1:1",
            "metricGrpcExporterIntervalInMills": "3600000",
        }
        loop = asyncio.get_running_loop()
        async with live(tmp_path, **keys) as client:
            await driven(client)
            began = loop.time()
        return loop.time() - began

    # A request takes three seconds at the most.
    assert run_on("uvloop", run()) < 20


def test_without_a_target_nothing_is_pushed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with live(tmp_path, metricsExporterType="OTLP_GRPC") as client:
            await driven(client)

    run_on("uvloop", run())
    assert "metricsExporterType=OTLP_GRPC without metricsGrpcExporterTarget" in caplog.text


def test_lines_are_json_of_the_protocol(tmp_path: Path) -> None:
    file = tmp_path / "lines" / "broker_metrics.log"

    async def run() -> None:
        keys = {
            "metricsExporterType": "LOG",
            "metricLoggingExporterIntervalInMills": "100",
            "mqcoreMetricsLinesFile": str(file),
        }
        async with live(tmp_path / "store", **keys) as client:
            await driven(client)
            await until(lambda: file.exists() and "rocketmq_messages_in_total" in file.read_text())

    run_on("uvloop", run())
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert set(lines[-1]) == {"resource", "scopeMetrics"}
    metrics = {
        metric["name"]: metric
        for line in lines
        for scope in line["scopeMetrics"]
        for metric in scope["metrics"]
    }
    counter = metrics["rocketmq_messages_in_total"]["sum"]
    assert counter["aggregationTemporality"] == CUMULATIVE
    assert counter["isMonotonic"] is True
    (point,) = counter["dataPoints"]
    assert point["asInt"] == "3"
    assert {"key": "is_system", "value": {"boolValue": False}} in point["attributes"]


def test_lines_without_a_file_go_to_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = {"metricsExporterType": "LOG", "metricLoggingExporterIntervalInMills": "100"}

    async def run() -> None:
        async with live(tmp_path, **keys):
            await until(lambda: "rocketmq_topic_number" in caplog.text)

    with caplog.at_level(logging.INFO, "mqcore.metrics.otlp"):
        run_on("uvloop", run())


@pytest.mark.parametrize("kind", ["OTLP_GRPC", "LOG"])
def test_without_opentelemetry_the_start_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc.metric_exporter", None)
    monkeypatch.delitem(sys.modules, "mqcore.metrics.otlp")

    async def run() -> None:
        keys = {"metricsExporterType": kind, "metricsGrpcExporterTarget": "http://127.0.0.1:1"}
        async with live(tmp_path, **keys):
            pass

    with pytest.raises(ConfigurationError, match=r"pip install 'mqcore\[otel\]'"):
        run_on("uvloop", run())


def test_many_series_go_in_requests_of_bounded_size() -> None:
    rows: dict[str, Rows] = {
        "rocketmq_messages_in_total": {(f"t{n}", "normal", "false"): n for n in range(1_200)}
    }
    rests: list[int] = []
    snapshot = Snapshot(FAMILIES, dict(zip(COMMON, "abc", strict=True)), rows)
    sizes = []
    made = Points("m", begun_ns=1)
    for sent in made.requests(snapshot, SeriesBound(1_000), 2, lambda: rests.append(1)):
        scope = sent.data.resource_metrics[0].scope_metrics[0]
        sizes.append(sum(len(metric.data.data_points) for metric in scope.metrics))
    # A thousand series, and how many were left out.
    assert sizes == [500, 500, 1]
    assert len(rests) == 2


def test_targets_and_headers_are_read_as_officially() -> None:
    assert target_of("collector:4317") == "https://collector:4317"
    assert target_of("http://collector:4317") == "http://collector:4317"
    assert headers_of("a:b,,Cd:e f,x,y:z:w") == (("a", "b"), ("cd", "e f"))
