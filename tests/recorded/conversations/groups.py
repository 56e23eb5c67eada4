"""Consumer groups as tools create, change, list and delete them; who is assigned which queue."""

from typing import Final

from recorded.conversation import Conversation, good, malformed, refused, step
from recorded.requests import compact, consumer, create, heartbeat, subscription, without

__all__ = ["CONVERSATIONS"]

_GROUP: Final = {
    "attributes": {},
    "brokerId": 0,
    "consumeBroadcastEnable": True,
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "consumeMessageOrderly": False,
    "consumeTimeoutMinute": 15,
    "groupName": "g",
    "groupRetryPolicy": {"type": "CUSTOMIZED"},
    "groupSysFlag": 0,
    "notifyConsumerIdsChangedEnable": True,
    "retryMaxTimes": 16,
    "retryQueueNums": 1,
    "whichBrokerWhenConsumeSlowly": 1,
}

_GROUPS = Conversation(
    "groups",
    [
        good(201, note="the broker's own"),
        good(200, body=compact(_GROUP)),
        good(200, body=compact(_GROUP | {"retryMaxTimes": 3, "consumeEnable": False})),
        good(200, body=compact({"groupName": "bare"})),
        good(225, body=compact({"groupConfigList": [{"groupName": "l1"}, {"groupName": "l2"}]})),
        good(352, {"group": "g"}),
        good(352, {"group": "bare"}),
        good(201),
        malformed(201, {"unknown": "field"}, b"and a body"),
        refused(352, {"group": "unknown"}, answers=(26,)),
        malformed(352, {}),
        refused(200, body=compact({"groupName": "bad group"})),
        refused(200, body=compact({"groupName": "g" * 256})),
        refused(200, body=compact({"groupName": ""})),
        malformed(200),
        malformed(200, body=b"{"),
        malformed(200, body=compact({"groupName": "g", "retryMaxTimes": "many"})),
        malformed(200, body=compact({"groupName": 7})),
        refused(225, body=compact({"groupConfigList": [{"groupName": "l3"}, {"groupName": "/"}]})),
        malformed(225),
        malformed(225, body=compact({"groupConfigList": 3})),
        good(353, {"group": "g", "topic": "t"}),
        good(353, {"group": "g", "topic": "t", "readable": False}),
        good(353, {"group": "g", "topic": "t"}),
        good(353, {"group": "g", "topic": "t", "readable": True}),
        refused(353, {"group": "unknown", "topic": "t"}, answers=(0,)),
        malformed(353, {"group": "g"}),
        malformed(353, {}),
        step(15, {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": 5}),
        good(207, {"groupName": "bare"}),
        good(207, {"groupName": "g", "cleanOffset": True}),
        good(14, {"consumerGroup": "g", "topic": "t", "queueId": 0}, answers=(0, 22)),
        good(207, {"groupName": "l1", "removeOffset": True}),
        refused(207, {"groupName": "unknown"}, answers=(0,)),
        malformed(207, {}),
        good(201),
    ],
)

_FULL = Conversation(
    "groups_at_their_limits",
    [
        step(200, body=compact({"groupName": "g"})),
        refused(200, body=compact({"groupName": "h"})),
        refused(225, body=compact({"groupConfigList": [{"groupName": "h"}]})),
    ],
    # The broker's own take the other places.
    settings={"groupsMax": "9"},
)


def _asks(**more: object) -> bytes:
    """Returns the body of QUERY_ASSIGNMENT."""
    asked: dict[str, object] = {
        "clientId": "c1",
        "consumerGroup": "g",
        "messageModel": "CLUSTERING",
        "strategyName": "AVG",
        "topic": "t",
    }
    return compact(asked | more)


_MODE: Final = {"consumerGroup": "g", "mode": "POP", "popShareQueueNum": 0, "topic": "t"}

_ASSIGNMENT = Conversation(
    "assignment",
    [
        create("t", 5),
        step(34, body=heartbeat("c1", consumer("g", subscription("t"))), frames={"A": 2}),
        step(
            34,
            body=heartbeat("c2", consumer("g", subscription("t"))),
            by="B",
            frames={"A": 1, "B": 2},
        ),
        good(400, body=_asks()),
        good(400, body=_asks(clientId="c2")),
        good(400, body=_asks(strategyName="AVG_BY_CIRCLE")),
        good(400, body=_asks(messageModel="BROADCASTING")),
        good(400, body=_asks(clientId="stranger")),
        good(401, body=compact(_MODE)),
        good(400, body=_asks(), note="by pop"),
        good(401, body=compact(_MODE | {"popShareQueueNum": 1})),
        good(400, body=_asks()),
        good(401, body=compact(_MODE | {"mode": "PULL", "consumerGroup": "new"})),
        good(402),
        malformed(402, {"unknown": "field"}, b"and a body"),
        refused(400, body=_asks(topic="none"), answers=(0,)),
        refused(400, body=_asks(strategyName="BY_LOT"), answers=(0, 1)),
        refused(400, body=_asks(messageModel="SOME"), answers=(1,)),
        malformed(400),
        malformed(400, body=b"{"),
        malformed(400, body=compact(without({"topic": "t", "consumerGroup": 1}, "topic"))),
        refused(401, body=compact(_MODE | {"topic": "none"}), answers=(17,)),
        refused(401, body=compact(_MODE | {"topic": "%RETRY%g"}), answers=(16,)),
        refused(401, body=compact(_MODE | {"mode": "PUSH"}), answers=(1,)),
        malformed(401),
        malformed(401, body=b"3"),
        step(25, body=b"autoCreateSubscriptionGroup=false"),
        refused(401, body=compact(_MODE | {"consumerGroup": "unknown"}), answers=(26,)),
    ],
)

CONVERSATIONS: Final = (_GROUPS, _FULL, _ASSIGNMENT)
