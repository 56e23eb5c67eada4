"""Sends: single messages with long and short names, batches, messages sent back, replies."""

from typing import Final

from recorded.conversation import (
    Answered,
    Close,
    Conversation,
    Do,
    From,
    good,
    malformed,
    oneway,
    refused,
    step,
)
from recorded.requests import (
    batch_body,
    compact,
    create,
    heartbeat,
    pull_fields,
    send_fields,
    send_fields_long,
    without,
)

__all__ = ["CONVERSATIONS"]

_KEYED: Final = {"KEYS": "k1 k2", "UNIQ_KEY": "7F00000100002A9F0001", "WAIT": "true", "TAGS": "a"}

# What a client got of a pop, and what is its own.
_POPPED: Final = {"POP_CK": "0 1749988800000 60000 0 0 b 0 0", "own": "kept"}

_SEND = Conversation(
    "send",
    [
        create("t", 2),
        create("read_only", perm=4),
        step(200, body=compact({"groupName": "g", "retryMaxTimes": 3})),
        good(310, send_fields("t"), b"one"),
        good(310, send_fields("t", 1, _KEYED), b"two, with keys"),
        good(310, send_fields("t", -1), b"any queue"),
        good(310, send_fields("t", 0, {"own": "\u00e4\u4e16"}, h=7), "\u4e16\u754c".encode()),
        good(310, send_fields("t", f=1), b"\x1f\x8b no zlib", note="said to be compressed"),
        good(310, send_fields("made"), b"made", note="a topic that is made by its first message"),
        good(310, send_fields("t", 0, {"DELAY": "3"}), b"later"),
        good(310, send_fields("t", n="another"), b"x", note="the name of another broker"),
        good(
            310, without(send_fields("t"), "j", "k", "l", "m", "n"), b"x", note="only what must be"
        ),
        good(10, send_fields_long("t"), b"long names"),
        good(10, send_fields_long("made_too", 3), b"long names"),
        good(310, send_fields("t", 0, _POPPED), b"popped, and sent on"),
        good(10, send_fields_long("t", 0, _POPPED), b"popped, and sent on"),
        oneway(good(310, send_fields("t"), b"without an answer")),
        oneway(refused(310, send_fields("none", c="none"), b"nobody hears of it")),
        good(310, send_fields("%RETRY%g", j=1, l=3), b"a retry", note="a group's retry topic"),
        refused(
            310, send_fields("%RETRY%g", j=4, l=3), b"dead", answers=(0,), note="the last retry"
        ),
        refused(310, send_fields("%RETRY%g", j=4, l=3), b"dead", answers=(0,), version=120),
        refused(310, send_fields("t", 0), b"", note="an empty body", answers=(0, 13)),
        refused(310, send_fields("none", c="none"), b"x", answers=(17,)),
        good(310, send_fields("read_only"), b"x", note="a topic that is not to be written"),
        refused(310, send_fields("t", 2), b"x", answers=(1,), note="a queue that is not there"),
        refused(310, send_fields("bad name"), b"x"),
        refused(310, send_fields("t" * 128), b"x"),
        refused(310, send_fields("TBW102"), b"x", answers=(0, 1)),
        refused(310, send_fields("SCHEDULE_TOPIC_XXXX"), b"x", answers=(16,)),
        refused(310, send_fields("%RETRY%unknown"), b"x", answers=(0, 26)),
        refused(
            310, send_fields("t"), b"x" * 65_537, answers=(13,), note="a body that is too long"
        ),
        refused(310, send_fields("t", 0, {"DELAY": "soon"}), b"x", answers=(0, 1, 13)),
        refused(10, send_fields_long("none", c="none"), b"x", answers=(17,)),
        refused(10, send_fields_long("t", 9), b"x", answers=(1,)),
        malformed(310, {}, b"x"),
        malformed(310, without(send_fields("t"), "b"), b"x"),
        malformed(310, without(send_fields("t"), "a"), b"x"),
        malformed(310, without(send_fields("t"), "g"), b"x"),
        malformed(310, send_fields("t", e="one"), b"x"),
        malformed(310, send_fields("t", g="now"), b"x"),
        malformed(310, send_fields("t", f=2**31), b"x"),
        malformed(310, send_fields("t", j="many"), b"x"),
        malformed(310, send_fields("t", i="no pairs at all"), b"x"),
        malformed(310, send_fields("t", k="perhaps", m="perhaps"), b"x"),
        malformed(310, send_fields_long("t"), b"x", note="the names of the other version"),
        malformed(10, {}, b"x"),
        malformed(10, send_fields("t"), b"x", note="the names of the other version"),
        malformed(10, send_fields_long("t", e=""), b"x"),
        step(11, pull_fields("t"), note="what was stored"),
        step(11, pull_fields("t", queue_id=1)),
        step(11, pull_fields("%DLQ%g")),
    ],
)

