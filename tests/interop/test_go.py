"""The unmodified official Go client against our name server and broker (go/main.go)."""

import json
import subprocess
from pathlib import Path

import pytest

from interop.driver import Driver
from interop.install import JavaMissingError, go_client
from interop.mqadmin import create_topic
from interop.processes import environment
from interop.servers import Servers

pytestmark = pytest.mark.java

TOPIC = "T_go"
# Seven cases at once, each with its own patience inside.
TIMEOUT_S = 270
CASES = {"sync", "async", "oneway", "batch", "orderly", "retry", "broadcast"}


def test_the_go_client_sends_and_consumes(
    driver_53: Driver, servers: Servers, tmp_path: Path
) -> None:
    try:
        program = go_client()
    except JavaMissingError as missing:
        pytest.fail(str(missing), pytrace=False)
    namesrv = servers.namesrv.address
    # The Go client starts no consumer of a topic without a route.
    create_topic(driver_53, namesrv, TOPIC)
    done = subprocess.run(
        [program, namesrv, TOPIC],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        # Offsets of broadcasting are kept on the client's disk, logs beside them.
        cwd=tmp_path,
        env={**environment(), "HOME": str(tmp_path), "user.home": str(tmp_path)},
    )
    seen = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    failed = {each["case"]: each["failure"] for each in seen if each["failure"]}
    assert failed == {}, done.stderr[-2000:]
    assert {each["case"] for each in seen} == CASES, done.stderr[-2000:]
    assert done.returncode == 0
