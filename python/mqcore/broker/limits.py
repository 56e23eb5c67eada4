"""How many topics, groups and queues there may be, and what one client may bring.

A limit refuses what is new. What a store has already, and changes of it, are never refused: a
directory with more than the limit is served whole. Pure values; knows no table.
"""

from dataclasses import dataclass

from mqcore.config import BrokerSettings
from mqcore.errors import RefusedError
from mqcore.remoting import ResponseCode

__all__ = ["UNLIMITED", "BrokerLimits", "refused"]

_ANY_NUMBER = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """The limits of a broker; each is a setting of the same name.

    Attributes:
        topics: `topicsMax`.
        queues: `queuesMax`: over all topics the larger of read and write queues.
        groups: `groupsMax`: consumer groups that are configured, and producer groups online.
        clients_per_group: `clientsPerGroupMax`.
        groups_per_heartbeat: `groupsPerHeartbeatMax`: consumer groups, and as many producer groups.
        subscriptions_per_group: `subscriptionsPerGroupMax`.
        subscriptions_per_heartbeat: `subscriptionsPerHeartbeatMax`.
        heartbeat_bytes: `heartbeatBytesMax`.
    """

    topics: int
    queues: int
    groups: int
    clients_per_group: int
    groups_per_heartbeat: int
    subscriptions_per_group: int
    subscriptions_per_heartbeat: int
    heartbeat_bytes: int

    @classmethod
    def of(cls, settings: BrokerSettings) -> "BrokerLimits":
        """Returns the limits that the settings name."""
        return cls(
            topics=settings.topics_max,
            queues=settings.queues_max,
            groups=settings.groups_max,
            clients_per_group=settings.clients_per_group_max,
            groups_per_heartbeat=settings.groups_per_heartbeat_max,
            subscriptions_per_group=settings.subscriptions_per_group_max,
            subscriptions_per_heartbeat=settings.subscriptions_per_heartbeat_max,
            heartbeat_bytes=settings.heartbeat_bytes_max,
        )


UNLIMITED = BrokerLimits(
    topics=_ANY_NUMBER,
    queues=_ANY_NUMBER,
    groups=_ANY_NUMBER,
    clients_per_group=_ANY_NUMBER,
    groups_per_heartbeat=_ANY_NUMBER,
    subscriptions_per_group=_ANY_NUMBER,
    subscriptions_per_heartbeat=_ANY_NUMBER,
    heartbeat_bytes=_ANY_NUMBER,
)


def refused(what: str, key: str, limit: int) -> RefusedError:
    """Returns the refusal of something new.

    Args:
        what: What is refused.
        key: The setting.
        limit: Its value.
    """
    return RefusedError(
        f"{what} is refused: this broker takes no more than {key}={limit}",
        code=ResponseCode.SYSTEM_ERROR,
    )
