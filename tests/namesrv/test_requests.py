"""Every request of a name server, answered from its tables."""

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from mqcore.native import Command
from mqcore.remoting import Connection
from namesrv.asking import CLUSTER, Asked, registration_body, rows, topic_row


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path)


def topics_in(answer: Command) -> list[str]:
    assert answer.code == 0
    found: list[str] = json.loads(answer.body)["topicList"]
    return sorted(found)


def test_a_route_is_in_the_standard_form_byte_for_byte(asked: Asked) -> None:
    asked.register("bn", "1.1.1.1:10911", topics=rows("T", "U"))
    asked.register("bn", "1.1.1.2:10911", broker_id=1)
    answer = asked.ask(105, {"topic": "T"})
    assert (answer.code, answer.remark) == (0, None)
    assert answer.body == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"1.1.1.1:10911","1":"1.1.1.2:10911"},'
        b'"brokerName":"bn","cluster":"DefaultCluster","enableActingMaster":false}],'
        b'"filterServerTable":{},"queueDatas":[{"brokerName":"bn","perm":6,"readQueueNums":4,'
        b'"topicSysFlag":0,"writeQueueNums":4}]}'
    )
    # Old clients read quoted keys too: all get the same bytes.
    assert asked.ask(105, {"topic": "T"}, version=317).body == answer.body
    assert asked.ask(105, {"topic": "T", "acceptStandardJsonOnly": "true"}).body == answer.body


def test_names_beyond_ascii_and_slashes_are_escaped(asked: Asked) -> None:
    asked.register("br/ü", topics=rows("T", "U"))
    body = asked.ask(105, {"topic": "T"}).body
    assert b'"brokerName":"br\\/\\u00fc"' in body
    assert json.loads(body)["brokerDatas"][0]["brokerName"] == "br/ü"


def test_no_route_names_the_topic_and_who_is_here(asked: Asked) -> None:
    answer = asked.ask(105, {"topic": "T"})
    assert answer.code == 17
    assert answer.remark == (
        "No topic route info in name server for the topic: T (no broker has registered here)"
    )
    asked.register()
    answer = asked.ask(105, {"topic": "X"})
    assert answer.remark is not None
    assert answer.remark.endswith("topic: X (brokers here: broker-a)")


def test_a_missing_field_is_refused_by_name(asked: Asked) -> None:
    answer = asked.ask(105)
    assert (answer.code, answer.remark) == (1, "the custom field <topic> is null")


def test_a_first_registration_with_one_topic_is_refused(asked: Asked) -> None:
    answer = asked.register(topics=rows("T"))
    assert (answer.code, answer.remark) == (1, "register broker failed")
    assert asked.ask(106).body == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'
    assert asked.register(topics=rows("T", "U")).code == 0
    assert asked.register(topics=rows("V"), counter=2).code == 0
    assert asked.brokers_of("V") == asked.brokers_of("T")


def test_a_wrong_checksum_is_refused_and_none_is_fine(asked: Asked) -> None:
    answer = asked.register(bodyCrc32=12345)
    assert (answer.code, answer.remark) == (1, "crc32 not match")
    assert asked.register(bodyCrc32=0).code == 0


def test_a_slave_learns_its_master(asked: Asked) -> None:
    assert asked.register(address="10.0.0.1:10911").ext == {}
    answer = asked.register(address="10.0.0.2:10911", broker_id=1)
    assert answer.ext == {"masterAddr": "10.0.0.1:10911", "haServerAddr": "10.0.0.1:10912"}


def test_a_slaves_topics_do_not_count(asked: Asked) -> None:
    asked.register(address="10.0.0.2:10911", broker_id=1, topics=rows("S", "U"))
    assert asked.route("S") is None


def test_a_table_of_the_same_version_only_adds(asked: Asked) -> None:
    asked.register(topics=rows("T", "U"), counter=5)
    asked.register(topics={"T": topic_row("T", queues=9), "V": topic_row("V")}, counter=5)
    route = asked.route("T")
    assert route is not None
    assert route["queueDatas"][0]["readQueueNums"] == 4
    assert asked.route("V") is not None
    asked.register(topics={"T": topic_row("T", queues=9), "V": topic_row("V")}, counter=6)
    route = asked.route("T")
    assert route is not None
    assert route["queueDatas"][0]["readQueueNums"] == 9
    # What a table does not name any more stays, unless the name server is set otherwise.
    assert asked.route("U") is not None


def test_topics_that_are_no_longer_named_go_when_set_so(tmp_path: Path) -> None:
    asked = Asked(tmp_path, deleteTopicWithBrokerRegistration="true")
    asked.register(topics=rows("T", "U", "V"))
    asked.register(topics=rows("T", "V"), counter=2)
    assert asked.route("U") is None
    assert asked.route("V") is not None


