"""The figures of a controller, as Prometheus and a receiver of OpenTelemetry get them."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from controller.asking import CLUSTER, NAME, Asked, settings_of
from loops import run_on, until
from mqcore.controller import Controller
from mqcore.controller.figures import FAMILIES
from otlp_receiver import Received, attributes, points, receiving
from page_reading import page_text
from tls_papers import Papers

OWN = {"address", "group", "peer_id"}


def test_a_controller_shows_the_official_figures(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    asked.apply_id(1)
    asked.register(1)
    asked.heartbeat(1)
    asked.ask(1002, {"brokerName": NAME, "brokerId": 1, "clusterName": CLUSTER})
    asked.ask(1002, {"brokerName": NAME, "brokerId": 1, "clusterName": CLUSTER})
    figures = asked.requests.figures
    rows = figures.rows(asked.requests.liveness.living(asked.now_ms), asked.node.standing())
    assert rows["role"] == {(): 3}
    assert rows["active_broker_num"] == {(CLUSTER, NAME): 1}
    elected = dict(rows["election_total"])
    assert elected == {
        (CLUSTER, NAME, "new_master_elected"): 1,
        (CLUSTER, NAME, "keep_current_master"): 1,
    }
    requests = dict(rows["request_total"])
    assert requests == {
        ("CONTROLLER_APPLY_BROKER_ID", "success"): 1,
        ("CONTROLLER_REGISTER_BROKER", "success"): 1,
        ("CONTROLLER_BROKER_HEARTBEAT", "success"): 1,
        ("CONTROLLER_ELECT_MASTER", "success"): 2,
    }
    latencies = rows["request_latency_microseconds"]
    assert set(latencies) == {(name,) for name, _ in requests}


def test_a_controller_serves_them(tmp_path: Path) -> None:
    keys = {"metricsExporterType": "PROM", "metricsPromExporterPort": "0", "metricsLabel": "zone:a"}

    async def run() -> str:
        controller = Controller(settings_of(tmp_path, **keys))
        await controller.start()
        try:
            return await page_text(controller.ports["metrics"], "/metrics")
        finally:
            await controller.stop()

    found = {each.name: each for each in text_string_to_metric_families(run_on("uvloop", run()))}
    (role,) = found["role"].samples
    assert role.value == 3
    assert set(role.labels) == {*OWN, "zone"}
    assert found["dledger_disk_usage_bytes"].samples[0].value > 0
    assert found["mqcore_process_resident_bytes"].samples[0].value > 0


def test_the_end_of_its_certificate_is_at_the_port_of_health(tmp_path: Path) -> None:
    papers = Papers(tmp_path / "papers")
    keys = {"mqcoreHealthAddress": "127.0.0.1:0", **papers.keys("k")}

    async def run() -> str:
        controller = Controller(settings_of(tmp_path, **keys))
        await controller.start()
        try:
            return await page_text(controller.ports["health"], "/metrics")
        finally:
            await controller.stop()

    text = run_on("uvloop", run())
    ends = [line for line in text.splitlines() if line.startswith("mqcore_tls_certificate")]
    assert any('kind="server"' in line for line in ends), text
    assert "mqcore_tls_files_taken_total{" in text
    refused = [line for line in text.splitlines() if line.startswith("mqcore_tls_files_refused{")]
    assert [float(line.rpartition(" ")[2]) for line in refused] == [0], refused


def test_a_controller_pushes_them(tmp_path: Path) -> None:
    async def run(received: Received) -> None:
        keys = {
            "metricsExporterType": "OTLP_GRPC",
            "metricsGrpcExporterTarget": received.address,
            "metricGrpcExporterIntervalInMills": "100",
        }
        controller = Controller(settings_of(tmp_path, **keys))
        await controller.start()
        try:
            await until(lambda: "role" in received.metrics())
        finally:
            await controller.stop()

    with receiving() as received:
        run_on("uvloop", run(received))
    metrics = received.metrics()
    role = metrics["role"][-1]
    assert role.WhichOneof("data") == "sum"
    assert not role.sum.is_monotonic
    assert set(attributes(points([role])[0])) == OWN
    assert metrics["dledger_disk_usage"][-1].unit == "bytes"


def test_instruments_are_the_official_ones() -> None:
    found = dict(family.instrument for family in FAMILIES.values() if family.is_official)
    assert found == {
        "role": "",
        "dledger_disk_usage": "bytes",
        "active_broker_num": "",
        "request_total": "",
        "election_total": "",
        "request_latency": "us",
    }
