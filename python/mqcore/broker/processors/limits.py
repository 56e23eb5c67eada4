"""The limits that are at work: quotas with whom they hold back, connections by address, signatures.

The answer's body to LIMITS, which has no fields:

    {"quotas": [QUOTA...],
     "connections": {"perAddress": 1000, "refused": 3,
                     "addresses": [{"address": "10.0.0.7", "connections": 812}...]},
     "users": {"connectionsMax": 0, "heldBytesMax": 0, "refused": 0, "paused": 0,
               "most": [{"user": "shop", "connections": 3, "heldBytes": 812, "paused": 0}...]},
     "signatures": {"perMinute": 10, "late": 12, "unanswered": 0},
     "adminChanges": {"perSecond": 20, "held": 4, "refused": 0}}

A QUOTA, in the order of the rules; a limit that it has not is not there:

    {"rule": "topic:orders*", "limits": {"producer_byte_rate": 1048576}, "held": 93,
     "heldMs": 20311, "refused": 0, "waiting": 2, "names": 3,
     "owing": [{"name": "orders-eu", "ms": 312}]}

`addresses` are those that have most, `most` the users who hold most, `owing` the names that owe
most.
"""

from collections.abc import Mapping
from typing import Any, Final

from mqcore.broker.state import BrokerState
from mqcore.model.quotas import LIMIT_NAMES
from mqcore.model.relaxed_json import compact
from mqcore.native import Command, QuotaRow
from mqcore.remoting import Handler, OwnRequestCode, Request, UserHold

__all__ = ["LimitsReport"]

_ADDRESSES_SHOWN: Final = 10
_USERS_SHOWN: Final = 10


class LimitsReport:
    """Serves the request about limits."""

    def __init__(self, state: BrokerState) -> None:
        """Takes what it works on."""
        self._state = state

    def own_handlers(self) -> Mapping[int, Handler]:
        """Returns the codes of ours served here."""
        return {OwnRequestCode.LIMITS: self.limits}

    def limits(self, request: Request) -> Command:
        """LIMITS: what is held back, and by what."""
        return request.answer(body=compact(_found(self._state)))


def _found(state: BrokerState) -> dict[str, Any]:
    settings, access = state.settings, state.access
    addresses = state.addresses.most(_ADDRESSES_SHOWN)
    return {
        "quotas": [_quota(row) for row in state.fast_path.quotas()],
        "connections": {
            "perAddress": settings.listener.connections_per_address,
            "refused": state.link_refusals.get("per_address", 0),
            "addresses": [
                {"address": address, "connections": count} for address, count in addresses
            ],
        },
        "users": {
            "connectionsMax": settings.listener.connections_per_user,
            "heldBytesMax": settings.listener.held_bytes_per_user,
            "refused": state.link_refusals.get("per_user", 0),
            "paused": state.users.paused_count,
            "most": [_user(each) for each in state.users.most(_USERS_SHOWN)],
        },
        "signatures": {
            "perMinute": access.settings.failures_free,
            "late": access.engine.late_refusals,
            "unanswered": access.engine.silent_refusals,
        },
        "adminChanges": {
            "perSecond": settings.admin_changes_per_second,
            "held": state.admin_pace.held,
            "refused": state.admin_pace.refused,
        },
    }


def _user(row: UserHold) -> dict[str, Any]:
    return {
        "user": row.user,
        "connections": row.connections,
        "heldBytes": row.held_bytes,
        "paused": row.paused,
    }


def _quota(row: QuotaRow) -> dict[str, Any]:
    limits = zip(LIMIT_NAMES, row.rates, strict=True)
    return {
        "rule": row.rule,
        "limits": {name: rate for name, rate in limits if rate},
        "held": row.held,
        "heldMs": row.held_ms,
        "refused": row.refused,
        "waiting": row.waiting,
        "names": row.names,
        "owing": [
            {"name": name, "ms": ms} for name, ms in zip(row.owing, row.owed_ms, strict=True)
        ],
    }