def test_the_same_address_under_another_id_is_the_same_broker(asked: Asked) -> None:
    asked.register(address="10.0.0.1:10911")
    asked.register(address="10.0.0.2:10911", broker_id=1)
    asked.register(address="10.0.0.2:10911", broker_id=0, counter=2)
    assert asked.brokers_of("T") == {"broker-a": {"0": "10.0.0.2:10911"}}


def test_a_former_master_is_answered_and_not_believed(asked: Asked) -> None:
    asked.register(address="10.0.0.2:10911", state=5)
    assert asked.register(address="10.0.0.1:10911", state=4).code == 0
    assert asked.brokers_of("T") == {"broker-a": {"0": "10.0.0.2:10911"}}


def compressed(entries: list[str], *, tail: bytes = b"") -> bytes:
    """Returns the compressed form of a registration, as Java writes it."""
    version = b'{"counter":3,"stateVersion":0,"timestamp":9}'
    parts = [struct.pack(">i", len(version)), version, struct.pack(">i", len(entries))]
    for entry in entries:
        parts += [struct.pack(">i", len(entry.encode())), entry.encode()]
    parts += [struct.pack(">i", 2), b"[]", tail]
    return zlib.compress(b"".join(parts), 9)


@pytest.mark.parametrize("tail", [b"", struct.pack(">i", 0)])
@pytest.mark.parametrize("end", ["", "{}", '{"message.type":"FIFO x"}'])
def test_the_compressed_form_is_read(asked: Asked, tail: bytes, end: str) -> None:
    body = compressed([f"T 3 5 6 SINGLE_TAG {end}", f"U 1 1 4 MULTI_TAG {end}"], tail=tail)
    assert asked.register(body=body, compressed="true").code == 0
    route = asked.route("T")
    assert route is not None
    assert route["queueDatas"] == [
        {
            "brokerName": "broker-a",
            "perm": 6,
            "readQueueNums": 3,
            "topicSysFlag": 0,
            "writeQueueNums": 5,
        }
    ]


def test_an_old_broker_registers_with_a_bare_table(asked: Asked) -> None:
    wrapper = json.loads(registration_body(rows("T", "U")))["topicConfigSerializeWrapper"]
    assert asked.register(body=json.dumps(wrapper).encode(), version=36).code == 0
    assert asked.route("T") is not None


def test_a_broker_without_a_body_has_no_topics(asked: Asked) -> None:
    assert asked.register(body=b"").code == 0
    assert asked.ask(206).body == b'{"topicList":[]}'
    assert b"broker-a" in asked.ask(106).body


def test_bare_integer_keys_and_numbers_as_texts_are_read(asked: Asked) -> None:
    body = (
        b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":"3",'
        b'"timestamp":7},"topicConfigTable":{"T":{"perm":"6","readQueueNums":2,"topicName":"T",'
        b'"writeQueueNums":2},"U":{}},"topicQueueMappingInfoMap":{"S":{"currIdMap":{0:1,1:2}}}}}'
    )
    assert asked.register(body=body).code == 0
    route = asked.route("T")
    assert route is not None
    assert route["queueDatas"][0]["perm"] == 6


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'{"topicConfigSerializeWrapper":[]}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":[]}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":3,"U":4}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":[]},"U":{}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":99999999999},"U":{}}}}',
        b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":true}}}',
        b"[" * 100_000,
        b"\xff\xfe\x00",
    ],
)
def test_a_body_that_cannot_be_read_is_refused_and_changes_nothing(
    asked: Asked, body: bytes
) -> None:
    asked.register()
    before = asked.ask(106).body
    answer = asked.register("other", "10.9.9.9:1", body=body)
    assert answer.code == 1
    assert answer.remark is not None
    assert answer.remark.startswith("the body cannot be read")
    assert asked.ask(106).body == before


@pytest.mark.parametrize(
    "body",
    [
        b"no zlib",
        compressed(["T 3 5 6 SINGLE_TAG ", "U 1 1"]),
        compressed(["T 3 5 6 SINGLE_TAG ", "U 1 1 x SINGLE_TAG"]),
        compressed(["T 3 5 6 SINGLE_TAG ", "U 1 1 6 SINGLE_TAG"])[:-9],
        zlib.compress(struct.pack(">i", 1 << 30)),
        zlib.compress(struct.pack(">i", -5)),
        zlib.compress(struct.pack(">ii", 0, 1 << 30)),
        zlib.compress(b"\0" * (130 << 20)),
    ],
    ids=["no zlib", "short entry", "no number", "cut", "long", "negative", "many", "bomb"],
)
def test_a_compressed_body_that_cannot_be_read_is_refused(asked: Asked, body: bytes) -> None:
    answer = asked.register(body=body, compressed="true")
    assert answer.code == 1
    assert answer.remark is not None
    assert answer.remark.startswith("the body cannot be read")


