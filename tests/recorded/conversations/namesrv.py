"""The name server: brokers that register, routes, lists, permissions, the KV configuration."""

import struct
import zlib
from collections.abc import Mapping
from typing import Final

from recorded.conversation import (
    Advance,
    Close,
    Conversation,
    Do,
    Request,
    good,
    malformed,
    oneway,
    refused,
    step,
)
from recorded.requests import compact, without

__all__ = ["CONVERSATIONS"]

_VERSION: Final = {"counter": 1, "stateVersion": 0, "timestamp": 7}


def _rows(*names: str, **more: object) -> dict[str, dict[str, object]]:
    return {
        name: {
            "attributes": {},
            "order": False,
            "perm": 6,
            "readQueueNums": 4,
            "topicFilterType": "SINGLE_TAG",
            "topicName": name,
            "topicSysFlag": 0,
            "writeQueueNums": 4,
            **more,
        }
        for name in names
    }


def _body(topics: Mapping[str, Mapping[str, object]]) -> bytes:
    wrapper = {"dataVersion": _VERSION, "topicConfigTable": topics}
    return compact({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})


def _compressed(*entries: str) -> bytes:
    """Returns the compressed form of a registration."""
    version = compact(_VERSION)
    rows = [entry.encode() for entry in entries]
    plain = struct.pack(">I", len(version)) + version + struct.pack(">I", len(rows))
    plain += b"".join(struct.pack(">I", len(row)) + row for row in rows) + struct.pack(">I", 0)
    return zlib.compress(plain, 9)


def _fields(broker_id: int = 0, body: bytes = b"", **more: object) -> dict[str, object]:
    fields: dict[str, object] = {
        "brokerName": "b",
        "brokerAddr": f"10.0.0.{1 + broker_id}:10911",
        "clusterName": "c",
        "haServerAddr": f"10.0.0.{1 + broker_id}:10912",
        "brokerId": broker_id,
        "compressed": False,
        "bodyCrc32": zlib.crc32(body) & 0x7FFFFFFF,
    }
    return fields | more


_TOPICS: Final = _body(
    _rows("t", "u") | _rows("unit", topicSysFlag=1) | _rows("sub", topicSysFlag=3)
)
_SMALL: Final = _compressed("t 4 4 6 SINGLE_TAG", "z 2 2 6 SINGLE_TAG")


def _registered(by: str = "B") -> Request:
    return step(103, _fields(body=_TOPICS), _TOPICS, by=by, note="a master with four topics")


_BROKERS = Conversation(
    "brokers_of_a_name_server",
    [
        good(106, note="nobody is there"),
        good(103, _fields(body=_TOPICS), _TOPICS, by="B"),
        good(
            103, _fields(1, b"", enableActingMaster=True), by="C", note="a replica without topics"
        ),
        good(
            103,
            _fields(0, _SMALL, brokerName="d", brokerAddr="10.0.1.1:10911", compressed=True),
            _SMALL,
            by="D",
        ),
        good(103, _fields(body=_TOPICS), _TOPICS, by="B", note="again"),
        good(
            103,
            _fields(0, brokerName="old", brokerAddr="10.0.2.1:10911", bodyCrc32=0),
            compact({"dataVersion": _VERSION, "topicConfigTable": _rows("t", "v")}),
            by="E",
            version=30,
        ),
        good(106),
        good(901, {"clusterName": "c", "brokerName": "b"}),
        refused(901, {"clusterName": "c", "brokerName": "none"}, answers=(0,)),
        malformed(901, {"clusterName": "c"}),
        malformed(106, {"unknown": "field"}, b"and a body"),
        good(
            322,
            {"brokerName": "b", "brokerAddr": "10.0.0.1:10911", "clusterName": "c", "brokerId": 0},
            compact(_VERSION),
        ),
        good(
            322,
            {"brokerName": "b", "brokerAddr": "10.0.0.1:10911", "clusterName": "c"},
            compact(_VERSION | {"counter": 2}),
        ),
        refused(
            322, {"brokerAddr": "10.9.9.9:1", "clusterName": "c"}, compact(_VERSION), answers=(0,)
        ),
        malformed(322, {}),
        malformed(322, {"brokerAddr": "x", "clusterName": "c"}, b"{"),
        good(904, {"clusterName": "c", "brokerAddr": "10.0.0.1:10911", "brokerName": "b"}),
        refused(904, {"clusterName": "c", "brokerAddr": "10.9.9.9:1"}, answers=(0,)),
        malformed(904, {"clusterName": "c"}),
        refused(103, _fields(body=_TOPICS, bodyCrc32=5), _TOPICS, answers=(1,)),
        malformed(103, {}),
        malformed(103, without(_fields(body=_TOPICS), "brokerId"), _TOPICS),
        malformed(103, _fields(brokerId="first", bodyCrc32=0)),
        malformed(103, _fields(body=b"{"), b"{"),
        malformed(103, _fields(body=b"[]"), b"[]"),
        malformed(103, _fields(body=b"no zlib", compressed=True), b"no zlib"),
        good(105, {"topic": "t"}, note="a route over three brokers"),
        good(
            104,
            {"brokerName": "d", "brokerAddr": "10.0.1.1:10911", "clusterName": "c", "brokerId": 0},
        ),
        refused(
            104,
            {"brokerName": "x", "brokerAddr": "y", "clusterName": "c", "brokerId": 0},
            answers=(0,),
        ),
        malformed(104, {"brokerName": "d"}),
        malformed(104, {"brokerName": "d", "brokerAddr": "y", "clusterName": "c", "brokerId": "x"}),
        good(105, {"topic": "t"}),
        Close("E"),
        good(106, note="one is gone with its connection"),
        Advance(60_000),
        oneway(good(904, {"clusterName": "c", "brokerAddr": "10.0.0.1:10911"})),
        Advance(100_000),
        Do("expire brokers", closes=("C",)),
        good(106, note="who was heard of"),
    ],
    server="namesrv",
)

