"""What of a master's progress may be written down: that which no later master takes off the log.

Under a controller a log may be cut behind its confirm offset. Who had written down that it had
delivered what was cut, and is elected later, would never deliver it. Without a controller nothing
is cut. Knows no table.
"""

import asyncio
from collections.abc import Awaitable, Callable

from mqcore.broker.state import BrokerState

__all__ = ["come_true", "is_settled", "log_end", "reign_of"]

# What was stored is with the slaves in sync within milliseconds, or is not to be written yet.
_WAIT_S = 0.5
_LOOK_S = 0.01


def log_end(state: BrokerState) -> int:
    """Returns the end of a member's log; 0 without a controller, where nothing is waited for."""
    epochs = state.replicas.epochs
    return 0 if epochs is None else epochs.positions().end


def reign_of(state: BrokerState) -> tuple[int, str]:
    """Returns whose log ours becomes a copy of: the epoch and the address of the master.

    An offset in the log of one master is no place in the log of another.
    """
    return state.role.epoch, state.replicas.master_address


async def is_settled(state: BrokerState, end: int) -> bool:
    """Returns whether nobody cuts the log before `end`, now or in half a second.

    Raises:
        StoreError: The log cannot be synced.
    """
    epochs = state.replicas.epochs
    if epochs is None:
        return True
    # With synchronous flush nothing is confirmed that the disk does not have.
    await asyncio.to_thread(state.store.flush)

    async def is_confirmed() -> bool:
        return epochs.positions().confirmed >= end

    return await come_true(is_confirmed)


async def come_true(look: Callable[[], Awaitable[bool]]) -> bool:
    """Returns whether a look succeeds, now or in half a second.

    Reports of slaves come on another thread, which notifies nobody here.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _WAIT_S
    while not await look():
        if loop.time() >= until_s:
            return False
        await asyncio.sleep(_LOOK_S)
    return True