_THREE: Final = batch_body([(b"1", {}), (b"2", {"TAGS": "b"}), (b"3", {"KEYS": "k"})])
_BATCH: Final = {"UNIQ_KEY": "BATCH"}

_SEND_BATCH = Conversation(
    "send_batch",
    [
        create("t"),
        create("units", attributes="+queue.type=BatchCQ"),
        good(320, send_fields("t", m=True), _THREE),
        good(320, send_fields("t", 0, {"TAGS": "of all", "UNIQ_KEY": "U1"}, m=True), _THREE),
        good(310, send_fields("t", m=True), _THREE, note="a batch by the code of single messages"),
        good(10, send_fields_long("t", m=True), _THREE),
        good(320, send_fields("t"), b"one message", note="a single message by the code of batches"),
        good(320, send_fields("made", m=True), _THREE),
        good(320, send_fields("t", 0, _POPPED, m=True), batch_body([(b"1", _POPPED)])),
        oneway(good(320, send_fields("t", m=True), _THREE)),
        good(320, send_fields("units", 0, _BATCH, m=True), _THREE, answers=(0, 13)),
        good(310, send_fields("units", 0, _BATCH), b"a single one", answers=(0, 13)),
        refused(320, send_fields("none", c="none", m=True), _THREE, answers=(17,)),
        refused(320, send_fields("t", 5, m=True), _THREE, answers=(1,)),
        refused(320, send_fields("%RETRY%g", m=True), _THREE, answers=(13,)),
        refused(320, send_fields("t", 0, {"DELAY": "1"}, m=True), _THREE, answers=(0, 13)),
        malformed(320, {}, _THREE),
        malformed(320, send_fields("t", e="x", m=True), _THREE),
        malformed(320, send_fields("t", m=True), b""),
        malformed(320, send_fields("t", m=True), _THREE[:-1]),
        malformed(320, send_fields("t", m=True), b"\xff" * 40),
        malformed(320, send_fields("t", m=True), b"no batch at all"),
        step(11, pull_fields("t"), note="what was stored"),
        step(11, pull_fields("units")),
    ],
)

_NO_WRITES = Conversation(
    "send_to_a_closed_broker",
    [
        create("t"),
        create("ordered", order=True),
        refused(310, send_fields("t"), b"x", answers=(0, 16)),
        refused(310, send_fields("ordered"), b"x", answers=(16,)),
        refused(10, send_fields_long("ordered"), b"x", answers=(16,)),
        refused(320, send_fields("ordered", m=True), _THREE, answers=(16,)),
        step(25, body=b"brokerPermission=6", note="it opens"),
        step(310, send_fields("ordered"), b"x"),
        step(25, body=b"startAcceptSendRequestTimeStamp=1749990000000", note="later"),
        refused(310, send_fields("t"), b"x", answers=(1,)),
        step(25, body=b"autoCreateTopicEnable=false\nstartAcceptSendRequestTimeStamp=0"),
        refused(310, send_fields("new"), b"x", answers=(17,)),
    ],
    settings={"brokerPermission": "4"},
)


def _back(**more: object) -> dict[str, object]:
    fields: dict[str, object] = {
        "offset": From("sent", "msgId", is_offset=True),
        "group": "g",
        "delayLevel": 0,
        "originMsgId": From("sent", "msgId"),
        "originTopic": "t",
        "unitMode": False,
        "maxReconsumeTimes": 16,
    }
    return fields | more


