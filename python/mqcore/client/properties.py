"""Names of message properties, and properties as text: `name` 1 `value` 2, repeated. Pure.

The names are the official `MessageConst`; a user's own property may have none of the reserved ones.
"""

from collections.abc import Mapping
from typing import Final

BORN_SEPARATORS: Final = ("\x01", "\x02")

KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
RETRY_TOPIC: Final = "RETRY_TOPIC"
TRAN_MSG: Final = "TRAN_MSG"
PGROUP: Final = "PGROUP"
UNIQ_KEY: Final = "UNIQ_KEY"
MSG_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
CLUSTER: Final = "CLUSTER"
MSG_TYPE: Final = "MSG_TYPE"
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
ARRIVE_TIME: Final = "ARRIVE_TIME"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
SHARDING_KEY: Final = "__SHARDINGKEY"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
INSTANCE_ID: Final = "INSTANCE_ID"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"

# `MessageConst.STRING_HASH_SET` and what the client sets by itself.
RESERVED: Final = frozenset(
    {
        "TRACE_ON",
        "MSG_REGION",
        "KEYS",
        "TAGS",
        "WAIT",
        "DELAY",
        "RETRY_TOPIC",
        "REAL_TOPIC",
        "REAL_QID",
        "TRAN_MSG",
        "PGROUP",
        "MIN_OFFSET",
        "MAX_OFFSET",
        "BUYER_ID",
        "ORIGIN_MESSAGE_ID",
        "TRANSFER_FLAG",
        "CORRECTION_FLAG",
        "MQ2_FLAG",
        "RECONSUME_TIME",
        "UNIQ_KEY",
        "MAX_RECONSUME_TIMES",
        "CONSUME_START_TIME",
        "POP_CK",
        "POP_CK_OFFSET",
        "1ST_POP_TIME",
        "TRAN_PREPARED_QUEUE_OFFSET",
        "DUP_INFO",
        "EXTEND_UNIQ_INFO",
        "INSTANCE_ID",
        "CORRELATION_ID",
        "REPLY_TO_CLIENT",
        "TTL",
        "ARRIVE_TIME",
        "PUSH_REPLY_TIME",
        "CLUSTER",
        "MSG_TYPE",
        "INNER_MULTI_QUEUE_OFFSET",
        "TIMER_DELAY_MS",
        "TIMER_DELAY_SEC",
        "TIMER_DELIVER_MS",
        "TIMER_ENQUEUE_MS",
        "TIMER_DEQUEUE_MS",
        "TIMER_ROLL_TIMES",
        "TIMER_OUT_MS",
        "TIMER_DEL_UNIQKEY",
        "TIMER_DELAY_LEVEL",
        "BORN_HOST",
        "BORN_TIMESTAMP",
        "DLQ_ORIGIN_TOPIC",
        "DLQ_ORIGIN_MESSAGE_ID",
        "__CRC32#",
        "__SHARDINGKEY",
        "__transactionId__",
    }
)
# Reserved names that a parameter of `Message` sets.
DUPLICATES: Final[Mapping[str, str]] = {
    KEYS: "keys",
    TAGS: "tags",
    DELAY: "delay_level",
    SHARDING_KEY: "sharding_key",
    TIMER_DELAY_MS: "delay",
    "TIMER_DELAY_SEC": "delay",
    TIMER_DELIVER_MS: "deliver_at",
    WAIT: "waits_stored",
}


def properties_text(properties: Mapping[str, str]) -> str:
    """Returns properties as one text, as a header carries them."""
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])


def parse_properties(text: str) -> dict[str, str]:
    """Returns the properties of a text; a pair without separator is skipped, as Java does."""
    pairs = (pair.split("\x01") for pair in text.split("\x02"))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
