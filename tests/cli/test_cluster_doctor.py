"""`mqcore doctor --cluster`: what it finds in clusters that promise more than they keep."""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from broker.test_replication import SLAVE, name_server
from broker.test_sync_master import SYNC
from interop.processes import free_port
from live_broker import live
from loops import run_on, until
from mqcore.admin import Admin
from mqcore.admin.cluster_facts import (
    BrokerFacts,
    ClusterFacts,
    ControllerFacts,
    ReplicaFacts,
    clock_of,
)
from mqcore.admin.cluster_findings import cluster_findings
from mqcore.broker.observation import snapshot
from mqcore.cli.main import commands
from mqcore.metrics.text import exposition
from mqcore.remoting.certificates import ends_in
from tls_papers import Papers

GOOD = {
    "brokerRole": "SYNC_MASTER",
    "inSyncReplicas": "2",
    "flushDiskType": "SYNC_FLUSH",
    "haMaxGapNotInSync": "1000",
}
MEMBER = {
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "minInSyncReplicas": "2",
    "brokerRole": "SYNC_MASTER",
    "flushDiskType": "SYNC_FLUSH",
    "controllerAddr": "c:1",
}


def broker(broker_id: int = 0, **changes: Any) -> BrokerFacts:
    """Returns a broker that is well, but for some facts."""
    well = BrokerFacts(
        cluster="c",
        name="b",
        broker_id=broker_id,
        address=f"h{broker_id}:1",
        config=GOOD if broker_id == 0 else {**GOOD, "brokerRole": "SLAVE"},
        runtime={"brokerVersionDesc": "V5_3_3", "commitLogMaxOffset": "5000"},
        replication={
            "haClientRuntimeInfo": {"activated": True},
            "haConnectionInfo": [{}] if broker_id == 0 else [],
        },
        topics_version="0 1 2",
        skew_ms=0,
    )
    return replace(well, **changes)


def pair(
    master: Mapping[str, Any] | None = None, slave: Mapping[str, Any] | None = None
) -> ClusterFacts:
    """Returns a master and a slave that are well, but for some facts."""
    return ClusterFacts(
        holders={"n:1": {("b", 0): "h0:1", ("b", 1): "h1:1"}},
        brokers=(broker(0, **(master or {})), broker(1, **(slave or {}))),
    )


def member(broker_id: int, **config: str) -> BrokerFacts:
    return broker(broker_id, config={**MEMBER, **config})


def group(*members: BrokerFacts, **changes: Any) -> ClusterFacts:
    """Returns members under a controller that is well, but for some facts."""
    replicas = tuple(
        ReplicaFacts(each.broker_id + 1, each.address, is_alive=True, is_in_sync=True)
        for each in members
    )
    leader = ControllerFacts(address="c:1", leader="c:1", group="g", replicas={"b": replicas})
    holders = {"n:1": {(each.name, each.broker_id): each.address for each in members}}
    controllers = (replace(leader, **changes), ControllerFacts(address="c:2", leader="c:1"))
    return ClusterFacts(holders=holders, brokers=members, controllers=controllers)


def advised(facts: ClusterFacts) -> dict[str, str]:
    """Returns what is advised: value and advice by name."""
    found = cluster_findings(facts)
    return {each.name: f"{each.value} -> {each.advice}" for each in found if each.advice}


def test_a_pair_and_a_group_that_are_well_get_no_advice() -> None:
    assert advised(pair()) == {}
    assert advised(group(member(0), member(1))) == {}


