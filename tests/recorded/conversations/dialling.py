"""What servers send by themselves: a broker to its name server, a name server to its brokers."""

from typing import Final

from recorded.conversation import (
    LISTENER,
    Advance,
    Answered,
    Close,
    Conversation,
    Do,
    Stop,
    good,
    step,
)
from recorded.conversation import Request as Asked
from recorded.requests import compact, send_fields, topic_fields

__all__ = ["CONVERSATIONS"]

_ROUTE: Final = {
    "brokerDatas": [{"brokerAddrs": {"0": "10.0.0.1:10911"}, "brokerName": "d", "cluster": "c"}],
    "filterServerTable": {},
    "queueDatas": [
        {"brokerName": "d", "perm": 6, "readQueueNums": 2, "topicSysFlag": 0, "writeQueueNums": 2}
    ],
}
_ASSIGNMENT: Final = {
    "clientId": "c1",
    "consumerGroup": "g",
    "messageModel": "BROADCASTING",
    "strategyName": "AVG",
    "topic": "t",
}
_ORDERED: Final = compact({"table": {"t": "b:1"}})


def _then(frames: dict[str, int], by: str = "N1", **more: object) -> Answered:
    """Returns the answer to a registration, after which something comes."""
    return Answered(request=103, by=by, frames=frames, **more)  # type: ignore[arg-type]


def _alone(by: str = "N1") -> Answered:
    """Returns the answer to whether another broker has the same name and id; then it registers."""
    return Answered(request=106, by=by, body=compact({"brokerAddrTable": {}}), frames={by: 1})


_BROKER = Conversation(
    "broker_and_its_name_server",
    [
        step(
            38, {"consumerGroup": "g"}, frames={"A": 1, "N1": 1}, answers=(1,), note="any request"
        ),
        _alone(),
        _then({}),
        step(17, topic_fields("t"), frames={"N1": 1}, note="known when it is answered"),
        _then({"A": 1}),
        step(310, send_fields("made"), b"x", frames={"A": 1, "N1": 1}, note="answered before"),
        _then({}),
        step(25, body=b"brokerPermission=4", frames={"N1": 1}),
        _alone(),
        _then({"N1": 1}, body=_ORDERED, note="with topics that are ordered"),
        _then({"A": 1}),
        good(351, {"topic": "t"}),
        good(400, body=compact(_ASSIGNMENT), frames={"N2": 1}),
        Answered(request=105, by="N2", body=compact(_ROUTE), frames={"A": 1}),
        good(400, body=compact(_ASSIGNMENT | {"topic": "none"}), frames={"N2": 1}),
        Answered(request=105, by="N2", code=17, frames={"A": 1}),
        step(215, {"topic": "made"}, frames={"N1": 1}),
        _then({"A": 1}),
        Close("N1", {"N3": 1}),
        _alone("N3"),
        _then({}, by="N3"),
        Stop({"N3": 1}),
        Answered(request=104, by="N3"),
    ],
    settings={"namesrvAddr": LISTENER},
    listens=True,
)


def _registration(broker_id: int, address: str, by: str, **more: object) -> Asked:
    fields = {
        "brokerName": "b",
        "brokerAddr": address,
        "clusterName": "c",
        "haServerAddr": "10.0.0.9:10912",
        "brokerId": broker_id,
        "enableActingMaster": True,
    }
    return step(103, fields, by=by, **more)  # type: ignore[arg-type]


_NAME_SERVER = Conversation(
    "name_server_and_its_brokers",
    [
        _registration(1, LISTENER, "A"),
        _registration(0, "10.0.0.1:10911", "B", frames={"B": 1, "N1": 1}, note="a smaller number"),
        Close("B", {"N1": 1}),
        _registration(0, "10.0.0.1:10911", "B", frames={"B": 1, "N1": 1}),
        Advance(60_000),
        step(904, {"clusterName": "c", "brokerAddr": LISTENER, "brokerName": "b"}),
        Advance(100_000),
        Do("expire brokers", {"N1": 1}, closes=("B",)),
    ],
    server="namesrv",
    settings={"notifyMinBrokerIdChanged": "true"},
    listens=True,
)

CONVERSATIONS: Final = (_BROKER, _NAME_SERVER)
