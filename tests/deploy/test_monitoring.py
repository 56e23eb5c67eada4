"""Boards and alerts ask only for what there is, and every alert can be raised and has a run-book.

Expressions are parsed by promtool; alerts are raised by series of promtool's own tests; what boards
ask is asked of a Prometheus that scrapes a broker under load.
"""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from interop.measured import SETTINGS, driven, scraped
from interop.patience import eventually
from interop.processes import free_port
from interop.servers import OURS, serving
from mqcore.broker.metric_families import FAMILIES

ROOT = Path(__file__).parents[2]
HERE = ROOT / "deploy" / "monitoring"
RUN_BOOKS = ROOT / "docs" / "run-books.md"
NO_PROMETHEUS = shutil.which("promtool") is None or shutil.which("prometheus") is None
needs_prometheus = pytest.mark.skipif(NO_PROMETHEUS, reason="apt install prometheus")
# Panels whose families a lone broker without a fault does not show.
UNSEEN: dict[str, str] = {}


def loaded(name: str) -> ModuleType:
    """Returns a module beside the boards."""
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def write() -> ModuleType:
    return loaded("write")


@pytest.fixture(scope="module")
def alerts() -> list[Any]:
    return list(loaded("alerts").ALERTS)


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["promtool", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_files_are_current(write: ModuleType) -> None:
    for path, text in write.files().items():
        assert path.read_text(encoding="utf-8") == text, "python deploy/monitoring/write.py"


def test_an_expression_over_what_there_is_not_is_an_error() -> None:
    expression = loaded("expressions").expression
    for wrong in (
        "{rocketmq_no_such_metric}",
        "{rocketmq_half_messages:bucket}",
        "{rocketmq_message_size}",
        '{rocketmq_half_messages;consumer_group="g"}',
    ):
        with pytest.raises(ValueError, match=r"family|label|is a"):
            expression(wrong)
    assert expression("{rocketmq_half_messages}", 'a="b"') == 'rocketmq_half_messages{a="b"}'


def test_boards_name_families_only(write: ModuleType) -> None:
    words = re.compile(r"\b(?:rocketmq|mqcore)_[a-z_0-9]+")
    for _board, _panel, expr in write.queries():
        for name in words.findall(expr):
            assert re.sub(r"_(bucket|sum|count)$", "", name) in FAMILIES, expr


def test_every_alert_has_its_run_book_and_links_to_it(alerts: list[Any]) -> None:
    text = RUN_BOOKS.read_text(encoding="utf-8")
    headings = re.findall(r"^## (\w+)$", text, re.MULTILINE)
    names = [alert.name for alert in alerts]
    assert headings == names
    sections = re.split(r"^## \w+$", text, flags=re.MULTILINE)[1:]
    for alert, section in zip(alerts, sections, strict=True):
        assert alert.link() == f"docs/run-books.md#{alert.name.lower()}"
        for part in ("**Means.**", "**Look.**", "**Do.**"):
            assert part in section, (alert.name, part)


@needs_prometheus
def test_prometheus_takes_the_rules() -> None:
    done = promtool("check", "rules", str(HERE / "prometheus" / "alerts.yml"))
    assert done.returncode == 0, done.stderr


@needs_prometheus
def test_every_alert_can_be_raised(alerts: list[Any], tmp_path: Path) -> None:
    tests = []
    for alert in alerts:
        series = [{"series": name, "values": values} for name, values in alert.raising.items()]
        labels = {"severity": alert.level, **alert.labels}
        raised = {"exp_labels": labels}
        calm = {"eval_time": "0m", "alertname": alert.name, "exp_alerts": []}
        expected = {
            "eval_time": alert.at,
            "alertname": alert.name,
            "exp_alerts": [raised | {"exp_annotations": annotations(alert, labels)}],
        }
        # At the begin nothing has held long enough, but for what needs no time.
        tests.append(
            {
                "interval": "1m",
                "input_series": series,
                "alert_rule_test": [expected] if alert.wait == "0m" else [calm, expected],
            }
        )
    rules = str(HERE / "prometheus" / "alerts.yml")
    path = tmp_path / "tests.yml"
    path.write_text(json.dumps({"rule_files": [rules], "tests": tests}), encoding="utf-8")
    done = promtool("test", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


def annotations(alert: Any, labels: dict[str, str]) -> dict[str, str]:
    summary = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda m: labels[m[1]], alert.summary)
    return {"summary": summary, "runbook_url": alert.link()}


@contextmanager
def prometheus(target: int, scratch: Path) -> Iterator[str]:
    """Runs a Prometheus that scrapes a port every second."""
    port = free_port()
    config = {
        "global": {"scrape_interval": "1s"},
        "rule_files": [str(HERE / "prometheus" / "alerts.yml")],
        "scrape_configs": [
            {"job_name": "mqcore", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
        ],
    }
    path = scratch / "prometheus.yml"
    path.write_text(json.dumps(config), encoding="utf-8")
    command = ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={scratch / 'tsdb'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    process = subprocess.Popen(command)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def asked(address: str, expr: str) -> list[Any]:
    """Returns the series of an expression now; none while Prometheus does not answer."""
    query = urllib.parse.urlencode({"query": expr, "time": time.time()})
    try:
        with urllib.request.urlopen(f"{address}/api/v1/query?{query}", timeout=30) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
            return found
    except OSError:
        return []


@needs_prometheus
@pytest.mark.slow
def test_every_panel_shows_something_of_a_broker_under_load(
    write: ModuleType, tmp_path: Path
) -> None:
    port = free_port()
    config = {
        **SETTINGS,
        "metricsPromExporterPort": str(port),
        "metricsPromExporterHost": "127.0.0.1",
        # A rule has its series, also where it holds nobody back.
        "mqcoreQuotas": "topic:*=producer_message_rate:1000000",
    }
    (tmp_path / "prometheus").mkdir()
    with (
        serving(OURS, tmp_path / "servers", config) as servers,
        prometheus(port, tmp_path / "prometheus") as address,
        driven(servers),
    ):
        scraped(port, lambda text: "rocketmq_send_to_dlq_messages_total{" in text)
        # Rates need two looks.
        eventually(lambda: asked(address, "rate(mqcore_process_cpu_seconds_total[1m])"), bool)
        empty = []
        for board, panel, expr in write.queries():
            concrete = re.sub(r"\$__rate_interval", "1m", expr)
            concrete = re.sub(r"\$(cluster|node_id|topic|consumer_group)", ".*", concrete)
            if panel not in UNSEEN and not eventually(partial(asked, address, concrete), bool):
                empty.append((board, panel, concrete))
        assert empty == []
        # And of a broker that is well, nothing is raised that asks for somebody.
        raised = asked(address, 'ALERTS{alertstate="firing",severity="page"}')
        assert raised == []
