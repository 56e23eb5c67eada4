"""The limits of a broker of mqcore that are at work, as values.

Pure functions of parsed JSON; lenient as the other results are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from mqcore.model.reading import as_dict, as_int, as_list, as_text

__all__ = ["BrokerLimits", "Quota", "UserConnections"]


@dataclass(frozen=True, slots=True)
class Quota:
    """A rule of `mqcoreQuotas`.

    Attributes:
        rule: Whose, as it is written: `topic:orders*`.
        limits: Its rates a second, by the name of the limit.
        held: Requests that it held back, since it was set.
        held_ms: For how long in all.
        refused: Requests that it refused.
        waiting: Requests that it holds back now.
        names: Names that use it now.
        owing: The names that owe most, with the time until they owe nothing, ms.
    """

    rule: str
    limits: Mapping[str, int]
    held: int
    held_ms: int
    refused: int
    waiting: int
    names: int
    owing: Mapping[str, int]

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a JSON object describes."""
        found = as_dict(value)
        owing = [as_dict(each) for each in as_list(found.get("owing"))]
        limits = as_dict(found.get("limits"))
        return cls(
            rule=as_text(found.get("rule")),
            limits={name: as_int(rate) for name, rate in limits.items()},
            held=as_int(found.get("held")),
            held_ms=as_int(found.get("heldMs")),
            refused=as_int(found.get("refused")),
            waiting=as_int(found.get("waiting")),
            names=as_int(found.get("names")),
            owing={as_text(each.get("name")): as_int(each.get("ms")) for each in owing},
        )


@dataclass(frozen=True, slots=True)
class UserConnections:
    """What the connections of a user hold.

    Attributes:
        user: The name.
        connections: Connections.
        held_bytes: What they hold of unfinished frames and of requests that wait.
        paused: Connections of them that are read no further for that.
    """

    user: str
    connections: int
    held_bytes: int
    paused: int

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a JSON object describes."""
        found = as_dict(value)
        return cls(
            user=as_text(found.get("user")),
            connections=as_int(found.get("connections")),
            held_bytes=as_int(found.get("heldBytes")),
            paused=as_int(found.get("paused")),
        )


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """The limits of a broker, and whom they hold back.

    Attributes:
        quotas: The rules of `mqcoreQuotas`, in their order.
        connections_per_address: How many connections an address may have; 0 for any number.
        connections_refused: Connections that were closed for it when they came.
        addresses: The addresses that have most connections, with how many.
        connections_per_user: How many connections a user may have; 0 for any number.
        held_bytes_per_user: What those of a user may hold, bytes; 0 for any amount.
        users_refused: Connections that were closed because their user had as many.
        users_paused: How often a connection was read no further because its user held as much.
        users: The users who hold most.
        failures_per_minute: Wrong signatures of an address that are answered at once.
        failures_late: Wrong signatures that were answered late.
        failures_unanswered: Wrong signatures that were not answered.
        changes_per_second: Changes that a user may make a second; 0 for any number.
        changes_held: Changes that were held back.
        changes_refused: Changes that were refused.
    """

    quotas: tuple[Quota, ...]
    connections_per_address: int
    connections_refused: int
    addresses: Mapping[str, int]
    connections_per_user: int
    held_bytes_per_user: int
    users_refused: int
    users_paused: int
    users: tuple[UserConnections, ...]
    failures_per_minute: int
    failures_late: int
    failures_unanswered: int
    changes_per_second: int
    changes_held: int
    changes_refused: int

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a JSON object describes."""
        found = as_dict(value)
        connections = as_dict(found.get("connections"))
        signatures, changes = as_dict(found.get("signatures")), as_dict(found.get("adminChanges"))
        users = as_dict(found.get("users"))
        addresses = [as_dict(each) for each in as_list(connections.get("addresses"))]
        return cls(
            quotas=tuple(map(Quota.of_json, as_list(found.get("quotas")))),
            connections_per_address=as_int(connections.get("perAddress")),
            connections_refused=as_int(connections.get("refused")),
            addresses={
                as_text(each.get("address")): as_int(each.get("connections")) for each in addresses
            },
            connections_per_user=as_int(users.get("connectionsMax")),
            held_bytes_per_user=as_int(users.get("heldBytesMax")),
            users_refused=as_int(users.get("refused")),
            users_paused=as_int(users.get("paused")),
            users=tuple(map(UserConnections.of_json, as_list(users.get("most")))),
            failures_per_minute=as_int(signatures.get("perMinute")),
            failures_late=as_int(signatures.get("late")),
            failures_unanswered=as_int(signatures.get("unanswered")),
            changes_per_second=as_int(changes.get("perSecond")),
            changes_held=as_int(changes.get("held")),
            changes_refused=as_int(changes.get("refused")),
        )
