"""Routes of acting masters, zones, ordered topics; the settings and the KV configuration."""

import json
from pathlib import Path

import pytest

from mqcore.errors import ConfigFileError
from mqcore.namesrv.kv import read_kv
from namesrv.asking import CLUSTER, Asked, rows

MASTER = "10.0.0.1:10911"
SLAVE = "10.0.0.2:10911"


def with_slave(asked: Asked) -> None:
    asked.register(address=MASTER, enableActingMaster="true")
    asked.register(address=SLAVE, broker_id=1, enableActingMaster="true")


def master_leaves(asked: Asked) -> None:
    fields = {"brokerName": "broker-a", "clusterName": CLUSTER}
    asked.ask(104, {**fields, "brokerAddr": MASTER, "brokerId": 0})


def test_a_slave_acts_for_a_master_that_is_gone(tmp_path: Path) -> None:
    asked = Asked(tmp_path, supportActingMaster="true")
    with_slave(asked)
    assert asked.brokers_of("T") == {"broker-a": {"0": MASTER, "1": SLAVE}}
    master_leaves(asked)
    route = asked.route("T")
    assert route is not None
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": SLAVE}
    assert route["queueDatas"][0]["perm"] == 4
    # The group itself is shown as it is.
    assert json.loads(asked.ask(106).body)["brokerAddrTable"]["broker-a"]["brokerAddrs"] == {
        "1": SLAVE
    }
    asked.register(address=MASTER, enableActingMaster="true", counter=2)
    assert asked.brokers_of("T") == {"broker-a": {"0": MASTER, "1": SLAVE}}


