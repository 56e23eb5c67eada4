"""Consumer groups: their configuration as JSON, and the groups that always exist. Pure values."""

from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from mqcore.model.attributes import PRIORITY_FACTOR
from mqcore.model.reading import INT, as_bool, as_dict, as_int, as_text
from mqcore.model.retry_policies import CUSTOMIZED, RetryPolicy, retry_policy

SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
# Groups that are there without anybody's asking; the broadcast of those three is allowed.
# Who delivers delay levels, in the keys of statistics.
SCHEDULE_GROUP: Final = "SCHEDULE_CONSUMER"
BUILTIN_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)

_KNOWN: Final = frozenset(
    {
        "groupName",
        "brokerId",
        "consumeBroadcastEnable",
        "consumeEnable",
        "consumeFromMinEnable",
        "notifyConsumerIdsChangedEnable",
        "retryMaxTimes",
        "retryQueueNums",
        "whichBrokerWhenConsumeSlowly",
    }
)


_POLICY: Final = "groupRetryPolicy"


# Every pop counts priorities unless an attribute gives another number.
_PRIORITY_ALWAYS = 100


# What 5.x writes for a group that nobody configured beyond 4.9's members.
def _extras() -> dict[str, Any]:
    return {
        "attributes": {},
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": 15,
        _POLICY: {"type": CUSTOMIZED},
        "groupSysFlag": 0,
    }


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """What a broker knows of a consumer group.

    Attributes:
        name: Its name.
        is_consume_enabled: Whether it may pull at all.
        is_broadcast_enabled: Whether it may consume as a broadcast.
        reads_from_min: Kept for the tools; no broker acts on it.
        notifies_changes: Whether members hear of a changed membership.
        retry_queues: Queues of its retry topic.
        retry_max_times: Deliveries after which a message is dead.
        broker_id: Broker to read from.
        slow_broker_id: Broker to read from when far behind.
        extras: Members that 5.x has beyond these, kept as they are.
    """

    name: str
    is_consume_enabled: bool = True
    is_broadcast_enabled: bool = True
    reads_from_min: bool = True
    notifies_changes: bool = True
    retry_queues: int = 1
    retry_max_times: int = 16
    broker_id: int = 0
    slow_broker_id: int = 1
    extras: dict[str, Any] = field(default_factory=_extras)

    @classmethod
    def of_json(cls, value: Any, name: str = "") -> Self:
        """Returns the group that a JSON object describes; defaults for what is missing."""
        found = as_dict(value)
        rest = {key: item for key, item in found.items() if key not in _KNOWN and item is not None}
        return cls(
            name=as_text(found.get("groupName")) or name,
            is_consume_enabled=as_bool(found.get("consumeEnable"), True),
            is_broadcast_enabled=as_bool(found.get("consumeBroadcastEnable"), True),
            reads_from_min=as_bool(found.get("consumeFromMinEnable"), True),
            notifies_changes=as_bool(found.get("notifyConsumerIdsChangedEnable"), True),
            retry_queues=as_int(found.get("retryQueueNums"), 1, bits=INT),
            retry_max_times=as_int(found.get("retryMaxTimes"), 16, bits=INT),
            broker_id=as_int(found.get("brokerId")),
            slow_broker_id=as_int(found.get("whichBrokerWhenConsumeSlowly"), 1),
            extras=_extras() | rest,
        )

    @property
    def retry_policy(self) -> RetryPolicy:
        """The pauses between its retries; the proxy of 5.x alone goes by them."""
        return retry_policy(self.extras.get(_POLICY))

    @property
    def priority_percent(self) -> int:
        """In how many of a hundred pops priorities count (`priority.factor` of 5.5), or 100."""
        percent = as_int(self.attributes.get(PRIORITY_FACTOR), _PRIORITY_ALWAYS)
        return min(max(percent, 0), _PRIORITY_ALWAYS)

    @property
    def attributes(self) -> dict[str, str]:
        """Its attributes; in a request the changes of them, by signed keys."""
        found = as_dict(self.extras.get("attributes"))
        return {name: as_text(value) for name, value in found.items()}

    def with_attributes(self, attributes: dict[str, str]) -> Self:
        """Returns the group with other attributes."""
        return replace(self, extras=self.extras | {"attributes": attributes})

    @property
    def policy_type(self) -> str:
        """The kind of its retry policy: `CUSTOMIZED` or `EXPONENTIAL`."""
        return as_text(as_dict(self.extras.get(_POLICY)).get("type"), CUSTOMIZED)

    def with_policy(self, policy: RetryPolicy) -> Self:
        """Returns the group with another retry policy."""
        return replace(self, extras=self.extras | {_POLICY: policy.to_json()})

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object."""
        return {
            **self.extras,
            "brokerId": self.broker_id,
            "consumeBroadcastEnable": self.is_broadcast_enabled,
            "consumeEnable": self.is_consume_enabled,
            "consumeFromMinEnable": self.reads_from_min,
            "groupName": self.name,
            "notifyConsumerIdsChangedEnable": self.notifies_changes,
            "retryMaxTimes": self.retry_max_times,
            "retryQueueNums": self.retry_queues,
            "whichBrokerWhenConsumeSlowly": self.slow_broker_id,
        }
