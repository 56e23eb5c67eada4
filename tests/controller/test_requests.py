"""Every request of a controller: its fields, codes and bodies, after ControllerRequestProcessor."""

import json
from pathlib import Path

import pytest

from controller.asking import CLUSTER, GRACE_MS, NAME, address_of, controlled
from mqcore.native import Command, ControllerGroupRow, ControllerNode
from mqcore.native.errors import ForeignFileError


def body_of(answer: Command) -> dict[str, object]:
    body: dict[str, object] = json.loads(answer.body)
    return body


def test_brokers_get_ids_register_and_elect(tmp_path: Path) -> None:
    with controlled(tmp_path) as asked:
        names = {"clusterName": CLUSTER, "brokerName": NAME}
        answer = asked.ask(1012, names)
        assert answer.ext == {**names, "nextBrokerId": "1"}
        assert asked.register(1).code == 2010
        assert asked.apply_id(2).code == 2014
        assert asked.apply_id(1).ext == names
        assert asked.apply_id(1).code == 0
        assert asked.ask(1012, names).ext["nextBrokerId"] == "2"
        answer = asked.register(1)
        assert (answer.code, answer.ext) == (0, names)
        assert body_of(answer) == {"syncStateSet": [], "syncStateSetEpoch": 0}
        asked.heartbeat(1)
        answer = asked.elect(1)
        assert answer.ext == {
            "masterBrokerId": "1",
            "masterAddress": address_of(1),
            "masterEpoch": "1",
            "syncStateSetEpoch": "1",
        }
        assert body_of(answer) == {
            "brokerMemberGroup": {
                "brokerAddrs": {"1": address_of(1)},
                "brokerName": NAME,
                "cluster": CLUSTER,
            },
            "syncStateSet": [1],
        }


def test_a_second_broker_learns_of_its_master_in_every_way(tmp_path: Path) -> None:
    with controlled(tmp_path) as asked:
        asked.joined(1)
        asked.apply_id(2)
        master = {"masterBrokerId": "1", "masterAddress": address_of(1), "masterEpoch": "1"}
        answer = asked.register(2)
        names = {"clusterName": CLUSTER, "brokerName": NAME}
        assert answer.ext == {**names, **master, "syncStateSetEpoch": "1"}
        answer = asked.ask(1004, {"brokerName": NAME})
        assert answer.ext == master
        assert body_of(answer) == {"syncStateSet": [1], "syncStateSetEpoch": 1}
        answer = asked.elect(2)
        assert answer.code == 2011
        assert answer.ext == {**master, "syncStateSetEpoch": "1"}
        assert body_of(answer) == {"syncStateSet": [1]}
        assert asked.ask(1004, {"brokerName": "other"}).code == 2008


def test_a_set_is_altered_by_its_master_alone(tmp_path: Path) -> None:
    with controlled(tmp_path) as asked:
        asked.joined(1)
        asked.apply_id(2)
        assert asked.alter(1, [1, 2], 1, 1).code == 2006
        asked.heartbeat(2)
        answer = asked.alter(1, [1, 2], 1, 1)
        assert answer.ext == {"newSyncStateSetEpoch": "2"}
        assert body_of(answer) == {"syncStateSet": [1, 2], "syncStateSetEpoch": 2}
        assert asked.alter(1, [1, 2], 1, 2).code == 2013
        assert asked.alter(2, [2], 1, 2).code == 2002
        assert asked.alter(1, [1], 9, 2).code == 2000
        assert asked.alter(1, [1], 1, 1).code == 2001
        assert asked.alter(1, [1, 3], 1, 2).code == 2003
        assert asked.ask(1001, {"brokerName": NAME}, b"nonsense").code == 2005


def test_of_two_processes_with_one_id_the_second_is_refused_once_the_first_is_heard(
    tmp_path: Path,
) -> None:
    with controlled(tmp_path) as asked:
        assert asked.apply_id(1).code == 0
        asked.now_ms += GRACE_MS
        assert asked.claim(1, "one:1;5;aa").code == 0
        # It has had no time to send a heartbeat.
        assert asked.claim(1, "two:1;5;bb").code == 2
        asked.heartbeat(1, registerCheckCode="one:1;5;aa")
        asked.now_ms += 1_000
        asked.heartbeat(1, registerCheckCode="one:1;5;aa")
        refused = asked.claim(1, "two:1;5;bb")
        assert refused.code == 2014
        assert refused.ext == {"brokerAddress": "one:1"}
        assert "the broker at one:1, which is alive" in (refused.remark or "")
        assert asked.claim(1, "one:1;5;aa").code == 0
        view = asked.node.view(NAME)
        assert view is not None
        assert view.replicas == {1: "one:1"}


