"""The order locks of a consumer at the brokers: taken, renewed, given up.

After `RebalanceImpl.lock`, `lockAll`, `unlock`. A lock lives 60 s at a broker and counts here for
30 s; all of them are renewed every 20 s, with one request per broker.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from mqcore.client.consumer_calls import ConsumerCalls
from mqcore.client.process_queue import QueueState
from mqcore.errors import RemotingError
from mqcore.model.queues import MessageQueue

__all__ = ["LOCK_INTERVAL_S", "OrderLocks"]

_log = logging.getLogger(__name__)

LOCK_INTERVAL_S: Final = 20.0


class OrderLocks:
    """Locks queues for one group."""

    def __init__(self, calls: ConsumerCalls, now_ms: Callable[[], int]) -> None:
        """Takes who asks the brokers, and the time."""
        self._calls = calls
        self._now_ms = now_ms

    async def lock_one(self, state: QueueState) -> bool:
        """Takes or renews the lock of a queue; returns whether it is ours."""
        await self._lock(self._calls.broker_of(state.queue), [state])
        return state.has_lock(self._now_ms())

    async def renew(self, states: Iterable[QueueState]) -> None:
        """Renews the locks of queues; those that a broker does not give are ours no more."""
        by_broker: dict[str, list[QueueState]] = {}
        for state in states:
            if not state.is_dropped:
                by_broker.setdefault(self._calls.broker_of(state.queue), []).append(state)
        await asyncio.gather(*(self._lock(name, group) for name, group in by_broker.items()))

    async def _lock(self, broker_name: str, states: list[QueueState]) -> None:
        # The life of a lock is counted from before the request: never longer than the broker's.
        asked_ms = self._now_ms()
        try:
            ours = await self._calls.lock(broker_name, [state.queue for state in states])
        except RemotingError as error:
            # Not known: what counts still counts until it is too old.
            _log.warning("order locks of %s were not renewed: %s", broker_name, error.message)
            return
        for state in states:
            if state.queue in ours:
                state.is_locked = True
                state.last_lock_ms = asked_ms
            elif state.is_locked:
                state.is_locked = False
                _log.warning("the order lock of %s went to another member", state.queue)

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Gives locks up; a broker that does not hear it lets them expire."""
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(self._calls.broker_of(queue), []).append(queue)
        await asyncio.gather(*(self._unlock(name, group) for name, group in by_broker.items()))

    async def _unlock(self, broker_name: str, queues: list[MessageQueue]) -> None:
        try:
            await self._calls.unlock(broker_name, queues)
        except RemotingError as error:
            _log.warning("order locks of %s were not given up: %s", broker_name, error.message)