@pytest.mark.parametrize(
    ("facts", "name", "words"),
    [
        (
            pair({"config": {**GOOD, "inSyncReplicas": "1"}}),
            "b: acknowledgements",
            "waits for nobody",
        ),
        (
            pair({"config": {**GOOD, "enableAutoInSyncReplicas": "true"}}),
            "b: acknowledgements",
            "minInSyncReplicas=2",
        ),
        (
            ClusterFacts(holders={"n:1": {}}, brokers=(broker(0, replication=None),)),
            "b: acknowledgements",
            "SYNC_MASTER without a slave",
        ),
        (
            pair(
                {"config": {**GOOD, "flushDiskType": "ASYNC_FLUSH"}},
                {"config": {"flushDiskType": "ASYNC_FLUSH"}},
            ),
            "b: loss of power",
            "one power supply",
        ),
        (pair(slave={"topics_version": "0 1 1"}), "b 1: topics", "the master has 0 1 2"),
        (
            pair(slave={"runtime": {"commitLogMaxOffset": "3000"}}),
            "b 1: lag",
            "2000 bytes behind",
        ),
        (
            pair(slave={"replication": {"haClientRuntimeInfo": {"activated": False}}}),
            "b 1: lag",
            "not connected to its master",
        ),
        (pair({"skew_ms": -7_000}), "b 0: clock", "7.0 s behind this machine"),
        (pair({"is_port_open": True}), "b 0: port for slaves", "firewall"),
        (pair({"replication": {}}), "b 0: port for slaves", "set brokerIP2"),
        (pair({"failure": "refused"}), "b", "no master"),
        (
            replace(pair(), holders={"n:1": {("b", 0): "h0:1"}, "n:2": {("b", 0): "h9:1"}}),
            "b 0",
            "2 masters are named b",
        ),
        (replace(pair(), holders={"n:1": {}, "n:2": None}), "name server n:2", "does not answer"),
        (
            group(member(0, allAckInSyncStateSet="false"), member(1)),
            "b: acknowledgements",
            "set allAckInSyncStateSet=true on every member",
        ),
        (
            group(member(0, minInSyncReplicas="1"), member(1)),
            "b: acknowledgements",
            "set minInSyncReplicas=2",
        ),
        (group(member(0), member(1, asyncLearner="true")), "b: learners", "asyncLearner=false"),
        (
            group(
                member(0),
                member(1),
                replicas={"b": (ReplicaFacts(1, "h0:1", is_alive=True, is_in_sync=True),)},
            ),
            "b: sync-state set",
            "1 of 1 replicas",
        ),
        (
            group(
                member(0),
                member(1),
                replicas={
                    "b": (
                        ReplicaFacts(1, "h0:1", is_alive=True, is_in_sync=True),
                        ReplicaFacts(2, "h1:1", is_alive=False, is_in_sync=True),
                    )
                },
            ),
            "b 1: controller",
            "is not alive for the controller c:1",
        ),
        (group(member(0), member(1), replicas={}), "b: controller", "no controller leads"),
        (group(member(0), member(1), failure="gone"), "controller c:1", "no answer: gone"),
        (group(member(0), member(1), leader=""), "controller c:1", "knows no leader"),
        (
            group(member(0), member(1), config={"enableElectUncleanMaster": "true"}),
            "controller c:1: elections",
            "set it to false",
        ),
    ],
)
def test_what_could_be_better_is_named_with_what_to_do(
    facts: ClusterFacts, name: str, words: str
) -> None:
    found = advised(facts)
    assert words in found[name], found


def test_brokers_of_ours_are_checked_by_what_they_do() -> None:
    ours = {**GOOD, "inSyncReplicas": "1", "haStrangers": "refuse", "bindAddress": "0.0.0.0"}
    assert advised(pair({"config": ours, "is_port_open": True})) == {}
    ours["haStrangers"] = "serve"
    found = advised(pair({"config": ours, "is_port_open": True}))
    assert "haStrangers=refuse" in found["b 0: port for slaves"]


def test_the_clock_of_a_broker_is_read_from_its_figures() -> None:
    runtime = {"bootTimestamp": "1000", "runtime": "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"}
    assert clock_of(runtime) == 1_000 + ((26 * 60 + 3) * 60 + 4) * 1_000
    assert clock_of({"bootTimestamp": "1000", "runtime": "?"}) is None
    assert clock_of({}) is None


