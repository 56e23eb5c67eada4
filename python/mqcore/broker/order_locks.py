"""Locks of ordered consumption: which client may read a queue for its group.

Pure state over passed-in times. Locks are not kept over a restart: clients renew every 20 s. Those
of a group are in the order of their renewal, so that neither the newest nor the expired ones are
searched for.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_text

# A lock that was not renewed for so long is free (`rocketmq.broker.rebalance.lockMaxLiveTime`).
LOCK_LIFE_MS = 60_000
# Locks at the most, of all groups: some hundred bytes each. Beyond it nobody gets another one.
LOCKS_MAX = 1_000_000
# Queues of one request: a consumer of an enormous topic has some thousands on one broker.
QUEUES_PER_REQUEST_MAX = 8_192
# Locks that are looked at in one turn of the loop: about a millisecond.
LOCKS_PER_TURN = 1_024


@dataclass(frozen=True, slots=True)
class _Lock:
    client_id: str
    renewed_ms: int

    def is_held(self, now_ms: int) -> bool:
        return now_ms - self.renewed_ms <= LOCK_LIFE_MS


class OrderLocks:
    """Who holds which queue, per group."""

    def __init__(self) -> None:
        """Begins with no lock."""
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0

    def lock(
        self, group: str, queues: Iterable[MessageQueue], client_id: str, now_ms: int
    ) -> list[MessageQueue]:
        """Locks queues, or renews their locks; returns those that the client holds now."""
        locks = self._locks.setdefault(group, {})
        held = []
        for queue in queues:
            known = locks.get(queue)
            if known is None and self._count >= LOCKS_MAX:
                continue
            if known is None or known.client_id == client_id or not known.is_held(now_ms):
                self._count += known is None
                # Behind all that were renewed before.
                locks.pop(queue, None)
                locks[queue] = _Lock(client_id, now_ms)
                held.append(queue)
        if not locks:
            del self._locks[group]
        return held

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Frees those of the queues that the client holds."""
        locks = self._locks.get(group, {})
        for queue in queues:
            known = locks.get(queue)
            if known is not None and known.client_id == client_id:
                del locks[queue]
                self._count -= 1
        if not locks:
            self._locks.pop(group, None)

    def holders(self, group: str, now_ms: int) -> Mapping[MessageQueue, str]:
        """Returns the locks of a group that are held: the client of each queue."""
        locks = self._locks.get(group, {})
        return {queue: lock.client_id for queue, lock in locks.items() if lock.is_held(now_ms)}

    def rows(self, now_ms: int) -> list[dict[str, Any]]:
        """Returns the locks that are held, for a broker that takes the role over."""
        return [
            {
                "group": group,
                "clientId": lock.client_id,
                "queue": queue.to_json(),
            }
            for group, locks in self._locks.items()
            for queue, lock in locks.items()
            if lock.is_held(now_ms)
        ]

    def take(self, rows: Iterable[Mapping[str, Any]], now_ms: int) -> set[str]:
        """Takes locks that another broker has handed over; returns their groups."""
        groups = set()
        for row in rows:
            group, queue = as_text(row.get("group")), MessageQueue.of_json(row.get("queue"))
            if group and queue is not None:
                self.lock(group, (queue,), as_text(row.get("clientId")), now_ms)
                groups.add(group)
        return groups

    def until_ms(self, group: str) -> int | None:
        """Returns until when some queue is held for a group, however long ago; None for no lock."""
        locks = self._locks.get(group)
        return next(reversed(locks.values())).renewed_ms + LOCK_LIFE_MS if locks else None

    def forget_expired(self, now_ms: int) -> Iterator[list[str]]:
        """Drops locks that are free, so that groups that are gone take no memory.

        Yields:
            After each turn's work: the groups that have none any more.
        """
        looks = 0
        gone: list[str] = []
        for group in list(self._locks):
            is_done = False
            while not is_done:
                locks = self._locks.get(group, {})
                free = _expired(locks, now_ms)
                for queue in free:
                    del locks[queue]
                self._count -= len(free)
                if not locks and self._locks.pop(group, None) is not None:
                    gone.append(group)
                is_done = len(free) < LOCKS_PER_TURN
                looks += 1 + len(free)
                if looks >= LOCKS_PER_TURN:
                    yield gone
                    looks, gone = 0, []
        yield gone


def _expired(locks: Mapping[MessageQueue, _Lock], now_ms: int) -> list[MessageQueue]:
    """Returns the oldest locks that are free, as many as one turn may take."""
    free: list[MessageQueue] = []
    for queue, lock in locks.items():
        if lock.is_held(now_ms) or len(free) == LOCKS_PER_TURN:
            break
        free.append(queue)
    return free
