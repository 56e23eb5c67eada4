"""Topics: their configuration as JSON and on the wire, permissions, and the names that are legal.

Pure values; knows no table and no time.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final, Self

from mqcore.model.reading import INT, as_bool, as_dict, as_int, as_text

PERM_PRIORITY: Final = 8
PERM_READ: Final = 4
PERM_WRITE: Final = 2
PERM_INHERIT: Final = 1
PERM_READ_WRITE: Final = PERM_READ | PERM_WRITE

# A record keeps the length of its topic in one signed byte.
TOPIC_LEN_MAX: Final = 127
GROUP_LEN_MAX: Final = 255
# An order is for few queues, a mistake for many: no client needs more, and each costs a file.
QUEUES_MAX: Final = 65_536

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
SYSTEM_PREFIX: Final = "rmq_sys_"
AUTO_CREATE_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
# What the topics of check points of pops begin with; the name of the cluster follows.
REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
# `TopicValidator.SYNC_BROKER_MEMBER_GROUP_PREFIX`; the broker's name follows.
MEMBER_GROUP_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
BENCHMARK_TOPIC: Final = "BenchmarkTest"

# Topics that no client may send to.
UNSENDABLE_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")


def revive_topic(cluster: str) -> str:
    """Returns the topic of the check points of pops (`PopAckConstants.buildClusterReviveTopic`)."""
    return f"{REVIVE_PREFIX}{cluster}"


def member_group_topic(broker_name: str) -> str:
    """Returns the topic whose route has the living brokers of a name, of 4.9 too."""
    return f"{MEMBER_GROUP_PREFIX}{broker_name}"


def pop_retry_topics(topic: str, group: str) -> tuple[str, str]:
    """Returns where a group's pops of a topic come back, first and second kind (`KeyBuilder`)."""
    return f"{RETRY_PREFIX}{group}_{topic}", f"{RETRY_PREFIX}{group}+{topic}"


def topic_fault(topic: str) -> str | None:
    """Returns what is wrong with a topic's name in the official words, None for a legal one."""
    if not topic.strip():
        return "The specified topic is blank."
    if not _LEGAL.fullmatch(topic):
        return "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if len(topic) > TOPIC_LEN_MAX:
        return f"The specified topic is longer than topic max length {TOPIC_LEN_MAX}."
    return None


def group_fault(group: str) -> str | None:
    """Returns what is wrong with a group's name, None for a legal one."""
    if not group.strip():
        return "The specified group is blank."
    if not _LEGAL.fullmatch(group):
        return "The specified group contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if len(group) > GROUP_LEN_MAX:
        return f"The specified group is longer than group max length {GROUP_LEN_MAX}."
    return None


def perm_text(perm: int) -> str:
    """Returns a permission as `RWX` with dashes for what is missing."""
    return "".join(
        letter if perm & bit else "-"
        for letter, bit in (("R", PERM_READ), ("W", PERM_WRITE), ("X", PERM_INHERIT))
    )


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What a broker knows of a topic.

    Attributes:
        name: Its name.
        read_queues: Queues that consumers read.
        write_queues: Queues that producers write.
        perm: Sum of permission bits.
        filter_type: `SINGLE_TAG` or `MULTI_TAG`.
        sys_flag: 1 unit, 2 has unit subscription.
        order: Whether the topic promises order.
        attributes: The attributes of 5.x, kept as they are.
    """

    name: str
    read_queues: int = 16
    write_queues: int = 16
    perm: int = PERM_READ_WRITE
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_json(cls, value: Any, name: str = "") -> Self:
        """Returns the topic that a JSON object describes; defaults for what is missing."""
        found = as_dict(value)
        kind = found.get("topicFilterType")
        return cls(
            name=as_text(found.get("topicName")) or name,
            read_queues=as_int(found.get("readQueueNums"), 16, bits=INT),
            write_queues=as_int(found.get("writeQueueNums"), 16, bits=INT),
            perm=as_int(found.get("perm"), PERM_READ_WRITE, bits=INT),
            filter_type="MULTI_TAG" if kind in ("MULTI_TAG", 1) else "SINGLE_TAG",
            sys_flag=as_int(found.get("topicSysFlag"), bits=INT),
            order=as_bool(found.get("order")),
            attributes={k: as_text(v) for k, v in as_dict(found.get("attributes")).items()},
        )

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object."""
        return {
            "attributes": dict(self.attributes),
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queues,
            "topicFilterType": self.filter_type,
            "topicName": self.name,
            "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queues,
        }

    @property
    def queues(self) -> int:
        """The number of queues that are written or read."""
        return max(self.read_queues, self.write_queues)
