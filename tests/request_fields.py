"""Header fields of requests that tests of several kinds send, as official clients write them.

Pure functions; share no code with the product.
"""

__all__ = ["COMMIT", "SUBSCRIPTION", "SUSPEND", "pull_fields", "topic_fields"]

# Bits of the flags of a pull.
COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4


def topic_fields(topic: str, queues: int = 1, perm: int = 6, **more: object) -> dict[str, object]:
    """Returns the fields of UPDATE_AND_CREATE_TOPIC, as `mqadmin updateTopic` sends them."""
    return {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": perm,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
        **more,
    }


def pull_fields(
    topic: str,
    offset: int = 0,
    *,
    group: str = "g",
    queue_id: int = 0,
    wait_ms: int = 0,
    **more: object,
) -> dict[str, object]:
    """Returns the fields of a pull that brings its subscription; held where `wait_ms` is given."""
    fields: dict[str, object] = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue_id,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": SUBSCRIPTION | (SUSPEND if wait_ms else 0),
        "commitOffset": 0,
        "suspendTimeoutMillis": wait_ms,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
    }
    return fields | more