def test_a_large_registration_is_read_too(asked: Asked) -> None:
    topics = rows(*(f"topic-{i}" for i in range(3000)))
    assert len(registration_body(topics)) > 256 << 10
    assert asked.register(topics=topics).code == 0
    assert asked.route("topic-2999") is not None


def test_data_versions_are_compared(asked: Asked) -> None:
    fields = {
        "brokerName": "broker-a",
        "brokerAddr": "10.0.0.1:10911",
        "clusterName": CLUSTER,
        "brokerId": 0,
    }
    body = b'{"counter":1,"stateVersion":0,"timestamp":7}'
    answer = asked.ask(322, fields, body)
    assert (answer.ext, answer.body) == ({"changed": "true"}, b"")
    asked.register()
    answer = asked.ask(322, fields, body)
    assert answer.ext == {"changed": "false"}
    assert json.loads(answer.body) == {"counter": 1, "stateVersion": 0, "timestamp": 7}
    # 4.9 has no stateVersion; a missing one is 0.
    assert asked.ask(322, fields, b'{"counter":1,"timestamp":7}').ext == {"changed": "false"}
    assert asked.ask(322, fields, b'{"counter":2,"timestamp":7}').ext == {"changed": "true"}


@pytest.mark.parametrize("code", [322, 904])
def test_a_question_or_heartbeat_keeps_a_broker_alive(asked: Asked, code: int) -> None:
    fields = {
        "brokerName": "broker-a",
        "brokerAddr": "10.0.0.1:10911",
        "clusterName": CLUSTER,
        "brokerId": 0,
    }
    asked.register()
    asked.now_ms += 100_000
    assert asked.ask(code, fields).code == 0
    asked.now_ms += 100_000
    assert asked.requests.table.expire(asked.now_ms) == ([], [])
    asked.now_ms += 20_001
    assert asked.requests.table.expire(asked.now_ms) == ([asked.link], [])
    assert asked.route("T") is None


def test_a_broker_sets_for_how_long_it_counts(asked: Asked) -> None:
    asked.register(heartbeatTimeoutMillis=10_000)
    asked.now_ms += 10_000
    assert asked.requests.table.expire(asked.now_ms)[0] == []
    asked.now_ms += 1
    assert asked.requests.table.expire(asked.now_ms)[0] == [asked.link]


def test_who_leaves_is_gone_at_once(asked: Asked) -> None:
    asked.register("broker-a", "10.0.0.1:10911")
    asked.register("broker-b", "10.0.0.2:10911", topics=rows("T", "B"))
    asked.register("broker-b", "10.0.0.3:10911", broker_id=1)
    fields = {"brokerName": "broker-b", "clusterName": CLUSTER}
    assert asked.ask(104, {**fields, "brokerAddr": "10.0.0.2:10911", "brokerId": 0}).code == 0
    assert asked.brokers_of("B") == {"broker-b": {"1": "10.0.0.3:10911"}}
    assert asked.ask(104, {**fields, "brokerAddr": "10.0.0.3:10911", "brokerId": 1}).code == 0
    assert asked.route("B") is None
    assert asked.brokers_of("T") == {"broker-a": {"0": "10.0.0.1:10911"}}
    assert json.loads(asked.ask(106).body)["clusterAddrTable"] == {CLUSTER: ["broker-a"]}


def test_a_closed_connection_takes_its_brokers_along_and_no_others(asked: Asked) -> None:
    first, second = Connection(asked.hub).link, Connection(asked.hub).link
    asked.register("broker-a", "10.0.0.1:10911", link=first)
    asked.register("broker-b", "10.0.0.2:10911", link=second)
    # It reconnects before the old connection is known to be dead.
    asked.register("broker-a", "10.0.0.1:10911", link=second)
    asked.requests.table.channel_closed(first)
    assert asked.brokers_of("T") is not None
    assert len(asked.brokers_of("T") or {}) == 2
    asked.requests.table.channel_closed(second)
    assert asked.route("T") is None
    asked.requests.table.channel_closed(second)


def test_a_changed_address_is_seen_at_once(asked: Asked) -> None:
    asked.register(address="10.0.0.1:10911")
    assert asked.brokers_of("T") == {"broker-a": {"0": "10.0.0.1:10911"}}
    asked.register(address="10.0.0.7:10911")
    assert asked.brokers_of("T") == {"broker-a": {"0": "10.0.0.7:10911"}}


