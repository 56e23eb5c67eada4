"""The official brokers register with our name server, and mqadmin sees no difference."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interop.driver import Driver
from interop.official import Official, official_release
from interop.registered import brokers, wait_for

pytestmark = [pytest.mark.java, pytest.mark.slow]

CONFIG = {"mappedFileSizeCommitLog": "16777216", "brokerClusterName": "Cluster"}


@contextmanager
def name_server(folder: Path) -> Iterator[str]:
    """Runs `mqcore namesrv` for the length of the block; gives its address."""
    command = [sys.executable, "-m", "mqcore.cli.main", "namesrv", "--port", "0"]
    command += ["--set", f"kvConfigPath={folder / 'kv.json'}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        ready = re.search(r"ready on (\S+)", process.stdout.readline())
        assert ready is not None
        try:
            yield ready[1]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


class Admin:
    """The official mqadmin, at one name server."""

    def __init__(self, driver: Driver, address: str) -> None:
        """Takes the driver that runs it."""
        self._driver = driver
        self._address = address

    def _run(self, command: str, *arguments: str) -> str:
        return self._driver.mqadmin(command, "-n", self._address, *arguments)

    def printed(self, command: str, *arguments: str) -> str:
        """Returns what a command printed that must succeed."""
        printed = self._run(command, *arguments)
        assert "Exception" not in printed, printed
        return printed

    def failure(self, command: str, *arguments: str) -> str:
        """Returns what a command printed that must fail."""
        printed = self._run(command, *arguments)
        assert "Exception" in printed, printed
        return printed


def route_of(printed: str) -> dict[str, object]:
    """Returns the first row of queues that topicRoute printed."""
    # Java prints its integer keys bare.
    legal = re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', printed[printed.index("{") :])
    rows = json.loads(legal)["queueDatas"]
    assert len(rows) == 1
    found: dict[str, object] = rows[0]
    return found


def test_an_official_broker_and_mqadmin_use_our_name_server(driver: Driver, tmp_path: Path) -> None:
    official = official_release(driver.version)
    with (
        name_server(tmp_path) as address,
        official.serve(tmp_path / "store", {**CONFIG, "namesrvAddr": address}) as broker,
    ):
        admin = Admin(driver, address)
        # 5.3 prints that it serves before it has registered.
        wait_for(address, {"broker-a": {"0": broker.address}})
        # clusterList asks for statistics, which it refuses before its first sample.
        broker.status()
        version = "V" + official.version.replace(".", "_")
        listed = admin.printed("clusterList").splitlines()
        assert [line.split()[:5] for line in listed if line.startswith("Cluster ")] == [
            ["Cluster", "broker-a", "0", broker.address, version]
        ]

        # What is created on the broker is registered with us before the command ends.
        admin.printed("updateTopic", "-t", "Flights", "-c", "Cluster", "-r", "3", "-w", "2")
        row = route_of(admin.printed("topicRoute", "-t", "Flights"))
        assert (row["readQueueNums"], row["writeQueueNums"], row["perm"]) == (3, 2, 6)
        assert {"Flights", "TBW102", "broker-a"} <= set(admin.printed("topicList").split())
        assert admin.printed("topicClusterList", "-t", "Flights").split()[-1] == "Cluster"
        assert "SEND_OK" in admin.printed("sendMessage", "-t", "Flights", "-p", "hello")

        admin.printed("updateTopicPerm", "-t", "Flights", "-p", "4", "-c", "Cluster")
        assert route_of(admin.printed("topicRoute", "-t", "Flights"))["perm"] == 4
        assert "OK" in admin.printed("addWritePerm", "-b", "broker-a")
        assert route_of(admin.printed("topicRoute", "-t", "Flights"))["perm"] == 6
        assert "OK" in admin.printed("wipeWritePerm", "-b", "broker-a")
        assert route_of(admin.printed("topicRoute", "-t", "Flights"))["perm"] == 4

        admin.printed("updateKvConfig", "-s", "space", "-k", "key", "-v", "value")
        kept = json.loads((tmp_path / "kv.json").read_text(encoding="utf-8"))
        assert kept["configTable"]["space"] == {"key": "value"}
        admin.printed("deleteKvConfig", "-s", "space", "-k", "key")

        admin.printed("updateTopic", "-t", "Ordered", "-c", "Cluster", "-o", "true")
        admin.printed("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true")
        assert re.search(r"orderMessageEnable\s+=\s+true", admin.printed("getNamesrvConfig"))
        assert '"orderTopicConf":"broker-a:8"' in admin.printed("topicRoute", "-t", "Ordered")
        refused = admin.failure("updateNamesrvConfig", "-k", "kvConfigPath", "-v", "x")
        assert "CODE: 16" in refused

        admin.printed("deleteTopic", "-t", "Flights", "-c", "Cluster")
        assert "CODE: 17" in admin.failure("topicRoute", "-t", "Flights")

        broker.kill()
        # The connection of a killed broker ends, and its routes are removed.
        wait_for(address, {})
        assert "CODE: 17" in admin.failure("topicRoute", "-t", "Ordered")


def test_an_official_broker_that_stops_unregisters_and_comes_back(
    official_49: Official, tmp_path: Path
) -> None:
    with name_server(tmp_path) as address:
        for _ in range(2):
            config = {**CONFIG, "namesrvAddr": address}
            with official_49.serve(tmp_path / "store", config) as broker:
                wait_for(address, {"broker-a": {"0": broker.address}})
            assert brokers(address) == {}
