"""Topics as tools create, change, list and delete them."""

from typing import Final

from recorded.conversation import Advance, Conversation, Do, good, malformed, refused, step
from recorded.requests import compact, create, send_fields, topic_fields, without

__all__ = ["CONVERSATIONS"]


def _row(name: str, **more: object) -> dict[str, object]:
    row: dict[str, object] = {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": 2,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": 2,
    }
    return row | more


def _list(*rows: dict[str, object]) -> bytes:
    return compact({"topicConfigList": list(rows)})


def _mapping(broker: str = "b", epoch: int = 1, gen: int = 0) -> bytes:
    item = {"gen": gen, "queueId": 0, "bname": broker, "logicOffset": 0, "startOffset": 0}
    return compact(
        {
            "topic": "s",
            "bname": broker,
            "epoch": epoch,
            "totalQueues": 1,
            "hostedQueues": {"0": [item]},
        }
    )


_STATIC = Conversation(
    "static_topics",
    [
        good(513, topic_fields("s", 1), _mapping()),
        good(351, {"topic": "s", "lo": True}, note="with its mapping"),
        good(21, note="with mappings"),
        refused(513, topic_fields("s", 1), _mapping(epoch=0), answers=(1,), note="an older epoch"),
        refused(513, topic_fields("s", 1), _mapping(broker="a"), answers=(1,)),
        refused(513, topic_fields("TBW102", 1), _mapping()),
        malformed(513),
        malformed(513, topic_fields("s", 1), b"["),
        malformed(513, topic_fields("s", 1), _mapping(gen=-1)),
        step(310, send_fields("s"), b"0"),
        refused(310, send_fields("s", 1), b"0", answers=(501,)),
    ],
)

_TOPICS = Conversation(
    "topics",
    [
        good(21, note="the broker's own"),
        good(17, topic_fields("t", 2)),
        good(17, topic_fields("t", 4, 4, order=True), note="changed"),
        good(17, topic_fields("typed", attributes="+message.type=FIFO")),
        good(17, topic_fields("typed", attributes="-message.type")),
        good(17, topic_fields("units", attributes="+queue.type=BatchCQ")),
        good(
            17,
            without(
                topic_fields("bare"), "defaultTopic", "topicFilterType", "topicSysFlag", "order"
            ),
        ),
        good(18, body=_list(_row("l1"), _row("l2", order=True, topicFilterType="MULTI_TAG"))),
        good(351, {"topic": "t"}),
        good(351, {"topic": "l2"}),
        good(351, {"topic": "units", "lo": True}),
        good(21),
        good(305),
        malformed(305, {"unknown": "field"}, b"and a body"),
        malformed(21, {"unknown": "field"}, b"and a body"),
        refused(17, topic_fields("TBW102")),
        refused(17, topic_fields("bad/name")),
        refused(17, topic_fields("t" * 128)),
        refused(17, topic_fields("")),
        refused(17, topic_fields("t", -1)),
        refused(17, topic_fields("t", 1 << 30)),
        refused(17, topic_fields("t", perm=99)),
        refused(17, topic_fields("typed", attributes="+no.such=1")),
        refused(17, topic_fields("kept", attributes="+cleanup.policy=COMPACTION")),
        refused(17, topic_fields("mixed", attributes="+message.type=MIXED")),
        malformed(17, {}),
        malformed(17, without(topic_fields("t"), "perm")),
        malformed(17, topic_fields("t", readQueueNums="two")),
        malformed(17, topic_fields("t", attributes="no changes")),
        refused(18, body=_list(_row("l3"), _row("TBW102"))),
        good(18, body=_list()),
        malformed(18),
        malformed(18, body=b"["),
        malformed(18, body=compact({"topicConfigList": [3]})),
        refused(351, {"topic": "l3"}, answers=(17,), note="none of a list that was refused"),
        malformed(351, {}),
        step(17, topic_fields("t", 2)),
        step(310, send_fields("t"), b"0"),
        Advance(1_000),
        step(310, send_fields("t"), b"1"),
        good(202, {"topic": "t"}),
        Advance(10_000),
        Do("sample"),
        good(202, {"topic": "t"}, note="with a rate"),
        refused(202, {"topic": "none"}, answers=(17,)),
        malformed(202, {}),
        good(215, {"topic": "t"}),
        refused(202, {"topic": "t"}, answers=(17,)),
        refused(215, {"topic": "t"}, answers=(0,), note="it is gone already"),
        refused(215, {"topic": "TBW102"}),
        refused(215, {"topic": " "}),
        malformed(215, {}),
        good(30, {"topic": "t", "queueId": 0}, answers=(0, 1, 17)),
        good(316),
        malformed(316, {"unknown": "field"}, b"and a body"),
        good(306),
        malformed(306, {"unknown": "field"}, b"and a body"),
        good(329),
        malformed(329, {"unknown": "field"}, b"and a body"),
    ],
)

_FULL = Conversation(
    "topics_at_their_limits",
    [
        create("t"),
        refused(17, topic_fields("u")),
        refused(18, body=_list(_row("u"))),
        refused(310, send_fields("u"), b"x"),
        refused(17, topic_fields("t", 900)),
    ],
    # The broker's own take the other places.
    settings={"topicsMax": "13", "queuesMax": "1100"},
)

_LATER = Conversation(
    "a_later_release",
    [
        create("t"),
        refused(17, topic_fields("TBW102"), answers=(29,)),
        refused(215, {"topic": "TBW102"}, answers=(29,)),
        refused(200, body=compact({"groupName": "bad group"}), answers=(29,)),
        good(310, send_fields("t"), b"x"),
        good(26),
        refused(310, send_fields("none", c="none"), b"x", answers=(17,)),
        refused(99, answers=(3,)),
    ],
    settings={"reportedVersion": "V5_3_3"},
)

CONVERSATIONS: Final = (_TOPICS, _STATIC, _FULL, _LATER)
