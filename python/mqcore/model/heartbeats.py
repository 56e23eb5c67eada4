"""The heartbeat of a client: who it is, and its groups, read as leniently as clients write it.

Pure values. Java sends names for enumerations, C++ their ordinals, Go hashes as texts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from mqcore.model.reading import as_bool, as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.model.subscriptions import SubscriptionData

CONSUME_TYPES: Final = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
MESSAGE_MODELS: Final = ("BROADCASTING", "CLUSTERING")
FROM_WHERE: Final = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)
# In the answer to a heartbeat: whether the broker delivers timed messages in time. Ours alone
# reports it; of others the version shows it.
TIMERS_FIELD: Final = "timerWheelEnable"
# Whether a broker commits half messages that represent many: beside it, and ours alone.
HALF_BATCHES_FIELD: Final = "mqcoreHalfBatches"
BROADCASTING: Final = MESSAGE_MODELS[0]
CLUSTERING: Final = MESSAGE_MODELS[1]
PASSIVELY: Final = CONSUME_TYPES[1]


def _choice(value: Any, choices: tuple[str, ...], default: str) -> str:
    """Returns a member of an enumeration that is given by name or by ordinal."""
    if isinstance(value, str) and value in choices:
        return value
    ordinal = as_int(value, -1)
    return choices[ordinal] if 0 <= ordinal < len(choices) else default


@dataclass(frozen=True, slots=True)
class ConsumerData:
    """One consumer group of a client.

    Attributes:
        group: Its name.
        consume_type: Pulls by itself, is pushed to, or pops.
        message_model: Broadcast, or shared within the group.
        from_where: Where a new group begins.
        subscriptions: What it wants.
        is_unit_mode: The unit mode of the client.
    """

    group: str
    consume_type: str
    message_model: str
    from_where: str
    subscriptions: tuple[SubscriptionData, ...]
    is_unit_mode: bool

    @classmethod
    def of_json(cls, value: Any) -> Self | None:
        """Returns the group that a JSON object describes, None for one without name."""
        found = as_dict(value)
        group = as_text(found.get("groupName"))
        if not group:
            return None
        wanted = (
            SubscriptionData.of_json(item) for item in as_list(found.get("subscriptionDataSet"))
        )
        return cls(
            group=group,
            consume_type=_choice(found.get("consumeType"), CONSUME_TYPES, PASSIVELY),
            message_model=_choice(found.get("messageModel"), MESSAGE_MODELS, CLUSTERING),
            from_where=_choice(found.get("consumeFromWhere"), FROM_WHERE, FROM_WHERE[0]),
            subscriptions=tuple(item for item in wanted if item is not None),
            is_unit_mode=as_bool(found.get("unitMode")),
        )

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object."""
        return {
            "consumeFromWhere": self.from_where,
            "consumeType": self.consume_type,
            "groupName": self.group,
            "messageModel": self.message_model,
            "subscriptionDataSet": [item.to_json() for item in self.subscriptions],
            "unitMode": self.is_unit_mode,
        }


@dataclass(frozen=True, slots=True)
class HeartbeatData:
    """What a client reports every 30 seconds.

    Attributes:
        client_id: Its id: opaque, one per client instance.
        producer_groups: Groups that it produces as.
        consumers: Groups that it consumes as.
    """

    client_id: str
    producer_groups: tuple[str, ...] = ()
    consumers: tuple[ConsumerData, ...] = ()

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Returns the heartbeat in the body of a request.

        Raises:
            BadJsonError: It cannot be read.
        """
        return cls.of_json(parse_object(body))

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Self:
        """Returns the heartbeat that a JSON object describes."""
        names = (
            as_text(as_dict(item).get("groupName"))
            for item in as_list(found.get("producerDataSet"))
        )
        groups = (ConsumerData.of_json(item) for item in as_list(found.get("consumerDataSet")))
        return cls(
            client_id=as_text(found.get("clientID")),
            producer_groups=tuple(name for name in names if name),
            consumers=tuple(item for item in groups if item is not None),
        )

    def encode(self) -> bytes:
        """Returns the body of a heartbeat."""
        return compact(
            {
                "clientID": self.client_id,
                "consumerDataSet": [item.to_json() for item in self.consumers],
                "producerDataSet": [{"groupName": name} for name in self.producer_groups],
            }
        )