_BACK = Conversation(
    "send_back",
    [
        create("t"),
        step(310, send_fields("t", 0, _KEYED), b"hard work", name="sent"),
        good(36, _back()),
        good(36, _back(delayLevel=5)),
        good(36, _back(delayLevel=-1), note="a dead letter at once"),
        good(36, _back(maxReconsumeTimes=0), note="a dead letter after its last retry"),
        good(36, _back(group="new", maxReconsumeTimes=-1), version=120),
        good(36, without(_back(), "delayLevel", "originMsgId", "originTopic", "unitMode")),
        step(200, body=compact({"groupName": "never", "retryQueueNums": 0})),
        good(36, _back(group="never"), note="a group without retries"),
        oneway(good(36, _back())),
        refused(36, _back(offset=-1)),
        refused(36, _back(offset=7)),
        refused(36, _back(offset=1 << 40)),
        refused(36, _back(group="bad group")),
        malformed(36, {}),
        malformed(36, without(_back(), "group")),
        malformed(36, without(_back(), "offset")),
        malformed(36, _back(offset="far")),
        malformed(36, _back(delayLevel="soon")),
        malformed(36, _back(maxReconsumeTimes="x")),
        step(25, body=b"autoCreateSubscriptionGroup=false"),
        refused(36, _back(group="unknown"), answers=(26,)),
        step(11, pull_fields("SCHEDULE_TOPIC_XXXX", queue_id=2), note="what waits"),
        step(11, pull_fields("%DLQ%g"), note="dead letters"),
    ],
)

_REPLY_TO: Final = {"REPLY_TO_CLIENT": "asker", "CORRELATION_ID": "1", "MSG_TYPE": "reply"}

_REPLY = Conversation(
    "reply",
    [
        create("t"),
        step(34, body=heartbeat("asker", producers=["pg"]), by="B"),
        good(
            325,
            send_fields("c_REPLY_TOPIC", 0, _REPLY_TO),
            b"the reply",
            frames={"B": 1},
            note="it goes to the client that waits",
        ),
        Answered(request=326, by="B", frames={"A": 1}),
        good(
            324,
            send_fields_long("c_REPLY_TOPIC", 0, _REPLY_TO),
            b"the reply",
            frames={"B": 1},
        ),
        Answered(request=326, by="B", frames={"A": 1}, note="taken"),
        refused(325, send_fields("c_REPLY_TOPIC", 0, _REPLY_TO), b"late", frames={"B": 1}),
        Answered(request=326, by="B", code=1, frames={"A": 1}, note="the client refuses"),
        refused(325, send_fields("c_REPLY_TOPIC", 0, {"REPLY_TO_CLIENT": "gone"}), b"x"),
        refused(324, send_fields_long("c_REPLY_TOPIC"), b"x", note="nobody is named"),
        malformed(325, {}, b"x"),
        malformed(325, send_fields("c_REPLY_TOPIC", 0, i="REPLY_TO_CLIENT"), b"x"),
        malformed(324, {}),
        malformed(
            324,
            without(send_fields_long("t", i="REPLY_TO_CLIENT\x01asker"), "queueId"),
            b"x",
            frames={"B": 1},
        ),
        Answered(request=326, by="B", frames={"A": 1}),
        Close("B"),
        refused(325, send_fields("c_REPLY_TOPIC", 0, _REPLY_TO), b"x", note="it is gone"),
    ],
)

_REPEATS = Conversation(
    "send_twice",
    [
        create("t"),
        good(310, send_fields("t", 0, _KEYED), b"once"),
        good(310, send_fields("t", 0, _KEYED), b"once", note="the same again"),
        good(310, send_fields("t", 0, _KEYED | {"UNIQ_KEY": "other"}), b"once"),
        Do("flush"),
        step(11, pull_fields("t")),
    ],
    settings={"deduplicationWindowMinutes": "5", "deduplicationMemoryMB": "1"},
)

CONVERSATIONS: Final = (_SEND, _SEND_BATCH, _NO_WRITES, _BACK, _REPLY, _REPEATS)