def test_without_the_setting_nobody_acts_as_master(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    with_slave(asked)
    master_leaves(asked)
    assert asked.brokers_of("T") == {"broker-a": {"1": SLAVE}}


def test_a_slave_that_comes_first_brings_topics_to_read(tmp_path: Path) -> None:
    asked = Asked(tmp_path, supportActingMaster="true")
    asked.register(address=SLAVE, broker_id=1, enableActingMaster="true")
    route = asked.route("T")
    assert route is not None
    assert route["queueDatas"][0]["perm"] == 4
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": SLAVE}


def test_a_new_smallest_id_is_sent_to_those_who_stay(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    asked.register(address=SLAVE, broker_id=1, enableActingMaster="true")
    assert asked.changes == []
    asked.register(address=MASTER, enableActingMaster="true")
    (came,) = asked.changes
    assert (came.min_id, came.min_address, came.offline_address) == (0, MASTER, None)
    assert came.notify == (SLAVE,)
    master_leaves(asked)
    left = asked.changes[-1]
    assert (left.min_id, left.min_address, left.offline_address) == (1, SLAVE, MASTER)
    assert left.notify == (SLAVE,)


def test_a_zone_sees_its_brokers_and_those_without_master(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    asked.register("near", "10.0.0.1:10911", __ZONE_NAME="Z1")
    asked.register("far", "10.0.0.2:10911", __ZONE_NAME="z2")
    asked.register("orphan", "10.0.0.4:10911")
    asked.register("orphan", "10.0.0.3:10911", broker_id=1, __ZONE_NAME="z2")
    fields = {"brokerName": "orphan", "clusterName": CLUSTER}
    asked.ask(104, {**fields, "brokerAddr": "10.0.0.4:10911", "brokerId": 0})
    route = asked.route("T", __ZONE_MODE="true", __ZONE_NAME="z1")
    assert route is not None
    assert {row["brokerName"] for row in route["brokerDatas"]} == {"near", "orphan"}
    assert {row["brokerName"] for row in route["queueDatas"]} == {"near", "orphan"}
    assert len(asked.brokers_of("T") or {}) == 3
    assert asked.ask(105, {"topic": "X", "__ZONE_MODE": "true", "__ZONE_NAME": "z"}).code == 17


def test_the_order_of_a_topic_is_in_its_route_when_set_so(tmp_path: Path) -> None:
    asked = Asked(tmp_path, orderMessageEnable="true")
    asked.register()
    entry = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T"}
    route = asked.route("T")
    assert route is not None
    assert "orderTopicConf" not in route
    assert asked.ask(100, {**entry, "value": "broker-a:4"}).code == 0
    route = asked.route("T")
    assert route is not None
    assert route["orderTopicConf"] == "broker-a:4"
    assert json.loads(asked.register().body) == {"table": {"T": "broker-a:4"}}
    assert asked.ask(102, entry).code == 0
    route = asked.route("T")
    assert route is not None
    assert "orderTopicConf" not in route


def test_a_young_name_server_may_wait_for_its_brokers(tmp_path: Path) -> None:
    asked = Asked(tmp_path, needWaitForService="true", waitSecondsForService="45")
    asked.register()
    answer = asked.ask(105, {"topic": "T"})
    assert (answer.code, answer.remark) == (1, "name server not ready")
    asked.now_ms += 45_000
    assert asked.ask(105, {"topic": "T"}).code == 0


def test_kv_entries_are_kept_over_a_restart(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    entry = {"namespace": "n/ü", "key": "k"}
    assert asked.ask(101, entry).code == 22
    assert asked.ask(219, {"namespace": "n/ü"}).code == 22
    assert asked.ask(100, {**entry, "value": "one=1\n"}).code == 0
    assert asked.ask(100, {**entry, "key": "l", "value": ""}).code == 0
    again = Asked(tmp_path)
    assert again.ask(101, entry).ext == {"value": "one=1\n"}
    assert json.loads(again.ask(219, {"namespace": "n/ü"}).body) == {
        "table": {"k": "one=1\n", "l": ""}
    }
    assert again.ask(102, entry).code == 0
    assert again.ask(102, entry).code == 0
    assert again.ask(101, entry).code == 22
    assert Asked(tmp_path).ask(101, entry).code == 22


def test_kv_reads_what_the_official_one_wrote(tmp_path: Path) -> None:
    path = tmp_path / "namesrv" / "kvConfig.json"
    path.parent.mkdir()
    path.write_text('{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4"}}}', encoding="utf-8")
    asked = Asked(tmp_path)
    found = asked.ask(101, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T"})
    assert found.ext == {"value": "broker-a:4"}


@pytest.mark.parametrize(
    "torn", [b"", b'{"configTable":{"n":{"k"', b"[]", b'{"configTable":{"n":3}}']
)
def test_a_torn_kv_file_is_replaced_by_the_one_before(tmp_path: Path, torn: bytes) -> None:
    asked = Asked(tmp_path)
    asked.ask(100, {"namespace": "n", "key": "k", "value": "1"})
    asked.ask(100, {"namespace": "n", "key": "k", "value": "2"})
    path = tmp_path / "namesrv" / "kvConfig.json"
    path.write_bytes(torn)
    assert Asked(tmp_path).ask(101, {"namespace": "n", "key": "k"}).ext == {"value": "1"}
    path.with_name("kvConfig.json.bak").write_bytes(torn)
    with pytest.raises(ConfigFileError):
        read_kv(path)


def test_kv_has_a_bound(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    answer = asked.ask(100, {"namespace": "n", "key": "k", "value": "x" * 70_000})
    assert answer.code == 1
    assert asked.ask(101, {"namespace": "n", "key": "k"}).code == 22


def test_kv_that_cannot_be_kept_is_reported(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    (tmp_path / "namesrv").write_text("a file where a folder should be", encoding="utf-8")
    answer = asked.ask(100, {"namespace": "n", "key": "k", "value": "1"})
    assert answer.code == 1
    assert answer.remark is not None
    assert answer.remark.startswith("changed, but not kept over a restart")


def test_settings_are_shown(tmp_path: Path) -> None:
    asked = Asked(tmp_path, **{"tls.server.keyPassword": "secret"})
    text = asked.ask(319).body.decode()
    assert "orderMessageEnable=false\n" in text
    assert "listenPort=0\n" in text
    assert "secret" not in text


def test_settings_are_changed_all_or_none(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    asked.register(topics=rows("T", "U"))
    changes = b"enableAllTopicList=false\nscanNotActiveBrokerInterval=1000\n"
    assert asked.ask(318, body=changes).code == 0
    assert asked.ask(206).remark == "disable"
    assert asked.requests.settings.scan_interval_ms == 1000
    assert "enableAllTopicList=false" in asked.ask(319).body.decode()
    bad = b"enableAllTopicList=true\nscanNotActiveBrokerInterval=x\n"
    assert asked.ask(318, body=bad).code == 1
    assert asked.ask(206).remark == "disable"


@pytest.mark.parametrize(
    "text",
    [
        b"kvConfigPath=/etc/passwd",
        b"configStorePath=x",
        b"configBlackList=",
        b"rocketmqHome=/",
        b"listenPort=1",
        b"bindAddress=0.0.0.0",
        b"tls.server.certPath=x",
        b"noSuchKey=1",
    ],
)
def test_what_names_a_path_cannot_be_changed(tmp_path: Path, text: bytes) -> None:
    asked = Asked(tmp_path)
    before = asked.requests.settings
    assert asked.ask(318, body=text).code == 16
    assert asked.requests.settings is before


@pytest.mark.parametrize(
    "text", [b"\xff\xfe", b"enableTopicList=\\u00zz", b"scanNotActiveBrokerInterval=-5"]
)
def test_what_is_no_setting_is_refused(tmp_path: Path, text: bytes) -> None:
    asked = Asked(tmp_path)
    assert asked.ask(318, body=text).code == 1


def test_limits_are_changed_while_it_runs(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    asked.register()
    answer = asked.ask(318, body=b"brokersMax=1\nmqcoreConnectionsPerAddress=7\n")
    assert (answer.code, answer.remark) == (0, None)
    refused = asked.register("broker-b", "10.0.0.2:10911")
    assert refused.code == 1
    assert "brokersMax=1" in (refused.remark or "")
    assert asked.requests.settings.listener.connections_per_address == 7
    assert asked.ask(318, body=b"brokersMax=0").code == 1
    assert asked.ask(318, body=b"brokersMax=2\nmqcoreFirstRequestSeconds=3").code == 0
    admitted = asked.register("broker-b", "10.0.0.2:10911")
    assert admitted.code == 0
    assert asked.requests.settings.access.first_request_s == 3
    assert "brokersMax=2" in asked.ask(319).body.decode()


def test_what_counts_from_the_next_start_on_needs_a_file_and_is_named(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    refused = asked.ask(318, body=b"connectionsMax=9")
    assert refused.code == 16
    assert refused.remark is not None
    assert "takes effect at the next start" in refused.remark
    file = tmp_path / "namesrv.conf"
    file.write_text("# ours\nbrokersMax=10\nlistenPort=1\n")
    kept = Asked(tmp_path, config_path=str(file))
    answer = kept.ask(318, body=b"connectionsMax=9\nbrokersMax=3\n")
    assert (answer.code, answer.remark) == (0, "from the next start on: connectionsMax")
    assert file.read_text() == "# ours\nbrokersMax=3\nlistenPort=1\nconnectionsMax=9\n"
    assert kept.requests.settings.listener.connections_max == 20_000
    assert kept.requests.table.limits.brokers == 3


def test_what_cannot_be_changed_names_what_can(tmp_path: Path) -> None:
    remark = Asked(tmp_path).ask(318, body=b"listenPort=1").remark
    assert remark is not None
    assert remark.startswith("listenPort cannot be changed while the name server runs")
    assert "brokersMax" in remark
    assert "authenticationEnabled" not in remark


def test_who_may_come_in_is_not_decided_by_a_tool(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    for text in (b"mqcoreAuthDryRun=true", b"mqcoreSuperFrom=*", b"authorizationEnabled=false"):
        assert asked.ask(318, body=text).code == 16
