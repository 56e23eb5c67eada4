"""Units, compose file and Helm chart: rendered, and only what the programs and their hosts take.

`systemd-analyze`, `docker compose` and `helm` are asked where they are installed; $HELM names
another place. Images are built by none of these tests.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.test_deploy import DEPLOY, UNITS, parsed
from mqcore.config import Program, file_layer, resolved

CHART = DEPLOY / "helm" / "mqcore"
HELM = os.environ.get("HELM") or shutil.which("helm")
NO_HELM = "helm is not installed ($HELM names it): go install helm.sh/helm/v3/cmd/helm@v3.19.0"


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_takes_the_units(unit: Path, tmp_path: Path) -> None:
    # Only the program is in another place than on a machine that it is installed on.
    for each in UNITS:
        text = each.read_text().replace("/opt/mqcore/bin/mqcore", sys.executable)
        (tmp_path / each.name).write_text(text)
    words = ["systemd-analyze", "verify", "--man=no", str(tmp_path / unit.name)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_compose_runs_commands_that_exist() -> None:
    for name, service in compose()["services"].items():
        context = parsed(["mqcore", *service["command"]])
        assert context.params, name
        parsed(service["healthcheck"]["test"][1:]) if "healthcheck" in service else None
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert not service["image"].endswith(":latest")
        # Nobody but this machine, unless somebody wants it.
        assert all(each.startswith("127.0.0.1:") for each in service["ports"])


def test_compose_names_what_is_there() -> None:
    tree = compose()
    for service in tree["services"].values():
        assert set(service.get("depends_on", {})) <= set(tree["services"])
        assert {each.partition(":")[0] for each in service["volumes"]} <= set(tree["volumes"])
        dockerfile = DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]
        assert dockerfile.resolve() == DEPLOY / "Dockerfile"


def _has_compose() -> bool:
    if shutil.which("docker") is None:
        return False
    done = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.skipif(not _has_compose(), reason="docker compose is not installed")
def test_docker_takes_the_compose_file() -> None:
    words = ["docker", "compose", "-f", str(DEPLOY / "compose.yaml"), "config", "--quiet"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    return subprocess.run([HELM, *words], capture_output=True, text=True, check=False)


def rendered(*values: str) -> list[dict[str, Any]]:
    """Returns the objects of the chart, with some values set."""
    words = ["template", "mq", str(CHART), "--namespace", "there", "--kube-version", "1.31.0"]
    done = helm(*words, *(f"--set={each}" for each in values))
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def of_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


VARIANTS = {
    "plain": (),
    "drained": ("broker.drain.enabled=true",),
    "replicas": (
        "broker.replicas=2",
        "controller.enabled=true",
        "serviceMonitor.enabled=true",
        "networkPolicy.enabled=true",
    ),
}
_PROGRAMS = {
    "namesrv.conf": Program.NAMESRV,
    "broker.conf": Program.BROKER,
    "controller.conf": Program.CONTROLLER,
}


@pytest.mark.skipif(HELM is None, reason=NO_HELM)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_chart_runs_commands_with_settings_that_exist(variant: str, tmp_path: Path) -> None:
    objects = rendered(*VARIANTS[variant])
    (config,) = of_kind(objects, "ConfigMap").values()
    for name, text in config["data"].items():
        (tmp_path / name).write_text(text)
        layer = file_layer(tmp_path / name, _PROGRAMS[name])
        assert resolved(_PROGRAMS[name], [layer], is_strict=True).warnings == ()
        assert layer.pairs["mqcoreHealthAddress"] == "0.0.0.0:8558"
    for found in of_kind(objects, "StatefulSet").values():
        (container,) = found["spec"]["template"]["spec"]["containers"]
        options = parsed(["mqcore", *container["args"]]).params
        assert options["is_strict"] is True
        stop = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
        assert (stop is not None) == (variant == "drained" and container["name"] == "broker")
        if stop is not None:
            assert parsed(stop).params["is_sure"] is True


@pytest.mark.skipif(HELM is None, reason=NO_HELM)
@pytest.mark.parametrize("variant", VARIANTS)
def test_pods_are_probed_apart_and_without_rights(variant: str) -> None:
    objects = rendered(*VARIANTS[variant])
    sets, budgets = of_kind(objects, "StatefulSet"), of_kind(objects, "PodDisruptionBudget")
    assert set(sets) == set(budgets)
    services = of_kind(objects, "Service")
    for name, found in sets.items():
        spec = found["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert services[found["spec"]["serviceName"]]["spec"]["clusterIP"] == "None"
        assert budgets[name]["spec"]["maxUnavailable"] == 1
        labels = found["spec"]["template"]["metadata"]["labels"]
        assert found["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert budgets[name]["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert "checksum/config" in found["spec"]["template"]["metadata"]["annotations"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert not container["image"].endswith(":latest")
        paths = {
            kind: container[kind]["httpGet"]["path"]
            for kind in ("startupProbe", "livenessProbe", "readinessProbe")
        }
        assert paths == {
            "startupProbe": "/healthz",
            "livenessProbe": "/healthz",
            "readinessProbe": "/readyz",
        }
        startup = container["startupProbe"]
        assert startup["periodSeconds"] * startup["failureThreshold"] >= 600
        ports = {each["name"] for each in container["ports"]}
        assert {"remoting", "health"} <= ports
        if container["name"] == "broker":
            grace_s = spec["terminationGracePeriodSeconds"]
            assert grace_s == (720 if variant == "drained" else 120)
            (claim,) = found["spec"]["volumeClaimTemplates"]
            assert claim["spec"]["resources"]["requests"]["storage"] == "100Gi"


@pytest.mark.skipif(HELM is None, reason=NO_HELM)
def test_the_chart_refuses_what_cannot_work() -> None:
    for values, why in (
        ("broker.replicas=2", "needs controller.enabled"),
        ("image.tag=latest", "image"),
        ("controller.replicas=2", "controller"),
        ("broker.nonsense=1", "nonsense"),
    ):
        done = helm("template", "mq", str(CHART), "--kube-version", "1.31.0", f"--set={values}")
        assert done.returncode != 0
        assert re.search(why, done.stderr), done.stderr
    done = helm("lint", "--strict", str(CHART), "--kube-version", "1.31.0")
    assert done.returncode == 0, done.stdout


def test_the_chart_is_of_this_version() -> None:
    from mqcore import __version__

    tree = yaml.safe_load((CHART / "Chart.yaml").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert (tree["appVersion"], values["image"]["tag"]) == (__version__, __version__)
    assert all(each["image"].endswith(f":{__version__}") for each in compose()["services"].values())
