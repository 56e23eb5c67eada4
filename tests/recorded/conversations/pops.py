"""Pops: taken, acknowledged, held, peeked, come again. Their codes fit no binary header."""

from typing import Any, Final

from recorded.conversation import (
    NOW_MS,
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
from recorded.requests import compact, create, pop_fields, pull_fields, send_fields, without

__all__ = ["CONVERSATIONS"]

_POP, _ACK, _PEEK, _CHANGE, _NOTIFICATION, _POLLING_INFO = range(200_050, 200_056)
_BATCH_ACK: Final = 200_151
_TIMEOUT: Final = 210
_JSON: Final = ("json",)


def _handle(
    offset: int, *, start: int = 0, popped_ms: int = NOW_MS, flag: int = 0, queue: int = 0
) -> str:
    """Returns the handle of a message popped for a minute (`ExtraInfoUtil`)."""
    return f"{start} {popped_ms} 60000 0 {flag} b {queue} {offset}"


def _of(offset: int, **more: Any) -> dict[str, object]:
    """Returns the fields of an acknowledgement."""
    fields: dict[str, object] = {
        "consumerGroup": "g",
        "topic": "t",
        "queueId": 0,
        "extraInfo": _handle(offset),
        "offset": offset,
    }
    return fields | more


def _many(topic: str, count: int) -> list[Request]:
    return [
        step(310, send_fields(topic, 0, {"TAGS": "ab"[number % 2]}), b"%d" % number)
        for number in range(count)
    ]


_TAKEN = Conversation(
    "pop",
    [
        create("t"),
        create("write_only", perm=2),
        *_many("t", 6),
        good(_POP, pop_fields("t", maxMsgNums=2)),
        good(_POP, pop_fields("t", queueId=0, maxMsgNums=2, exp="a"), answers=(0, _TIMEOUT)),
        good(_ACK, _of(0)),
        good(_ACK, _of(0), note="again"),
        good(_CHANGE, _of(1, invisibleTime=30_000)),
        refused(_CHANGE, _of(1, invisibleTime=30_000), answers=(0, 208), note="again"),
        good(_POP, pop_fields("t", consumerGroup="h", initMode=1)),
        good(
            _POP,
            pop_fields("t", consumerGroup="i", maxMsgNums=1, exp="TAGS = 'b'", expType="SQL92"),
        ),
        good(_POP, pop_fields("t"), answers=(0, _TIMEOUT), note="what is left"),
        good(_POP, pop_fields("t"), answers=(_TIMEOUT,)),
        good(_PEEK, without(pop_fields("t", consumerGroup="p", maxMsgNums=2), "invisibleTime")),
        good(_PEEK, pop_fields("t", consumerGroup="p", queueId=0)),
        good(_NOTIFICATION, pop_fields("t", consumerGroup="q")),
        good(_NOTIFICATION, pop_fields("t"), note="nothing is left"),
        good(_POLLING_INFO, {"consumerGroup": "g", "topic": "t", "queueId": -1}),
        oneway(good(_ACK, _of(2))),
        refused(_POP, pop_fields("none"), answers=(17,)),
        refused(_POP, pop_fields("write_only"), answers=(16,)),
        refused(_POP, pop_fields("t", queueId=4), answers=(29,)),
        refused(_POP, pop_fields("t", maxMsgNums=33), answers=(29,)),
        refused(_POP, pop_fields("t", exp="||"), answers=(23,)),
        refused(_POP, pop_fields("t", exp="a >", expType="SQL92"), answers=(23,)),
        refused(_POP, pop_fields("t", bornTime=1), answers=(_TIMEOUT,)),
        refused(_POP, pop_fields("t", invisibleTime=2**63 - 1), answers=(29,)),
        malformed(_POP, {}),
        malformed(_POP, without(pop_fields("t"), "initMode")),
        malformed(_POP, pop_fields("t", maxMsgNums="many")),
        refused(_ACK, _of(0, topic="none"), answers=(17,)),
        refused(_ACK, _of(0, queueId=7), answers=(13, 29)),
        refused(_ACK, _of(99), answers=(0, 208)),
        malformed(_ACK, {}),
        malformed(_ACK, _of(0, extraInfo="none")),
        malformed(_ACK, without(_of(0), "extraInfo")),
        malformed(_ACK, _of(0) | {"offset": "x"}),
        refused(_CHANGE, _of(0, topic="none", invisibleTime=1_000), answers=(17,)),
        malformed(_CHANGE, _of(0)),
        malformed(_CHANGE, _of(0, invisibleTime="x")),
        malformed(_CHANGE, _of(0, invisibleTime=1_000, extraInfo="1 2 3")),
        refused(_PEEK, pop_fields("none"), answers=(17,)),
        malformed(_PEEK, {}),
        malformed(_PEEK, {"consumerGroup": "g", "topic": "t", "queueId": "x"}),
        refused(_NOTIFICATION, pop_fields("none"), answers=(17,)),
        malformed(_NOTIFICATION, {}),
        malformed(_NOTIFICATION, pop_fields("t", pollTime="long")),
        refused(
            _POLLING_INFO, {"consumerGroup": "g", "topic": "none", "queueId": -1}, answers=(17,)
        ),
        refused(
            _POLLING_INFO, {"consumerGroup": "g", "topic": "t", "queueId": 9}, answers=(0, 1, 29)
        ),
        malformed(_POLLING_INFO, {}),
        malformed(_POLLING_INFO, {"consumerGroup": "g", "topic": "t"}),
    ],
    kinds=_JSON,
)


def _acks(*rows: dict[str, object]) -> bytes:
    return compact({"acks": list(rows), "brokerName": "b"})


def _bits(bits: str, **more: object) -> dict[str, object]:
    """Returns an acknowledgement of several; the bits count from the first offset."""
    row: dict[str, object] = {
        **{"b": bits, "c": "g", "it": 60_000, "pt": NOW_MS, "q": 0, "r": "0", "rq": 0, "so": 0},
        "t": "t",
    }
    return row | more


_SEVERAL = Conversation(
    "pop_acknowledged_together",
    [
        create("t"),
        *_many("t", 6),
        good(_POP, pop_fields("t")),
        good(_BATCH_ACK, body=_acks(_bits("BQ==")), note="offsets 0 and 2"),
        good(_BATCH_ACK, body=_acks(_bits("Ag=="), _bits("OA=="))),
        refused(_BATCH_ACK, body=_acks(), answers=(208,), note="no acknowledgement"),
        refused(_BATCH_ACK, body=_acks(_bits("AQ==", t="none")), answers=(0, 1, 17)),
        refused(_BATCH_ACK, body=_acks(_bits("AQ==", q=9)), answers=(0, 1, 13, 29)),
        refused(_BATCH_ACK, body=_acks(_bits("AQ==", so=90)), answers=(0, 1)),
        malformed(_BATCH_ACK, body=b"{"),
        malformed(_BATCH_ACK),
        malformed(_BATCH_ACK, body=_acks({})),
        malformed(_BATCH_ACK, body=_acks(_bits("*"))),
        malformed(_BATCH_ACK, body=_acks(_bits("AQ==", r="7"))),
        good(14, {"consumerGroup": "g", "topic": "t", "queueId": 0}, answers=(0, 22)),
        good(_POLLING_INFO, {"consumerGroup": "g", "topic": "t", "queueId": 0}),
    ],
    kinds=_JSON,
)

_HELD = Conversation(
    "pop_held",
    [
        create("t", 2),
        good(
            _POP,
            pop_fields("t", pollTime=15_000, bornTime=NOW_MS),
            frames={},
            answers=(0, _TIMEOUT),
        ),
        good(_POLLING_INFO, {"consumerGroup": "g", "topic": "t", "queueId": -1}, by="B"),
        step(310, send_fields("t", 1), b"wakes it", by="B", frames={"A": 1, "B": 1}),
        good(_POP, pop_fields("t", pollTime=15_000, exp="b"), frames={}, answers=(0, _TIMEOUT)),
        step(310, send_fields("t", 0, {"TAGS": "a"}), b"is not for it", by="B"),
        Advance(14_000),
        Advance(1_000, {"A": 1}),
        good(_NOTIFICATION, pop_fields("t", consumerGroup="h", queueId=1), by="B"),
        good(_NOTIFICATION, pop_fields("t", pollTime=15_000, queueId=1), frames={}),
        Advance(15_000, {"A": 1}),
        good(_NOTIFICATION, pop_fields("t", pollTime=15_000, queueId=1), frames={}),
        step(310, send_fields("t", 1), b"tells it", by="B", frames={"A": 1, "B": 1}),
        good(_POP, pop_fields("t")),
        good(_POP, pop_fields("t", pollTime=15_000), frames={}, answers=(0, _TIMEOUT), by="B"),
        Close("B"),
        step(310, send_fields("t", 1), b"nobody waits any more"),
        good(_POP, pop_fields("t")),
    ],
    kinds=_JSON,
)

_RETRY_HANDLE: Final = _handle(0, popped_ms=NOW_MS + 65_000, flag=1)

_AGAIN = Conversation(
    "pop_comes_again",
    [
        create("t"),
        *_many("t", 3),
        good(_POP, pop_fields("t")),
        good(_ACK, _of(1)),
        good(_CHANGE, _of(2, invisibleTime=10_000)),
        Do("store pops"),
        Do("tick timers"),
        good(11, pull_fields("rmq_sys_REVIVE_LOG_c"), answers=(0, 16, 17, 19)),
        Advance(65_000),
        Do("tick timers"),
        Do("tick timers"),
        good(11, pull_fields("rmq_sys_REVIVE_LOG_c"), answers=(0, 16, 17, 19)),
        Do("revive popped"),
        good(11, pull_fields("%RETRY%g_t"), answers=(0, 17, 19), note="what comes again"),
        good(_POP, pop_fields("t", pollTime=0), answers=(0, _TIMEOUT)),
        good(_POP, pop_fields("t", pollTime=0), answers=(0, _TIMEOUT)),
        good(_ACK, _of(0, topic="%RETRY%g_t", extraInfo=_RETRY_HANDLE), answers=(0, 208)),
        good(14, {"consumerGroup": "g", "topic": "t", "queueId": 0}),
        good(43),
        Do("flush"),
        good(208, {"consumerGroup": "g"}),
    ],
    kinds=_JSON,
)


def _ordered(**more: object) -> dict[str, object]:
    return pop_fields("t", **{"queueId": 0, "order": True, "attemptId": "attempt 1"} | more)


_IN_ORDER = Conversation(
    "pop_in_order",
    [
        create("t"),
        *_many("t", 4),
        good(_POP, _ordered(maxMsgNums=2)),
        good(_POP, _ordered(maxMsgNums=2), note="the same attempt again"),
        good(
            _POP,
            _ordered(attemptId="attempt 2"),
            answers=(_TIMEOUT,),
            note="it is not its turn",
        ),
        good(_ACK, _of(0, extraInfo=f"0 {NOW_MS} 60000 999 0 b 0 0")),
        good(_CHANGE, _of(1, invisibleTime=5_000, extraInfo=f"0 {NOW_MS} 60000 999 0 b 0 1")),
        good(_NOTIFICATION, _ordered()),
        Advance(5_001),
        good(_NOTIFICATION, _ordered()),
        good(_POP, pop_fields("t", queueId=0, order=True), answers=(0, _TIMEOUT)),
        refused(_ACK, _of(0, extraInfo=f"0 {NOW_MS} 60000 999 0 b 0 0"), answers=(0, 208)),
    ],
    kinds=_JSON,
)

_BUFFERED = Conversation(
    "pop_with_its_buffer",
    [
        create("t"),
        *_many("t", 4),
        good(_POP, pop_fields("t", maxMsgNums=3)),
        good(_ACK, _of(0)),
        good(_ACK, _of(2)),
        Advance(12_000),
        good(_ACK, _of(1)),
        good(_POP, pop_fields("t")),
        good(14, {"consumerGroup": "g", "topic": "t", "queueId": 0}),
        Do("store pops"),
        good(30, {"topic": "rmq_sys_REVIVE_LOG_c", "queueId": 0}),
        good(43),
    ],
    settings={"enablePopBufferMerge": "true"},
    kinds=_JSON,
)

CONVERSATIONS: Final = (_TAKEN, _SEVERAL, _HELD, _AGAIN, _IN_ORDER, _BUFFERED)
