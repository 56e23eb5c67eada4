"""Limits of one broker: quotas with whom they hold back, connections by address, signatures."""

from typing import Any

from mqcore.admin import Quota
from mqcore.console.asking import BrokerAt
from mqcore.console.views import Asked

__all__ = ["limits_tab"]


async def limits_tab(asked: Asked, at: BrokerAt) -> dict[str, Any]:
    """Returns the limits of a broker that are at work."""
    asks = asked.questions
    limits = await asks.ask_if_known(
        at.address, "limits", lambda: asks.admin.brokers.limits(at.address)
    )
    if limits is None:
        return {"limits": None}
    return {"limits": limits, "quotas": [_row(each) for each in limits.quotas]}


def _row(quota: Quota) -> dict[str, Any]:
    return {
        "rule": quota.rule,
        "limits": list(quota.limits.items()),
        "waiting": quota.waiting,
        "held": quota.held,
        "held_ms": quota.held_ms,
        "refused": quota.refused,
        "names": quota.names,
        "owing": list(quota.owing.items()),
    }
