"""What a server still knows after a restart, and what a broker over a mounted store refuses."""

from typing import Final

from recorded.conversation import (
    NOW_MS,
    Advance,
    Conversation,
    Do,
    From,
    Request,
    Restart,
    Step,
    good,
    malformed,
    refused,
    step,
)
from recorded.requests import (
    batch_body,
    compact,
    consumer,
    create,
    heartbeat,
    pop_fields,
    pull_fields,
    send_fields,
    send_fields_long,
    subscription,
    topic_fields,
)

__all__ = ["CONVERSATIONS"]

_OF_GROUP: Final = {"consumerGroup": "g", "topic": "t", "queueId": 0}
_MODE: Final = {"consumerGroup": "g", "mode": "POP", "popShareQueueNum": 1, "topic": "t"}
_KEY: Final = {
    "topic": "t",
    "key": "k",
    "maxNum": 9,
    "beginTimestamp": 0,
    "endTimestamp": 2**63 - 1,
}
_HALF: Final = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": "H0"}


def _before() -> list[Request]:
    """Returns steps that leave something of every kind behind."""
    wanted = subscription("t", "a > 1", version=1, kind="SQL92")
    return [
        create("t", 2),
        create("ordered", order=True),
        step(200, body=compact({"groupName": "g", "retryMaxTimes": 3})),
        # A group that a pop makes is written behind the answer: a kill may come first.
        step(225, body=compact({"groupConfigList": [{"groupName": "h"}, {"groupName": "p"}]})),
        step(401, body=compact(_MODE)),
        step(353, {"group": "g", "topic": "ordered", "readable": False}),
        step(34, body=heartbeat("c1", consumer("sql", wanted)), by="B", frames={"B": 2}),
        step(310, send_fields("t", 0, {"KEYS": "k", "UNIQ_KEY": "U0"}), b"0"),
        step(310, send_fields("t"), b"1"),
        step(310, send_fields("t", 1), b"other queue"),
        step(310, send_fields("t", 0, {"DELAY": 5}), b"delayed"),
        step(310, send_fields("t", 0, {"TIMER_DELAY_SEC": 90, "UNIQ_KEY": "T0"}), b"timed"),
        step(310, send_fields("t", 0, _HALF, f=4), b"half", name="half"),
        step(15, _OF_GROUP | {"commitOffset": 1}),
        step(200050, pop_fields("ordered"), answers=(210,)),
        step(310, send_fields("ordered"), b"in order"),
        step(
            200050,
            pop_fields("ordered", consumerGroup="h", queueId=0, order=True, attemptId="attempt 1"),
        ),
        step(200050, pop_fields("t", consumerGroup="p", queueId=1)),
    ]


def _after() -> list[Step]:
    """Returns requests that show what is still there."""
    order = pop_fields("ordered", consumerGroup="h", queueId=0, order=True, attemptId="attempt 2")
    return [
        good(21),
        good(201),
        good(43),
        good(45),
        good(402),
        good(353, {"group": "g", "topic": "ordered"}),
        good(14, _OF_GROUP, answers=(0, 22)),
        good(11, pull_fields("t")),
        good(12, _KEY),
        good(61),
        good(321, {"topic": "t", "queueId": 0, "index": 0, "count": 9, "consumerGroup": "sql"}),
        good(200050, order, answers=(0, 210)),
        Advance(100_000),
        Do("deliver delayed"),
        Do("tick timers"),
        Do("tick timers"),
        Do("revive popped"),
        good(11, pull_fields("t", 2), answers=(0, 19), note="what was to come later"),
        good(200050, pop_fields("t", consumerGroup="p", queueId=1), answers=(0, 210)),
        step(34, body=heartbeat("p1", producers=["pg"]), by="B"),
        Do("check transactions", {"B": 1}),
        good(
            37,
            {
                "producerGroup": "pg",
                "tranStateTableOffset": From("half", "queueOffset"),
                "commitLogOffset": From("half", "msgId", is_offset=True),
                "commitOrRollback": 8,
                "fromTransactionCheck": False,
                "msgId": "H0",
            },
            answers=(0, 1),
        ),
    ]


_STOPPED = Conversation("restarted", [*_before(), Restart(), *_after()])
_KILLED = Conversation("killed", [*_before(), Do("flush"), Restart(is_killed=True), *_after()])

_THREE: Final = batch_body([(b"1", {}), (b"2", {}), (b"3", {})])
_MOUNT: Final = {"storePathRootDir": "mount", "mountedStoreDir": "store"}

_MOUNTED = Conversation(
    "mounted",
    [
        create("t"),
        step(310, send_fields("t", 0, {"KEYS": "k"}), b"0"),
        step(310, send_fields("t", 0, {"TAGS": "a"}), b"1"),
        Do("flush"),
        Restart(settings=_MOUNT),
        good(21),
        good(11, pull_fields("t")),
        good(30, {"topic": "t", "queueId": 0}),
        good(15, _OF_GROUP | {"commitOffset": 1}),
        good(14, _OF_GROUP),
        good(200, body=compact({"groupName": "g"})),
        good(222, {"topic": "t", "group": "g", "timestamp": 0, "isForce": True}),
        good(26),
        refused(310, send_fields("t"), b"x", answers=(16,)),
        refused(310, send_fields("new"), b"x", answers=(16,)),
        refused(10, send_fields_long("t"), b"x", answers=(16,)),
        refused(320, send_fields("t", m=True), _THREE, answers=(16,)),
        refused(36, {"offset": 0, "group": "g", "delayLevel": 0}, answers=(16,)),
        refused(17, topic_fields("u"), answers=(16,)),
        refused(18, body=compact({"topicConfigList": []}), answers=(16,)),
        refused(215, {"topic": "t"}, answers=(16,)),
        refused(25, body=b"traceOn=false", answers=(16,)),
        refused(306, answers=(16,)),
        refused(316, answers=(16,)),
        refused(329, answers=(16,)),
        refused(370, {"topic": "t", "recallHandle": "x"}, answers=(16,)),
        refused(200050, pop_fields("t"), answers=(1, 16)),
        good(200052, pop_fields("t", consumerGroup="p"), answers=(0, 19)),
        malformed(17, {}, answers=(16,)),
        good(
            11,
            pull_fields("t", 2, wait_ms=15_000, consumerGroup="h"),
            frames={},
            answers=(19,),
        ),
        Advance(15_000, {"A": 1}),
    ],
)

_NAME_SERVER = Conversation(
    "name_server_restarted",
    [
        good(100, {"namespace": "n", "key": "k", "value": f"at {NOW_MS}"}),
        good(318, body=b"orderMessageEnable=true"),
        Restart(settings={"needWaitForService": "true", "waitSecondsForService": "45"}),
        good(101, {"namespace": "n", "key": "k"}),
        refused(105, {"topic": "t"}, answers=(1,), note="too early"),
        Advance(45_000),
        refused(105, {"topic": "t"}, answers=(17,)),
        good(319),
    ],
    server="namesrv",
)

CONVERSATIONS: Final = (_STOPPED, _KILLED, _MOUNTED, _NAME_SERVER)