def test_write_permission_is_taken_and_given_back(asked: Asked) -> None:
    asked.register()

    def perms() -> list[int]:
        route = asked.route("T")
        assert route is not None
        return [row["perm"] for row in route["queueDatas"]]

    assert asked.ask(205, {"brokerName": "broker-a"}).ext == {"wipeTopicCount": "2"}
    assert perms() == [4]
    # The same version does not bring it back, a new one does.
    asked.register()
    assert perms() == [4]
    asked.register(counter=2)
    assert perms() == [6]
    asked.ask(205, {"brokerName": "broker-a"})
    assert asked.ask(327, {"brokerName": "broker-a"}).ext == {"addTopicCount": "2"}
    assert perms() == [6]
    assert asked.ask(205, {"brokerName": "nobody"}).ext == {"wipeTopicCount": "0"}


def test_topics_are_deleted_and_entered(asked: Asked) -> None:
    asked.register("broker-a", "10.0.0.1:10911")
    asked.register("broker-b", "10.0.0.2:10911")
    assert asked.ask(216, {"topic": "T", "clusterName": "elsewhere"}).code == 0
    assert len(asked.brokers_of("T") or {}) == 2
    assert asked.ask(216, {"topic": "T", "clusterName": CLUSTER}).code == 0
    assert asked.route("T") is None
    assert asked.ask(216, {"topic": "TBW102"}).code == 0
    assert asked.route("TBW102") is None
    assert asked.ask(216, {"topic": "TBW102"}).code == 0
    body: dict[str, Any] = {
        "queueDatas": [
            {"brokerName": "broker-b", "perm": 6, "readQueueNums": 8, "writeQueueNums": 8},
            {"brokerName": "nobody", "perm": 6, "readQueueNums": 8, "writeQueueNums": 8},
        ]
    }
    assert asked.ask(217, {"topic": "N"}, json.dumps(body).encode()).code == 0
    assert asked.brokers_of("N") == {"broker-b": {"0": "10.0.0.2:10911"}}
    assert asked.ask(217, {"topic": "N"}, b'{"queueDatas":[1]}').code == 1


def test_lists(asked: Asked) -> None:
    asked.register("broker-a", "10.0.0.1:10911", topics=rows("T", "U"))
    asked.register(
        "broker-b",
        "10.0.0.2:10911",
        topics={"X": topic_row("X", flags=1), "Y": topic_row("Y", flags=3), **rows("Z", flags=2)},
        clusterName="other",
    )
    assert topics_in(asked.ask(206)) == ["T", "U", "X", "Y", "Z"]
    assert topics_in(asked.ask(224, {"cluster": CLUSTER})) == ["T", "U"]
    assert topics_in(asked.ask(224, {"cluster": "nowhere"})) == []
    assert topics_in(asked.ask(311)) == ["X", "Y"]
    assert topics_in(asked.ask(312)) == ["Y", "Z"]
    assert topics_in(asked.ask(313)) == ["Z"]
    answer = asked.ask(304)
    assert topics_in(answer) == [CLUSTER, "broker-a", "broker-b", "other"]
    assert json.loads(answer.body)["brokerAddr"] == "10.0.0.1:10911"


def test_lists_can_be_switched_off(tmp_path: Path) -> None:
    asked = Asked(tmp_path, enableAllTopicList="false", enableTopicList="false")
    for code, ext in ((206, {}), (224, {"cluster": CLUSTER}), (311, {}), (312, {}), (313, {})):
        answer = asked.ask(code, ext)
        assert (answer.code, answer.remark) == (1, "disable")


def test_the_cluster_and_the_members_of_a_group(asked: Asked) -> None:
    asked.register()
    asked.register(address="10.0.0.2:10911", broker_id=2, enableActingMaster="true")
    assert json.loads(asked.ask(106).body) == {
        "brokerAddrTable": {
            "broker-a": {
                "brokerAddrs": {"0": "10.0.0.1:10911", "2": "10.0.0.2:10911"},
                "brokerName": "broker-a",
                "cluster": CLUSTER,
                "enableActingMaster": True,
            }
        },
        "clusterAddrTable": {CLUSTER: ["broker-a"]},
    }
    fields = {"clusterName": CLUSTER, "brokerName": "broker-a"}
    group = json.loads(asked.ask(901, fields).body)["brokerMemberGroup"]
    assert group == {
        "brokerAddrs": {"0": "10.0.0.1:10911", "2": "10.0.0.2:10911"},
        "brokerName": "broker-a",
        "cluster": CLUSTER,
    }
    nobody = asked.ask(901, {"clusterName": CLUSTER, "brokerName": "x"})
    assert json.loads(nobody.body)["brokerMemberGroup"]["brokerAddrs"] == {}


def test_a_broker_that_went_while_its_body_was_read_is_not_kept(asked: Asked) -> None:
    gone = Connection(asked.hub).link
    gone.lost(None)
    assert asked.register(link=gone).code == 0
    assert asked.route("T") is None