def test_a_process_whose_id_another_one_has_is_refused_and_is_not_alive(tmp_path: Path) -> None:
    with controlled(tmp_path) as asked:
        asked.apply_id(1)
        asked.now_ms += GRACE_MS
        asked.claim(1, "one:1;5;aa")
        asked.heartbeat(1, registerCheckCode="one:1;5;aa")
        asked.elect(1)
        # It is paused: the machine that the disk went to has what proves it.
        assert asked.claim(1, "two:1;6;bb", "zero:1;1,one:1;5;aa").code == 2
        asked.now_ms += 2_500
        assert asked.claim(1, "two:1;6;bb", "zero:1;1,one:1;5;aa").code == 0
        asked.heartbeat(1, registerCheckCode="one:1;5;aa", maxOffset=900)
        assert asked.elect(-1).code == 2004, "the old process does not live"
        look = {"brokerName": NAME, "brokerId": 1, "registerCheckCode": "one:1;5;aa"}
        refused = asked.ask(1004, look)
        assert refused.code == 2014
        assert refused.ext == {"brokerAddress": "two:1"}
        assert asked.ask(1004, look | {"registerCheckCode": "two:1;6;bb"}).code == 0
        fields = {"masterBrokerId": 1, "masterEpoch": 1, "syncStateSetEpoch": 1}
        assert asked.ask(1_480_007, {**look, **fields}).code == 2014
        # One of RocketMQ does not name its process.
        assert asked.ask(1004, {"brokerName": NAME}).code == 0


def test_a_fence_refuses_what_was_asked_for_before(tmp_path: Path) -> None:
    with controlled(tmp_path) as asked:
        asked.joined(1)
        asked.apply_id(2)
        asked.heartbeat(2)
        fields = {"brokerName": NAME, "masterBrokerId": 1, "masterEpoch": 1, "syncStateSetEpoch": 1}
        assert asked.ask(1_480_007, {**fields, "masterBrokerId": 2}).code == 2002
        answer = asked.ask(1_480_007, fields)
        assert answer.ext == {"newSyncStateSetEpoch": "2"}
        assert body_of(answer) == {"syncStateSet": [1], "syncStateSetEpoch": 2}
        assert asked.alter(1, [1, 2], 1, 1).code == 2001
        assert asked.ask(1_480_007, fields).code == 2001
        assert asked.alter(1, [1, 2], 1, 2).code == 0


def test_a_dead_master_is_replaced_at_once(tmp_path: Path) -> None:
    with controlled(tmp_path) as asked:
        asked.joined(1, 2, 3)
        asked.heartbeat(3, maxOffset=200)
        asked.dies(2)
        assert asked.master() == (1, 1, [1, 2, 3], 2)
        asked.dies(1)
        assert asked.master() == (3, 2, [3], 3)
        # It comes back, and follows.
        asked.heartbeat(1)
        assert asked.register(1).ext["masterBrokerId"] == "3"
        asked.dies(1)
        assert asked.master() == (3, 2, [3], 3)


def test_without_a_member_of_the_set_there_is_no_master_until_one_is_back(tmp_path: Path) -> None:
    with controlled(tmp_path) as asked:
        asked.joined(1)
        asked.apply_id(2)
        asked.heartbeat(2)
        asked.dies(1)
        assert asked.master() == (None, 2, [1], 1)
        assert asked.elect(2).code == 2012
        answer = asked.ask(1004, {"brokerName": NAME})
        assert answer.ext == {"masterEpoch": "2"}
        asked.heartbeat(1)
        assert asked.elect(1).code == 0
        assert asked.master() == (1, 3, [1], 2)


def test_nobody_is_taken_for_dead_right_after_a_start(tmp_path: Path) -> None:
    with controlled(tmp_path) as asked:
        asked.joined(1, 2)
    with controlled(tmp_path) as asked:
        asked.heartbeat(2)
        # The master has not had the time to find the controller.
        assert asked.elect(2).code == 2011
        assert asked.register(2).ext["masterBrokerId"] == "1"
        asked.round()
        assert asked.master() == (1, 1, [1, 2], 2)
        asked.now_ms += GRACE_MS
        asked.heartbeat(2)
        asked.round()
        assert asked.master() == (2, 2, [2], 3)


def test_a_silent_master_is_replaced_by_the_round(tmp_path: Path) -> None:
    with controlled(tmp_path) as asked:
        asked.now_ms += GRACE_MS
        asked.joined(1, 2)
        asked.now_ms += 9_000
        asked.heartbeat(2)
        asked.now_ms += 1_001
        asked.round()
        assert asked.master()[0] == 2


def test_an_administrator_elects_shows_and_forgets(tmp_path: Path) -> None:
    with controlled(tmp_path) as asked:
        asked.joined(1, 2)
        assert asked.elect(1, designate=True).code == 2011
        assert asked.elect(2, designate=True).ext["masterBrokerId"] == "2"
        answer = asked.ask(1006, {}, [NAME, "other"])
        row = {"brokerName": NAME, "alive": True}
        assert body_of(answer) == {
            "replicasInfoTable": {
                NAME: {
                    "inSyncReplicas": [{**row, "brokerAddress": address_of(2), "brokerId": 2}],
                    "masterAddress": address_of(2),
                    "masterBrokerId": 2,
                    "masterEpoch": 2,
                    "notInSyncReplicas": [{**row, "brokerAddress": address_of(1), "brokerId": 1}],
                    "syncStateSetEpoch": 3,
                }
            }
        }
        clean = {"clusterName": CLUSTER, "brokerName": NAME, "isCleanLivingBroker": "false"}
        assert asked.ask(1011, clean).code == 2009
        assert asked.ask(1011, {**clean, "brokerControllerIdsToClean": "1"}).code == 2009
        assert asked.ask(1011, {**clean, "brokerControllerIdsToClean": "1;x"}).code == 2009
        asked.dies(1)
        assert asked.ask(1011, {**clean, "brokerControllerIdsToClean": "1"}).code == 0
        assert asked.register(1).code == 2010
        assert asked.ask(1011, {**clean, "isCleanLivingBroker": "true"}).code == 0
        assert asked.ask(1004, {"brokerName": NAME}).code == 2008


