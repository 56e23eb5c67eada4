"""Messages for later: levels of delay, times of their own, recalls, and their figures."""

from typing import Final

from recorded.conversation import (
    NOW_MS,
    Advance,
    Conversation,
    Do,
    From,
    good,
    malformed,
    refused,
    step,
)
from recorded.requests import create, pull_fields, send_fields, without

__all__ = ["CONVERSATIONS"]

_DELAYS = Conversation(
    "delays",
    [
        create("t"),
        good(310, send_fields("t", 0, {"DELAY": 1, "KEYS": "k"}), b"in a second"),
        good(310, send_fields("t", 0, {"DELAY": 3}), b"in ten"),
        good(310, send_fields("t", 0, {"DELAY": 99}), b"on the last level"),
        good(310, send_fields("t", 0, {"DELAY": 0}), b"now"),
        good(310, send_fields("t", 0, {"DELAY": -1}), b"now, too"),
        Do("deliver delayed"),
        good(11, pull_fields("t")),
        good(11, pull_fields("t", 2, wait_ms=15_000), frames={}),
        Advance(999),
        Do("deliver delayed"),
        Advance(1),
        Do("deliver delayed", {"A": 1}),
        good(45),
        Advance(9_000),
        Do("deliver delayed"),
        good(11, pull_fields("t", 3)),
        good(45),
        good(321, {"topic": "SCHEDULE_TOPIC_XXXX", "queueId": 0, "index": 0, "count": 2}),
        good(25, body=b"messageDelayLevel=1s 2s"),
        good(310, send_fields("t", 0, {"DELAY": 3}), b"on the last of two"),
        good(45),
    ],
)


def _recall(**more: object) -> dict[str, object]:
    fields: dict[str, object] = {
        "producerGroup": "pg",
        "topic": "t",
        "recallHandle": From("timed", "recallHandle"),
        "bname": "b",
    }
    return fields | more


_TIMED = Conversation(
    "timed",
    [
        create("t"),
        good(60, note="before the first timed message"),
        good(61, note="before the first timed message"),
        good(310, send_fields("t", 0, {"TIMER_DELAY_SEC": 5, "UNIQ_KEY": "T0"}), b"5 s"),
        good(310, send_fields("t", 0, {"TIMER_DELAY_MS": 7_300, "UNIQ_KEY": "T1"}), b"7.3 s"),
        good(
            310,
            send_fields("t", 0, {"TIMER_DELIVER_MS": NOW_MS + 9_500, "UNIQ_KEY": "T2"}),
            b"9.5 s",
        ),
        good(
            310,
            send_fields("t", 0, {"TIMER_DELAY_SEC": 6, "UNIQ_KEY": "T3"}),
            b"recalled",
            name="timed",
        ),
        good(310, send_fields("t", 0, {"TIMER_DELIVER_MS": NOW_MS - 5}), b"in the past"),
        refused(310, send_fields("t", 0, {"TIMER_DELAY_SEC": 999_999_999}), b"x"),
        refused(310, send_fields("t", 0, {"TIMER_DELAY_SEC": "soon"}), b"x", answers=(0, 1, 13)),
        Do("tick timers"),
        good(61),
        good(370, _recall()),
        refused(370, _recall(topic="none"), answers=(17,)),
        refused(370, _recall(recallHandle="none"), answers=(604,)),
        create("u"),
        refused(370, _recall(topic="u"), answers=(604,), note="the handle of another topic"),
        malformed(370, {}),
        malformed(370, without(_recall(), "recallHandle")),
        malformed(370, without(_recall(), "topic")),
        Do("tick timers"),
        Advance(6_000),
        Do("tick timers"),
        Do("tick timers"),
        good(11, pull_fields("t")),
        good(61),
        Advance(10_000),
        Do("tick timers"),
        Do("tick timers"),
        good(11, pull_fields("t", 2)),
        Do("flush"),
        good(60, note="as it is on the disk"),
        good(61),
        malformed(60, {"unknown": "field"}, b"and a body"),
        malformed(61, {"unknown": "field"}, b"and a body"),
        refused(370, _recall(), answers=(604,), note="too late"),
        good(11, pull_fields("rmq_sys_wheel_timer"), answers=(0, 16)),
        step(25, body=b"recallMessageEnable=false"),
        refused(370, _recall(), answers=(16,)),
    ],
    settings={"recallMessageEnable": "true"},
)

_NO_TIMERS = Conversation(
    "no_timers",
    [
        create("t"),
        refused(310, send_fields("t", 0, {"TIMER_DELAY_MS": 100}), b"x", answers=(1,)),
        refused(60, answers=(1,)),
        refused(61, answers=(1,)),
        refused(370, {"topic": "t", "recallHandle": "x"}, answers=(16,)),
        refused(
            200050,
            {
                "consumerGroup": "g",
                "topic": "t",
                "queueId": -1,
                "maxMsgNums": 1,
                "invisibleTime": 1_000,
                "pollTime": 0,
                "bornTime": 0,
                "initMode": 0,
            },
            answers=(1,),
        ),
    ],
    settings={"timerWheelEnable": "false"},
)

CONVERSATIONS: Final = (_DELAYS, _TIMED, _NO_TIMERS)
