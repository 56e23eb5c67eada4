"""Pulls: found, empty, beside the queue, filtered, held and woken, held and over."""

from typing import Any, Final

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
from recorded.requests import (
    COMMIT,
    SUBSCRIPTION,
    SUSPEND,
    compact,
    consumer,
    create,
    heartbeat,
    pull_fields,
    send_fields,
    subscription,
    without,
)

__all__ = ["CONVERSATIONS"]

_NOT_FOUND, _RETRY_AT_ONCE, _MOVED = 19, 20, 21


def _filled(topic: str = "t") -> list[Request]:
    """Returns steps that store six messages with tags in turn."""
    tags = ("a", "b", "a", "c", "b", "a")
    return [
        step(310, send_fields(topic, 0, {"TAGS": tag, "n": number}), f"{number} {tag}".encode())
        for number, tag in enumerate(tags)
    ]


_PULL = Conversation(
    "pull",
    [
        create("t", 2),
        create("write_only", perm=2),
        *_filled(),
        good(11, pull_fields("t")),
        good(11, pull_fields("t", 4)),
        good(11, pull_fields("t", maxMsgNums=2)),
        good(11, pull_fields("t", maxMsgBytes=200)),
        good(11, pull_fields("t", subscription="a")),
        good(11, pull_fields("t", subscription="b || c")),
        good(11, pull_fields("t", subscription="none"), answers=(_RETRY_AT_ONCE, _NOT_FOUND)),
        good(11, pull_fields("t", expressionType="SQL92", subscription="n > 3"), answers=(0, 1)),
        good(11, pull_fields("t", 6), answers=(_NOT_FOUND,)),
        good(11, pull_fields("t", 7), answers=(_MOVED,)),
        good(11, pull_fields("t", -1), answers=(_MOVED,)),
        good(11, pull_fields("t", queue_id=1), answers=(_NOT_FOUND,)),
        good(11, pull_fields("t", 3, queue_id=1), answers=(_MOVED,)),
        good(11, pull_fields("t", sysFlag=SUBSCRIPTION | COMMIT, commitOffset=5)),
        good(11, pull_fields("t", maxMsgNums=0), answers=(0, _NOT_FOUND, _RETRY_AT_ONCE)),
        good(11, pull_fields("t", mqcoreBulk="true")),
        good(11, pull_fields("t", mqcoreBulk="bodiless")),
        good(11, pull_fields("t", mqcoreBulk="places")),
        good(11, pull_fields("t", consumerGroup="new"), note="a group that is made"),
        good(361, pull_fields("t")),
        good(361, pull_fields("t", 6), answers=(_NOT_FOUND,)),
        good(14, {"consumerGroup": "g", "topic": "t", "queueId": 0}, note="committed by a pull"),
        oneway(good(11, pull_fields("t"))),
        refused(11, pull_fields("none"), answers=(17,)),
        refused(11, pull_fields("write_only"), answers=(16,)),
        refused(11, pull_fields("t", queue_id=2)),
        refused(11, pull_fields("t", queue_id=-1)),
        refused(11, pull_fields("t", sysFlag=0), answers=(24,), note="nobody is online"),
        refused(11, pull_fields("t", subscription="||"), answers=(0, 23)),
        refused(11, pull_fields("t", expressionType="SQL92", subscription="a >")),
        refused(11, pull_fields("t", expressionType="XPATH", subscription="a")),
        refused(361, pull_fields("none"), answers=(17,)),
        refused(361, pull_fields("t", queue_id=2)),
        malformed(11, {}),
        malformed(11, without(pull_fields("t"), "consumerGroup")),
        malformed(11, without(pull_fields("t"), "subVersion")),
        malformed(11, pull_fields("t", queueOffset="first")),
        malformed(11, pull_fields("t", queueId=1 << 31)),
        malformed(11, pull_fields("t", maxMsgBytes="all")),
        malformed(11, pull_fields("t"), b"a body that no pull has", answers=(0,)),
        malformed(361, {}),
        malformed(361, pull_fields("t", sysFlag="x")),
        step(25, body=b"autoCreateSubscriptionGroup=false"),
        refused(11, pull_fields("t", consumerGroup="unknown"), answers=(26,)),
        step(200, body=compact({"groupName": "closed", "consumeEnable": False})),
        refused(11, pull_fields("t", consumerGroup="closed"), answers=(16,)),
        step(353, {"group": "g", "topic": "t", "readable": False}),
        refused(11, pull_fields("t"), answers=(0, 16), note="forbidden"),
        step(25, body=b"brokerPermission=2"),
        refused(11, pull_fields("t"), answers=(16,)),
    ],
)


def _online(expression: str, version: int) -> bytes:
    return heartbeat("c1", consumer("g", subscription("t", expression, version=version)))


_HELD: Final = {"wait_ms": 15_000}


def _held(topic: str, offset: int, by: str, **more: Any) -> Request:
    return good(
        11, pull_fields(topic, offset, wait_ms=15_000, **more), by=by, frames={}, answers=(0, 19)
    )