def test_a_cluster_of_ours_is_asked_and_checked(tmp_path: Path) -> None:
    async def run() -> tuple[int, Any]:
        port = str(free_port())
        async with (
            name_server(tmp_path) as names,
            live(tmp_path / "m", **SYNC, namesrvAddr=names, haListenPort=port) as master,
            live(tmp_path / "s", namesrvAddr=names, **SLAVE) as slave,
        ):
            assert await slave.broker.until_registered(names, timeout_s=20)
            assert await master.broker.until_registered(names, timeout_s=20)
            replicas = slave.broker.state.replicas
            await until(lambda: replicas.synced_ms > 0)
            # Its first connection ends when it has asked for whole files.
            await until(
                lambda: replicas.slave is not None and bool(replicas.slave.progress().address)
            )
            line = ["doctor", "--cluster", "-n", names, "--json"]
            result = await asyncio.to_thread(CliRunner().invoke, commands, line)
            return result.exit_code, json.loads(result.stdout)

    code, found = run_on("asyncio", run())
    by_name = {each["name"]: each for each in found}
    assert by_name["b: acknowledgements"]["value"] == "after 2 copies"
    assert by_name["b 0: clock"]["value"] == "as here"
    assert by_name["b 1: lag"]["value"].endswith("bytes behind")
    assert by_name["b: loss of power"]["advice"]
    assert code == 1, "power is advised about"


def test_without_a_name_server_it_fails_in_a_line() -> None:
    result = CliRunner().invoke(commands, ["doctor", "--cluster", "-n", "127.0.0.1:1"])
    assert result.exit_code != 0
    assert "127.0.0.1:1" in str(result.exception)


def named(facts: ClusterFacts, name: str) -> tuple[str, str]:
    (found,) = (each for each in cluster_findings(facts) if each.name == name)
    return found.value, found.advice


def test_versions_disks_and_certificates_are_looked_at() -> None:
    day_s = 86_400
    now_s = int(time.time())
    old = broker(1, runtime={"brokerVersionDesc": "V5_1_0", "commitLogDiskRatio": "0.80"})
    ours = broker(
        2,
        config={**GOOD, "haStrangers": "refuse"},
        runtime={"brokerVersionDesc": "V4_9_8", "commitLogDiskRatio": "0.92"},
        certificate_end_s=now_s + 3 * day_s + 60,
    )
    ended = broker(0, certificate_end_s=now_s - day_s)
    facts = ClusterFacts(holders={"n:1": {}}, brokers=(ended, old, ours))
    value, advice = named(facts, "cluster c: versions")
    assert value == "RocketMQ V5_1_0, V5_3_3; mqcore V4_9_8"
    assert "slaves first" in advice
    assert named(facts, "b 1: disk")[1].startswith("more disk")
    assert named(facts, "b 2: disk")[1].startswith("free space at once")
    assert named(facts, "b 2: certificate") == ("ends in 3 days", "put a new one in its place")
    assert named(facts, "b 0: certificate")[0] == "ended 1 days ago"
    same = ClusterFacts(holders={"n:1": {}}, brokers=(broker(0), ours))
    assert named(same, "cluster c: versions")[1] == ""


def test_a_broker_with_tls_shows_when_its_certificate_ends(tmp_path: Path) -> None:
    papers = Papers(tmp_path / "papers")

    async def run() -> tuple[int | None, str]:
        async with (
            name_server(tmp_path) as names,
            live(tmp_path / "m", namesrvAddr=names, **papers.keys("m", is_expired=True)) as master,
        ):
            await until(lambda: bool(master.broker.registered))
            async with Admin(names) as admin:
                (found,) = (await admin.facts()).brokers
            text = exposition(await snapshot(master.broker.state)).decode()
            return found.certificate_end_s, text

    end_s, text = run_on("asyncio", run())
    (wanted,) = ends_in(papers.issued("other", is_expired=True))
    assert end_s == wanted
    rows = [each for each in text.splitlines() if each.startswith("mqcore_tls_certificate_not_")]
    assert {each.partition('kind="')[2].partition('"')[0] for each in rows} == {
        "server",
        "server_trusted",
    }
    assert any(float(each.rpartition(" ")[2]) == wanted for each in rows)
