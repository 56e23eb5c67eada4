"""The values that routes are made of, and what brokers register of themselves.

Knows no bytes and no socket.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from mqcore.model.static_topics import StaticQueues
from mqcore.model.versions import DataVersion

__all__ = [
    "FIRST_VERSION",
    "MASTER_ID",
    "PERM_READ",
    "PERM_WRITE",
    "BrokerGroup",
    "Live",
    "MasterAddresses",
    "MinIdChange",
    "Queues",
    "Registration",
]

MASTER_ID = 0
PERM_WRITE = 2
PERM_READ = 4
# What a broker has that sends no version.
FIRST_VERSION = DataVersion(0, 0)


@dataclass(frozen=True, slots=True)
class Queues:
    """The queues of one topic on one broker.

    Attributes:
        read: How many are read.
        write: How many are written.
        perm: Bits: 4 read, 2 write, 1 inherit.
        sys_flag: Bits: 1 unit, 2 unit of subscriptions.
        static: What the broker leads of a static topic (5.x); None of others.
    """

    read: int
    write: int
    perm: int
    sys_flag: int = 0
    static: StaticQueues | None = None


@dataclass(slots=True)
class BrokerGroup:
    """Brokers of one name: a master and its slaves.

    Attributes:
        name: The name.
        cluster: The cluster it belongs to.
        addresses: Address by broker id; 0 is the master.
        has_acting_master: Whether a slave acts for a master that is gone (5.x).
        zone: Its zone, if it sent one (5.x).
    """

    name: str
    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)
    has_acting_master: bool = False
    zone: str | None = None


@dataclass(slots=True)
class Live:
    """When one broker was last heard of.

    Attributes:
        updated_ms: The time.
        timeout_ms: For how long that counts.
        version: The version of its topic table.
        ha_address: Where its slaves replicate from.
        channel: The connection it registered by.
    """

    updated_ms: int
    timeout_ms: int
    version: DataVersion
    ha_address: str
    channel: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a broker sends in one registration.

    Attributes:
        cluster: Its cluster.
        name: Its name.
        address: Where clients reach it.
        broker_id: 0 for a master.
        ha_address: Where slaves replicate from.
        timeout_ms: For how long it counts as alive; the default where it does not send it.
        has_acting_master: As in `BrokerGroup`; None from a broker that does not know of it.
        zone: As in `BrokerGroup`.
        version: The version of its topic table.
        topics: The table, or the part of it that changed.
    """

    cluster: str
    name: str
    address: str
    broker_id: int
    ha_address: str = ""
    timeout_ms: int | None = None
    has_acting_master: bool | None = None
    zone: str | None = None
    version: DataVersion = FIRST_VERSION
    topics: Mapping[str, Queues] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MasterAddresses:
    """What a slave learns from its registration; empty for a master or without one.

    Attributes:
        address: The master's address.
        ha_address: Where to replicate from.
    """

    address: str = ""
    ha_address: str = ""


@dataclass(frozen=True, slots=True)
class MinIdChange:
    """The smallest id of a group is another one now; its brokers may want to know (5.x).

    Attributes:
        name: The group.
        min_id: The smallest id.
        min_address: Its address.
        offline_address: Who left, if that was the reason.
        ha_address: Where to replicate from.
        notify: The addresses to notify.
    """

    name: str
    min_id: int
    min_address: str
    offline_address: str | None
    ha_address: str
    notify: tuple[str, ...]