def test_the_leader_names_itself_and_its_group(tmp_path: Path) -> None:
    peers = "n7-10.1.2.3:9878"
    pairs = {"controllerDLegerPeers": peers, "controllerDLegerSelfId": "n7"}
    with controlled(tmp_path, **pairs) as asked:
        assert asked.ask(1005).ext == {
            "group": "group1",
            "isLeader": "true",
            "peers": "n7:10.1.2.3:9878;",
            "controllerLeaderId": "n7",
            "controllerLeaderAddress": "10.1.2.3:9878",
        }


def test_settings_are_shown_and_some_are_changed(tmp_path: Path) -> None:
    with controlled(tmp_path) as asked:
        text = asked.ask(1010).body.decode()
        assert "enableElectUncleanMaster=false\n" in text
        assert "kvConfigPath" not in text
        assert asked.ask(1009, {}, b"enableElectUncleanMaster=true").code == 0
        assert asked.requests.settings.allows_unclean
        for refused in (b"configStorePath=/x", b"controllerStorePath=/x", b"listenPort=1"):
            assert asked.ask(1009, {}, refused).code == 16
        assert asked.ask(1009, {}, b"scanNotActiveBrokerInterval=soon").code == 1
        assert asked.ask(1009, {}, b"mqcoreConnectionsPerAddress=5").code == 0
        assert asked.requests.settings.listener.connections_per_address == 5
        later = asked.ask(1009, {}, b"connectionsMax=5")
        assert later.code == 16
        assert "takes effect at the next start" in (later.remark or "")
        # It has an effect at once.
        asked.joined(1)
        asked.apply_id(2)
        asked.heartbeat(2)
        asked.dies(1)
        assert asked.master()[0] == 2


def test_who_leaves_a_set_that_is_too_small_may_still_be_elected(tmp_path: Path) -> None:
    with controlled(tmp_path, mqcoreMinInSyncReplicas="2") as asked:
        asked.joined(1, 2)
        assert asked.alter(1, [1], 1, 2).code == 0
        asked.dies(1)
        assert asked.master()[0] == 2


def test_a_heartbeat_needs_an_id_and_what_is_missing_is_refused(tmp_path: Path) -> None:
    with controlled(tmp_path) as asked:
        fields = {"clusterName": CLUSTER, "brokerName": NAME, "brokerAddr": "h:1"}
        assert asked.ask(904, fields).code == 2005
        assert asked.ask(904, {**fields, "brokerId": 1}).remark == "Heart beat success"
        for code in (1001, 1003, 1004, 1011, 1012, 1013):
            assert asked.ask(code, {}, {"syncStateSet": [], "syncStateSetEpoch": 0}).code == 1
        for body in (b"", b"{}", b"[1]", b'{"syncStateSet":[true],"syncStateSetEpoch":0}'):
            assert asked.ask(1006, {}, body).code == 2005


def test_what_was_answered_is_there_after_a_restart(tmp_path: Path) -> None:
    with controlled(tmp_path) as asked:
        asked.joined(1, 2)
        asked.register(2, "10.9.9.9:1")
        before = asked.node.view(NAME)
    with controlled(tmp_path) as asked:
        assert asked.node.view(NAME) == before
        assert asked.node.names() == [NAME]
        assert asked.node.standing().is_leader


def test_one_controller_runs_on_a_directory(tmp_path: Path) -> None:
    with (
        controlled(tmp_path),
        pytest.raises(ForeignFileError, match="a controller runs on this directory"),
    ):
        ControllerNode(tmp_path / "controller", ControllerGroupRow())


def test_a_controller_that_cannot_write_is_no_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with controlled(tmp_path) as asked:

        class Failed:
            is_leader, leader, applied, failure = False, None, 3, "cannot sync"

        class Node:
            def standing(self) -> Failed:
                return Failed()

        monkeypatch.setattr(asked.requests, "_node", Node())
        monkeypatch.setattr(asked.requests.elections, "_node", Node())
        for code in (1001, 1002, 1003, 1004, 1006, 1011, 1012, 1013):
            answer = asked.ask(code, {"brokerName": NAME})
            assert answer.code == 2007
            assert answer.remark == "The controller is not in leader state: cannot sync"
        assert asked.ask(1005).ext["isLeader"] == "false"


def test_names_are_apart(tmp_path: Path) -> None:
    with controlled(tmp_path) as asked:
        asked.joined(1)
        assert asked.apply_id(1, "broker-b").code == 0
        assert asked.node.names() == [NAME, "broker-b"]
