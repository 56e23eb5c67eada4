"""Whether a broker lives, and whether clients get what they ask of it.

Looks at what the broker knows of itself; asks nobody.
"""

import asyncio
from collections.abc import Callable, Mapping

from mqcore.broker.role import Duty
from mqcore.broker.state import BrokerState
from mqcore.remoting.health import Checks

__all__ = ["Registered", "live_checks", "ready_checks"]

# The name servers that know the broker now.
Registered = Callable[[], frozenset[str]]


def live_checks(state: BrokerState) -> Checks:
    """Returns what only a new start mends: nothing is acknowledged after a sync that failed."""

    async def checks() -> Mapping[str, str]:
        stats = await asyncio.to_thread(state.store.stats)
        return {"store": stats.poisoned or ""}

    return checks


def ready_checks(state: BrokerState, registered: Registered) -> Checks:
    """Returns what keeps clients from being served."""

    async def checks() -> Mapping[str, str]:
        stats = await asyncio.to_thread(state.store.stats)
        # The store of a slave refuses appends of its own for good.
        refused = [] if state.role.duty is Duty.SLAVE else list(stats.refused)
        return {
            "disk": "; ".join(refused),
            "nameServers": _not_registered(state, registered()),
            "role": _undecided(state),
            "replication": _not_following(state),
        }

    return checks


def _not_registered(state: BrokerState, registered: frozenset[str]) -> str:
    """Returns why clients do not find the broker: no name server knows it."""
    if not state.name_servers or registered or state.role.duty is Duty.FENCED:
        # Of a broker without a role the next check has the reason.
        return ""
    return f"registered with none of {'; '.join(state.name_servers)}"


def _undecided(state: BrokerState) -> str:
    if state.role.duty is Duty.FENCED:
        return "the controller has not named a master yet"
    return ""


def _not_following(state: BrokerState) -> str:
    """Returns why a replica has not what its group has."""
    replicas, role = state.replicas, state.role
    if role.duty is Duty.SLAVE:
        if replicas.refilling is not None:
            return f"copies whole files of its master: {_percent(state)} %"
        if not replicas.has_master:
            return f"not connected to its master {replicas.master_ha_address}".rstrip()
        return ""
    master = replicas.master
    if role.is_controlled and master is not None:
        members = master.sync_state().members
        if members and replicas.controller_id not in members:
            return "it is not in the sync-state set"
    return ""


def _percent(state: BrokerState) -> int:
    refilling = state.replicas.refilling
    if refilling is None:
        return 100
    figures = refilling.figures
    return figures.done_bytes * 100 // figures.total_bytes if figures.total_bytes else 100