_PULL_HELD = Conversation(
    "pull_held",
    [
        create("t", 2),
        *_filled(),
        good(11, pull_fields("t", 6, wait_ms=15_000), frames={}, note="held"),
        step(310, send_fields("t"), b"wakes it", by="B", frames={"A": 1, "B": 1}),
        _held("t", 7, "A", subscription="c"),
        step(310, send_fields("t", 0, {"TAGS": "a"}), b"is not for it", by="B"),
        step(310, send_fields("t", 0, {"TAGS": "c"}), b"is", by="B", frames={"A": 1, "B": 1}),
        _held("t", 9, "A"),
        Advance(14_999),
        Advance(1, {"A": 1}),
        _held("t", 9, "A"),
        _held("t", 9, "B"),
        _held("t", 0, "B", queue_id=1),
        step(310, send_fields("t"), b"wakes two", by="C", frames={"A": 1, "B": 1, "C": 1}),
        Advance(20_000, {"B": 1}),
        good(361, pull_fields("t", 10, wait_ms=15_000), frames={}),
        _held("t", 10, "B"),
        Close("B"),
        step(310, send_fields("t"), b"one has gone", by="C", frames={"A": 1, "C": 1}),
        step(25, body=b"longPollingEnable=false"),
        _held("t", 11, "A"),
        Advance(1_000, {"A": 1}),
        good(
            11,
            pull_fields("t", 11, sysFlag=SUBSCRIPTION | SUSPEND | COMMIT, commitOffset=4),
            frames={},
            answers=(19,),
            note="held for no time, with an offset",
        ),
        Advance(1_000, {"A": 1}),
        good(14, {"consumerGroup": "g", "topic": "t", "queueId": 0}, answers=(0, 22)),
    ],
)

_PULL_ONLINE = Conversation(
    "pull_of_members",
    [
        create("t"),
        *_filled(),
        step(
            34, body=_online("a", 2), by="B", frames={"B": 2}, note="a member with a subscription"
        ),
        good(11, pull_fields("t", sysFlag=0, subVersion=2)),
        good(11, pull_fields("t", sysFlag=0, subVersion=1), note="an older version"),
        refused(11, pull_fields("t", sysFlag=0, subVersion=3), answers=(25,)),
        create("u"),
        refused(11, pull_fields("u", sysFlag=0), answers=(24,)),
        step(34, body=_online("b || c", 3), by="B", note="it changes its mind"),
        good(11, pull_fields("t", sysFlag=0, subVersion=3)),
        step(353, {"group": "g", "topic": "t", "readable": False}),
        refused(11, pull_fields("t", sysFlag=0, subVersion=3), answers=(16,), note="forbidden"),
        step(353, {"group": "g", "topic": "t", "readable": True}),
        step(200, body=compact({"groupName": "narrow", "consumeBroadcastEnable": False})),
        step(
            34,
            body=heartbeat("c2", consumer("narrow", subscription("t"), model="BROADCASTING")),
            by="C",
            frames={"C": 2},
        ),
        refused(11, pull_fields("t", consumerGroup="narrow", sysFlag=0), answers=(16,)),
        Close("B"),
        refused(11, pull_fields("t", sysFlag=0, subVersion=3), answers=(24,)),
    ],
)


def _sql(group: str, text: str, version: int = 1) -> bytes:
    wanted = subscription("t", text, version=version, kind="SQL92")
    return heartbeat(f"of {group}", consumer(group, wanted))


_PULL_SQL = Conversation(
    "pull_by_expressions",
    [
        create("t"),
        *_filled(),
        step(34, body=_sql("g", "n BETWEEN 1 AND 3"), by="B", frames={"B": 2}),
        good(11, pull_fields("t", sysFlag=0, subVersion=1, expressionType="SQL92")),
        good(11, pull_fields("t", expressionType="SQL92", subscription="TAGS = 'a'")),
        good(
            11, pull_fields("t", expressionType="SQL92", subscription="n IS NULL"), answers=(19, 20)
        ),
        refused(
            11, pull_fields("t", expressionType="SQL92", subscription="n BETWEEN 1"), answers=(23,)
        ),
        refused(11, pull_fields("t", sysFlag=0, subVersion=9, expressionType="SQL92")),
        step(34, body=_sql("g", "n >", 2), by="B", note="an expression that cannot be read"),
        refused(11, pull_fields("t", sysFlag=0, subVersion=2, expressionType="SQL92")),
        good(
            11,
            pull_fields("t", 6, wait_ms=15_000, expressionType="SQL92", subscription="n > 9"),
            frames={},
        ),
        step(310, send_fields("t", 0, {"n": 9}), b"is not for it", by="C"),
        step(310, send_fields("t", 0, {"n": 10}), b"is", by="C", frames={"A": 1, "C": 1}),
        good(
            46,
            body=compact(
                {
                    "clientId": "x",
                    "group": "g",
                    "subscriptionData": subscription("t", "a > 1", kind="SQL92"),
                }
            ),
        ),
        good(46, body=compact({"subscriptionData": subscription("t", "a")}), note="tags"),
        good(46, body=compact({}), note="nothing to check"),
        refused(46, body=compact({"subscriptionData": subscription("t", "a >", kind="SQL92")})),
        refused(46, body=compact({"subscriptionData": subscription("t", "a", kind="XPATH")})),
        malformed(46, body=b"{"),
        malformed(46),
        Do("sample totals"),
    ],
    settings={"enablePropertyFilter": "true"},
)

_PULL_MOVED = Conversation(
    "pull_of_a_full_broker",
    [
        create("t"),
        good(11, pull_fields("t", 0, wait_ms=15_000), frames={}),
        good(11, pull_fields("t", 0, wait_ms=15_000), frames={"A": 1}, answers=(2, 19)),
        step(310, send_fields("t"), b"x", by="B", frames={"A": 1, "B": 1}),
    ],
    settings={"heldPullsMax": "1"},
)

CONVERSATIONS: Final = (_PULL, _PULL_HELD, _PULL_ONLINE, _PULL_SQL, _PULL_MOVED)
