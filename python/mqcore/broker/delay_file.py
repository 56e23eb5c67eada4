"""`delayOffset.json`: how far delayed messages were delivered, as far as that may be written down.

Belongs to the event loop; the disk is waited for in threads. Knows no timetable.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import NamedTuple

from mqcore.broker.policy import SCHEDULE_TOPIC
from mqcore.broker.progress_history import ProgressHistory, gone_back
from mqcore.broker.settled import is_settled, log_end
from mqcore.broker.state import BrokerState
from mqcore.model.reading import as_dict, as_int
from mqcore.model.relaxed_json import parse_object, pretty
from mqcore.state_files import PersistedTable, Snapshot, StateFile

_log = logging.getLogger("mqcore.broker")


class _Delays(NamedTuple):
    """The delays at one time: how often they had changed, the offsets by level, and the object."""

    changes: int
    offsets: Mapping[int, int]
    json: dict[str, object]


class DelayFile:
    """The file of the delays of one broker."""

    def __init__(self, state: BrokerState) -> None:
        """Takes the broker; `load` reads the file."""
        self._state = state
        self._history = ProgressHistory[Mapping[int, int]]()
        self.table = PersistedTable(
            StateFile.of_store(state.settings.store_dir, "delayOffset.json"),
            load=self._take,
            snapshot=self._snapshot,
            version=lambda: self._settled.changes,
        )
        # What may be written.
        self._settled = self._now()

    def _now(self) -> _Delays:
        delays = self._state.delays
        return _Delays(delays.changes, delays.offsets, delays.to_json())

    def load(self) -> None:
        """Reads the file; every level that has messages is followed. Blocks; for the start.

        Raises:
            StateFileError: There is content that cannot be read.
        """
        self.table.load()
        follow_queues(self._state, self._state.boot_ms)
        self._settle(self._now(), None)

    def _take(self, text: bytes) -> None:
        delays, epochs = self._state.delays, self._state.replicas.epochs
        delays.load(text)
        self._history.load(parse_object(text), _offsets)
        left = None if epochs is None else self._history.go_back(epochs)
        if left is not None:
            newest = self._history.newest
            delays.go_back({} if newest is None else newest[1])
            _log.warning("%s %s", self.table.path, gone_back(left, newest))

    async def follow(self, text: bytes, end: int | None) -> None:
        """Takes how far a master has delivered, which the log has and nobody cuts off it.

        Args:
            text: The content of its file.
            end: Where its log ended after that was asked for; None where nobody knows.

        Raises:
            BadJsonError: It cannot be read; nothing was taken.
            StoreError: The log or the file cannot be written.
        """
        before = self._state.delays.offsets
        self._state.delays.follow(text)
        if self._state.delays.offsets != before:
            self._settle(self._now(), end)
            await self.table.save()

    async def save(self) -> None:
        """Writes how far delayed messages were delivered, when that changed.

        Under a controller that is written once it is confirmed: what another master may cut off the
        log is to be delivered again. Where that takes too long the next call writes it.

        Raises:
            StoreError: The log or the file cannot be written.
        """
        if self._state.delays.changes != self._settled.changes:
            now, end = self._now(), log_end(self._state)
            if await is_settled(self._state, end):
                self._settle(now, end)
        await self.table.save_if_changed()

    def _settle(self, now: _Delays, end: int | None) -> None:
        epochs = self._state.replicas.epochs
        if epochs is not None and end is not None:
            self._history.add(epochs, end, now.offsets)
        self._settled = now

    async def _snapshot(self) -> Snapshot:
        """What was delivered is made durable first: no level is beyond what power loss leaves."""
        content = pretty(self._settled.json | self._history.to_json())
        await asyncio.to_thread(self._state.store.flush)
        return lambda: content


def follow_queues(state: BrokerState, now_ms: int) -> None:
    """Follows every level that has messages, inside of its queue.

    Args:
        state: The broker.
        now_ms: When levels that were not followed are to be looked at first.
    """
    delays, store = state.delays, state.store
    queues = (each for each in store.queues() if each.topic == SCHEDULE_TOPIC)
    delays.need(max((each.queue_id + 1 for each in queues), default=0), now_ms)
    for level in delays.levels:
        delays.clamp(level, store.bounds(SCHEDULE_TOPIC, level - 1))


def _offsets(found: object) -> dict[int, int]:
    return {as_int(level): as_int(offset) for level, offset in as_dict(found).items()}
