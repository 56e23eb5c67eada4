"""What a topic or a group is for, by its name and attributes: of users, or of the servers."""

from collections.abc import Collection, Iterable
from typing import Final

from mqcore.admin import ClusterInfo
from mqcore.model.groups import BUILTIN_GROUPS, SYSTEM_GROUP_PREFIX
from mqcore.model.topics import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    CHECK_MAX_TIME_TOPIC,
    DLQ_PREFIX,
    OFFSET_MOVED_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_PREFIX,
    TopicConfig,
)

__all__ = ["KINDS", "OF_USERS", "is_system_group", "server_names", "topic_kind"]

OF_USERS: Final = ("normal", "fifo", "delay", "transaction", "mixed", "lite")
KINDS: Final = ("user", *OF_USERS, "retry", "dead letters", "system", "all")
_TYPE: Final = "message.type"
_SYSTEM: Final = frozenset(
    {
        *(AUTO_CREATE_TOPIC, BENCHMARK_TOPIC, CHECK_MAX_TIME_TOPIC, OFFSET_MOVED_TOPIC),
        *(SCHEDULE_TOPIC, SELF_TEST_TOPIC),
    }
)


def server_names(info: ClusterInfo) -> frozenset[str]:
    """Returns the topics that are named like clusters and brokers."""
    clusters = [*info.clusters, *(f"{name}_REPLY_TOPIC" for name in info.clusters)]
    return frozenset((*clusters, *info.brokers))


def topic_kind(name: str, configs: Iterable[TopicConfig], servers: Collection[str]) -> str:
    """Returns what a topic is for: one of `KINDS`, but `user` and `all`."""
    if name.startswith(RETRY_PREFIX):
        return "retry"
    if name.startswith(DLQ_PREFIX):
        return "dead letters"
    if name in _SYSTEM or name in servers or name.lower().startswith(SYSTEM_PREFIX):
        return "system"
    for config in configs:
        kind = config.attributes.get(_TYPE, "").lower()
        if kind in OF_USERS:
            return kind
        if config.order:
            return "fifo"
    return "normal"


def is_system_group(name: str) -> bool:
    """Returns whether servers and tools made a group for themselves."""
    return name in BUILTIN_GROUPS or name.startswith(SYSTEM_GROUP_PREFIX)
