"""Clients: heartbeats, order locks, lists of connections, requests that go on to them."""

from typing import Any, Final

from recorded.conversation import (
    Advance,
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
from recorded.requests import compact, consumer, create, heartbeat, send_fields, subscription

__all__ = ["CONVERSATIONS"]

_ALONE: Final = consumer("g", subscription("t", "a || b"), subscription("%RETRY%g"))
_MORE: Final = consumer("g", subscription("t", "a || b"), subscription("u"))

_MEMBERS = Conversation(
    "members",
    [
        create("t"),
        good(34, body=heartbeat("c1", _ALONE, producers=["pg", "pg2"]), frames={"A": 2}),
        good(34, body=heartbeat("c1", _ALONE, producers=["pg", "pg2"]), note="again"),
        good(34, body=heartbeat("c2", _MORE), by="B", language="GO", frames={"A": 1, "B": 2}),
        good(34, body=heartbeat("p3", producers=["pg"]), by="C", language="CPP", version=300),
        good(38, {"consumerGroup": "g"}),
        refused(38, {"consumerGroup": "unknown"}, answers=(1,)),
        malformed(38, {}),
        good(203, {"consumerGroup": "g"}),
        refused(203, {"consumerGroup": "unknown"}, answers=(206,)),
        malformed(203, {}),
        good(204, {"producerGroup": "pg", "topic": "t"}),
        refused(204, {"producerGroup": "unknown"}, answers=(1,)),
        malformed(204, {"topic": "t"}),
        good(328),
        malformed(328, {"unknown": "field"}, b"and a body"),
        good(35, {"clientID": "c2", "consumerGroup": "g"}, by="B", frames={"A": 1, "B": 1}),
        good(35, {"clientID": "c1", "producerGroup": "pg2"}),
        oneway(good(35, {"clientID": "p3", "producerGroup": "pg"}, by="C")),
        refused(35, {"clientID": "c9", "consumerGroup": "unknown"}, answers=(0,)),
        malformed(35, {}),
        good(328, note="who is left"),
        good(38, {"consumerGroup": "g"}),
        malformed(34, body=b"{"),
        malformed(34),
        malformed(34, body=b"[]"),
        malformed(34, body=compact({"consumerDataSet": [{"groupName": "x"}]}), frames={"A": 2}),
        malformed(34, body=compact({"clientID": "c", "consumerDataSet": 3})),
        good(34, body=heartbeat("c2", _MORE), by="B", frames={"A": 1, "B": 2}),
        Close("B", {"A": 1}),
        good(38, {"consumerGroup": "g"}, note="one has gone"),
        step(25, body=b"autoCreateSubscriptionGroup=false"),
        refused(34, body=heartbeat("c2", consumer("unknown", subscription("t"))), answers=(0, 1)),
        Advance(121_000),
        good(34, body=heartbeat("c9", _MORE), by="B", frames={"A": 1, "B": 2}),
        Do("expire clients", {"B": 1}, closes=("A",)),
        good(38, {"consumerGroup": "g"}, by="B", note="who is left"),
    ],
)

_LIMITS = Conversation(
    "members_at_their_limits",
    [
        refused(34, body=heartbeat("c1", producers=["a", "b", "c"]), answers=(1, 2, 29)),
        refused(
            34,
            body=heartbeat("c1", consumer("g", subscription("t"), subscription("u"))),
            answers=(1, 2, 29),
        ),
        good(34, body=heartbeat("c1", consumer("g", subscription("t"))), frames={"A": 2}),
        refused(34, body=heartbeat("c2", consumer("g", subscription("t"))), by="B"),
        refused(34, body=heartbeat("c" * 2_000), by="B"),
    ],
    settings={
        "groupsPerHeartbeatMax": "2",
        "subscriptionsPerGroupMax": "1",
        "clientsPerGroupMax": "1",
        "heartbeatBytesMax": "2000",
    },
)


def _queues(*numbers: int, topic: str = "t") -> list[dict[str, Any]]:
    return [{"brokerName": "b", "queueId": number, "topic": topic} for number in numbers]


def _locks(client_id: str, *numbers: int, group: str = "g") -> bytes:
    queues = _queues(*numbers)
    body = {"clientId": client_id, "consumerGroup": group, "mqSet": queues, "onlyThisBroker": False}
    return compact(body)


_ORDER_LOCKS = Conversation(
    "order_locks",
    [
        create("t", 4),
        good(41, body=_locks("c1", 0, 1)),
        good(41, body=_locks("c2", 1, 2), by="B"),
        good(41, body=_locks("c1", 0, 1), note="again"),
        good(42, body=_locks("c1", 1)),
        good(41, body=_locks("c2", 0, 1), by="B"),
        refused(41, body=_locks("c3", 0, 1, 2), answers=(0,), note="all are held"),
        Advance(60_001),
        good(41, body=_locks("c3", 0, 1, 2), note="nobody renewed his"),
        oneway(good(42, body=_locks("c3", 0))),
        good(41, body=_locks("c4", 0)),
        refused(42, body=_locks("c9", 1), answers=(0,), note="locks of somebody else"),
        refused(42, body=_locks("c9", 1, group="unknown"), answers=(0,)),
        malformed(41),
        malformed(41, body=b"{"),
        malformed(41, body=compact({"mqSet": [3, {"topic": "t"}]})),
        malformed(42),
        malformed(42, body=b"no JSON"),
        malformed(42, body=compact({"mqSet": {}})),
    ],
)

_TO_A_CLIENT: Final = {"consumerGroup": "g", "clientId": "c1"}

_FORWARDS = Conversation(
    "requests_to_clients",
    [
        create("t"),
        step(310, send_fields("t"), b"to be consumed", name="sent"),
        step(34, body=heartbeat("c1", _ALONE), by="B", frames={"B": 2}),
        good(307, _TO_A_CLIENT | {"jstackEnable": False}, frames={"B": 1}),
        Answered(request=307, by="B", body=b'{"properties":{}}', frames={"A": 1}),
        good(
            309, _TO_A_CLIENT | {"msgId": From("sent", "msgId"), "brokerName": "b"}, frames={"B": 1}
        ),
        Answered(request=309, by="B", ext={"x": "y"}, body=b'{"order":false}', frames={"A": 1}),
        good(309, _TO_A_CLIENT, frames={"B": 1}, note="without a message", answers=(1,)),
        Answered(request=309, by="B", code=1, frames={"A": 1}, note="the client refuses"),
        good(223, {"topic": "t", "group": "g"}, frames={"B": 1}),
        Answered(
            request=221,
            by="B",
            body=b'{"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"t"}:7}}',
            frames={"A": 1},
        ),
        good(223, {"topic": "t", "group": "g", "clientAddr": "nobody"}),
        refused(307, _TO_A_CLIENT | {"clientId": "c9"}, answers=(1,)),
        refused(309, _TO_A_CLIENT | {"clientId": "c9"}, answers=(1,)),
        refused(309, _TO_A_CLIENT | {"msgId": "none"}, answers=(1,)),
        refused(309, _TO_A_CLIENT | {"msgId": "7F00000100002AE10000000000000003"}, answers=(1,)),
        refused(223, {"topic": "t", "group": "unknown"}, answers=(1,)),
        malformed(307, {}),
        malformed(307, {"consumerGroup": "g"}),
        malformed(309, {}),
        malformed(309, {"clientId": "c1"}),
        malformed(223, {"topic": "t"}),
        malformed(223, {}),
        step(
            34,
            body=heartbeat("c0", consumer("old", subscription("t"))),
            by="C",
            version=20,
            frames={"C": 2},
        ),
        refused(307, {"consumerGroup": "old", "clientId": "c0"}, answers=(1,), note="too old"),
        refused(223, {"topic": "t", "group": "old"}, answers=(1,)),
        good(307, _TO_A_CLIENT, frames={"B": 1}, answers=(207,)),
        Close("B", {"A": 1}),
    ],
)

CONVERSATIONS: Final = (_MEMBERS, _LIMITS, _ORDER_LOCKS, _FORWARDS)