_ROUTES = Conversation(
    "routes",
    [
        refused(105, {"topic": "t"}, answers=(17,), note="nobody has registered"),
        _registered(),
        good(105, {"topic": "t"}),
        good(105, {"topic": "t", "acceptStandardJsonOnly": True}),
        good(105, {"topic": "t", "__ZONE_MODE": True, "__ZONE_NAME": "z"}),
        refused(105, {"topic": "none"}, answers=(17,)),
        malformed(105, {}),
        malformed(105, {"topics": "t"}, b"and a body"),
        good(206),
        malformed(206, {"unknown": "field"}, b"and a body"),
        good(224, {"cluster": "c"}),
        refused(224, {"cluster": "none"}, answers=(0, 1)),
        malformed(224, {}),
        good(304),
        malformed(304, {"unknown": "field"}, b"and a body"),
        good(311),
        malformed(311, {"unknown": "field"}, b"and a body"),
        good(312),
        malformed(312, {"unknown": "field"}, b"and a body"),
        good(313),
        malformed(313, {"unknown": "field"}, b"and a body"),
        good(205, {"brokerName": "b"}),
        good(105, {"topic": "t"}, note="nobody writes"),
        refused(205, {"brokerName": "none"}, answers=(0,)),
        malformed(205, {}),
        good(327, {"brokerName": "b"}),
        good(105, {"topic": "t"}),
        refused(327, {"brokerName": "none"}, answers=(0,)),
        malformed(327, {}),
        good(
            217,
            {"topic": "new"},
            compact(
                {
                    "queueDatas": [
                        {
                            "brokerName": "b",
                            "perm": 6,
                            "readQueueNums": 1,
                            "writeQueueNums": 1,
                            "topicSysFlag": 0,
                        },
                    ]
                }
            ),
        ),
        good(105, {"topic": "new"}),
        refused(
            217, {"topic": "other"}, compact({"queueDatas": [{"brokerName": "none"}]}), answers=(0,)
        ),
        malformed(217, {}),
        malformed(217, {"topic": "x"}, b"{"),
        malformed(217, {"topic": "x"}, compact({"queueDatas": 3})),
        malformed(217, {"topic": "x"}, compact({"queueDatas": [{"perm": 6}]})),
        good(216, {"topic": "new"}),
        good(216, {"topic": "u", "clusterName": "c"}),
        refused(216, {"topic": "none"}, answers=(0,)),
        malformed(216, {}),
        refused(105, {"topic": "new"}, answers=(17,)),
        step(318, body=b"enableTopicList=false\nenableAllTopicList=false"),
        refused(206, answers=(1,)),
        refused(224, {"cluster": "c"}, answers=(1,)),
        refused(311, answers=(1,)),
        refused(312, answers=(1,)),
        refused(313, answers=(1,)),
    ],
    server="namesrv",
)

_KEY: Final = {"namespace": "n", "key": "k"}

_KV = Conversation(
    "kv_and_settings_of_a_name_server",
    [
        good(100, _KEY | {"value": "v \u4e16"}),
        good(101, _KEY),
        good(100, _KEY | {"key": "k2", "value": ""}),
        good(219, {"namespace": "n"}),
        refused(101, _KEY | {"key": "none"}, answers=(22,)),
        refused(219, {"namespace": "none"}, answers=(22,)),
        refused(100, _KEY | {"value": "x" * 65_536}, answers=(1,)),
        malformed(100, _KEY),
        malformed(100, {}),
        malformed(101, {"namespace": "n"}),
        malformed(219, {}),
        good(102, _KEY),
        refused(102, _KEY | {"key": "none"}, answers=(0,)),
        malformed(102, {"key": "k"}),
        refused(101, _KEY, answers=(22,)),
        _registered(),
        good(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "t", "value": "b:4"}),
        good(318, body=b"orderMessageEnable=true\nreturnOrderTopicConfigToBroker=true"),
        good(105, {"topic": "t"}, note="with the order of its queues"),
        good(103, _fields(body=_TOPICS), _TOPICS, by="B"),
        good(319),
        malformed(319, {"unknown": "field"}, b"and a body"),
        refused(318, body=b"kvConfigPath=x", answers=(16,)),
        refused(318, body=b"listenPort=1", answers=(16,)),
        refused(318, body=b"no.such.key=1", answers=(16,)),
        malformed(318, body=b"orderMessageEnable=perhaps"),
        malformed(318, body=b"scanNotActiveBrokerInterval=0"),
        malformed(318, body=b"\xff\xfe"),
        refused(10, answers=(3,), note="a code of brokers"),
        refused(34, answers=(3,)),
        refused(99, answers=(3,)),
        refused(-1, answers=(3,)),
        refused(32_767, answers=(3,)),
    ],
    server="namesrv",
)

CONVERSATIONS: Final = (_BROKERS, _ROUTES, _KV)
