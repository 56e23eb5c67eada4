"""Fields and bodies of requests as the official clients write them, for conversations.

Pure functions of their arguments; a test's own writer, which shares no code with the product.
"""

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from recorded.conversation import NOW_MS, Request, step
from request_fields import COMMIT, SUBSCRIPTION, SUSPEND, pull_fields, topic_fields

__all__ = [
    "COMMIT",
    "SUBSCRIPTION",
    "SUSPEND",
    "batch_body",
    "compact",
    "consumer",
    "create",
    "heartbeat",
    "name_value",
    "pop_fields",
    "pull_fields",
    "send_fields",
    "send_fields_long",
    "subscription",
    "topic_fields",
]

BORN_MS: Final = NOW_MS - 5
_LONG_NAMES: Final = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "l": "maxReconsumeTimes",
    "m": "batch",
}


def compact(value: Any) -> bytes:
    """Returns a JSON text without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def name_value(properties: Mapping[str, object]) -> str:
    """Returns properties of a message as a header has them."""
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


def create(topic: str, queues: int = 1, perm: int = 6, **more: object) -> Request:
    """Returns a step that creates a topic."""
    return step(17, topic_fields(topic, queues, perm, **more), note=f"topic {topic}")


def send_fields(
    topic: str,
    queue_id: int = 0,
    properties: Mapping[str, object] | None = None,
    **more: object,
) -> dict[str, object]:
    """Returns the fields of SEND_MESSAGE_V2; `more` replaces some by their letters."""
    fields: dict[str, object] = {
        "a": "pg",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": queue_id,
        "f": 0,
        "g": BORN_MS,
        "h": 0,
        "i": name_value(properties or {}),
        "j": 0,
        "k": False,
        "l": 16,
        "m": False,
        "n": "b",
    }
    return fields | more


def send_fields_long(
    topic: str,
    queue_id: int = 0,
    properties: Mapping[str, object] | None = None,
    **more: object,
) -> dict[str, object]:
    """Returns the fields of SEND_MESSAGE, which has long names."""
    fields = send_fields(topic, queue_id, properties, **more)
    return {_LONG_NAMES.get(name, name): value for name, value in fields.items() if name != "n"}


def without(fields: Mapping[str, object], *names: str) -> dict[str, object]:
    """Returns fields without some."""
    return {name: value for name, value in fields.items() if name not in names}


def batch_body(messages: Sequence[tuple[bytes, Mapping[str, object]]]) -> bytes:
    """Returns the body of a batch: bodies of messages with their properties."""
    parts = []
    for body, properties in messages:
        text = name_value(properties).encode()
        rest = struct.pack(">IIII", 0, zlib.crc32(body) & 0x7FFFFFFF, 0, len(body))
        rest += body + struct.pack(">H", len(text)) + text
        parts.append(struct.pack(">I", 4 + len(rest)) + rest)
    return b"".join(parts)


def subscription(
    topic: str, expression: str = "*", *, version: int = NOW_MS, kind: str = "TAG"
) -> dict[str, Any]:
    """Returns a SubscriptionData."""
    tags = [] if expression == "*" or kind != "TAG" else expression.split(" || ")
    return {
        "classFilterMode": False,
        "codeSet": [_java_hash(tag) for tag in tags],
        "expressionType": kind,
        "subString": expression,
        "subVersion": version,
        "tagsSet": tags,
        "topic": topic,
    }


def _java_hash(text: str) -> int:
    value = 0
    for letter in text:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def consumer(
    group: str,
    *subscriptions: Mapping[str, Any],
    consume_type: str = "CONSUME_PASSIVELY",
    model: str = "CLUSTERING",
) -> dict[str, Any]:
    """Returns a ConsumerData."""
    return {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeType": consume_type,
        "groupName": group,
        "messageModel": model,
        "subscriptionDataSet": list(subscriptions),
        "unitMode": False,
    }


def heartbeat(
    client_id: str, *consumers: Mapping[str, Any], producers: Sequence[str] = ()
) -> bytes:
    """Returns the body of HEART_BEAT."""
    return compact(
        {
            "clientID": client_id,
            "consumerDataSet": list(consumers),
            "heartbeatFingerprint": 0,
            "producerDataSet": [{"groupName": name} for name in producers],
            "withoutSub": False,
        }
    )


def pop_fields(topic: str, **more: object) -> dict[str, object]:
    """Returns the fields of POP_MESSAGE."""
    fields: dict[str, object] = {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": -1,
        "maxMsgNums": 32,
        "invisibleTime": 60_000,
        "pollTime": 0,
        "bornTime": 0,
        "initMode": 0,
        "exp": "*",
        "expType": "TAG",
        "order": False,
    }
    return fields | more
