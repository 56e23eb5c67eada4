"""What attacks share: names that are paths, requests that carry them, and what a directory holds.

Knows the fields of requests, not how a server reads them.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from live_broker import Live
from mqcore.model.relaxed_json import compact
from mqcore.remoting import AnsweredBy, RequestCode, answered_by

# No name of a topic or group, each for another reason.
NAMES = (
    "..",
    "../../x",
    "..\\..\\x",
    "/tmp/x",
    "a/b",
    "%RETRY%../../x",
    "%DLQ%../x",
    "%LMQ%../x",
    "a\x00b",
    " ",
    "\n",
    "x" * 300,
    "é",
    "${jndi:ldap://127.0.0.1:1/x}",
    "$(touch pwned)",
)
BROKER_CODES = sorted(answered_by(AnsweredBy.BROKER) | answered_by(AnsweredBy.NATIVE))
# Fields that are numbers or switches, so that a request comes as far as its names.
_PLAIN: Mapping[str, object] = {
    "readQueueNums": 1,
    "writeQueueNums": 1,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0,
    "order": False,
    "queueId": 0,
    "queueOffset": 0,
    "offset": 0,
    "commitOffset": 0,
    "commitLogOffset": 0,
    "tranStateTableOffset": 0,
    "maxMsgNums": 1,
    "maxNum": 1,
    "sysFlag": 0,
    "suspendTimeoutMillis": 0,
    "timestamp": 0,
    "isForce": True,
    "delayLevel": 0,
    "unitMode": False,
    "reconsumeTimes": 0,
    "bornTimestamp": 1_700_000_000_000,
    "flag": 0,
    "defaultTopicQueueNums": 4,
    "invisibleTime": 1_000,
    "pollTime": 0,
    "bornTime": 0,
    "initMode": 0,
    "readable": "false",
    "removeOffset": True,
    "cleanOffset": True,
    "commitOrRollback": 8,
    "beginTimestamp": 0,
    "endTimestamp": 2**62,
    "force": True,
    "d": 4,
    "e": 0,
    "f": 0,
    "g": 1_700_000_000_000,
    "h": 0,
    "j": 0,
    "k": False,
    "m": False,
}
_NAMED = (
    *("topic", "b", "c", "defaultTopic", "originTopic", "realTopic", "lo"),
    *("group", "a", "groupName", "consumerGroup", "producerGroup", "srcGroup", "destGroup"),
    *("compareGroup", "filterGroups", "clientId", "clientID", "clientAddr", "brokerName"),
    *("clusterName", "namespace", "key", "username", "statsName", "statsKey", "msgId"),
    *("originMsgId", "offsetMsgId", "uniqMsgId", "transactionId", "expressionType", "subscription"),
    *("extraInfo", "recallHandle", "brokerAddr", "haServerAddr", "controllerAddress", "topicList"),
)


def hostile_fields(name: str) -> dict[str, object]:
    """Returns a header in which everything that is a name is a hostile one."""
    properties = "".join(
        f"{key}\x01{name}\x02"
        for key in ("INNER_MULTI_DISPATCH", "REAL_TOPIC", "PGROUP", "KEYS", "TAGS", "RETRY_TOPIC")
    )
    named: dict[str, object] = dict.fromkeys(_NAMED, name)
    return {
        **named,
        **_PLAIN,
        "subject": f"User:{name}",
        "resource": f"Topic:{name}",
        "i": properties,
        "properties": properties,
    }


def hostile_body(name: str) -> bytes:
    """Returns a body in which everything that is a name is a hostile one."""
    topic = {"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
    group = {"groupName": name, "retryQueueNums": 1, "consumeEnable": True}
    subscribed = {"topic": name, "subString": "*", "expressionType": "TAG"}
    queue = {"topic": name, "brokerName": name, "queueId": 0}
    entry = {"resource": f"Topic:{name}", "actions": ["Pub"], "decision": "Allow"}
    body: dict[str, Any] = {
        **topic,
        **group,
        "topic": name,
        "group": name,
        "consumerGroup": name,
        "clientID": name,
        "clientId": name,
        "topicConfigList": [topic],
        "groupConfigList": [group],
        "producerDataSet": [{"groupName": name}],
        "consumerDataSet": [
            {
                "groupName": name,
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                "subscriptionDataSet": [subscribed],
            }
        ],
        "mqSet": [queue],
        "subject": f"User:{name}",
        "username": name,
        "password": "x",
        "policies": [{"policyType": "Custom", "entries": [entry]}],
        "mode": "POP",
        "bname": name,
        "scope": name,
        "totalQueues": 1,
        "hostedQueues": {},
        "currIdMap": {},
    }
    return compact(body)


def tree(directory: Path) -> dict[str, str]:
    """Returns the hash of every file below a directory, and its folders."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "a folder"
        for path in sorted(directory.rglob("*"))
    }


def names(directory: Path) -> set[str]:
    """Returns every path below a directory."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


async def lives(running: Live) -> bool:
    """Returns whether a broker still answers, and still takes a message."""
    figures = await running.json(RequestCode.GET_BROKER_RUNTIME_INFO)
    await running.create("alive")
    answer = await running.send("alive", b"x")
    return bool(figures["table"]) and answer.code == 0
