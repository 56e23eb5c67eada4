"""`consumerOffset.json`: the fast path's offsets of groups, as far as they may be written down.

Belongs to the event loop; the disk is waited for in threads. Knows no timetable.
"""

import asyncio
import logging

from mqcore.broker.consumer_offsets import (
    NO_OFFSETS,
    OffsetTable,
    clip,
    offsets_json,
    offsets_of,
    own_of,
    with_own,
)
from mqcore.broker.progress_history import ProgressHistory, gone_back
from mqcore.broker.settled import is_settled, log_end
from mqcore.broker.state import BrokerState
from mqcore.model.relaxed_json import parse_object, pretty
from mqcore.state_files import PersistedTable, Snapshot, StateFile

_log = logging.getLogger("mqcore.broker")


class ConsumerOffsetFile:
    """The file of the offsets of one broker."""

    def __init__(self, state: BrokerState) -> None:
        """Takes the broker; `load` reads the file into the fast path."""
        self._state = state
        # Check points of pops that are confirmed, offsets of the broker's own groups that may be
        # written, and how often others were left.
        self._pops_settled = 0
        self._own_settled: OffsetTable = {}
        self._own_left = 0
        self._history = ProgressHistory[OffsetTable]()
        offsets = state.fast_path.offsets
        self.table = PersistedTable(
            StateFile.of_store(state.settings.store_dir, "consumerOffset.json"),
            load=self._take,
            snapshot=self._snapshot,
            version=lambda: (offsets.changes, self._own_left),
        )

    def _take(self, text: bytes) -> None:
        found = parse_object(text)
        table, epochs = offsets_of(found), self._state.replicas.epochs
        self._history.load(found, _own_offsets)
        left = None if epochs is None else self._history.go_back(epochs)
        if left is not None:
            newest = self._history.newest
            table = with_own(table, {} if newest is None else own_of(newest[1]))
            _log.warning("%s: of the own groups it %s", self.table.path, gone_back(left, newest))
        store = self._state.store
        clip(table, store.bounds, store.ends_behind_queues())
        self._own_settled = own_of(table)
        self._state.fast_path.offsets.load(table)

    async def save(self) -> None:
        """Writes consumer offsets, when they changed since the last time.

        Raises:
            StoreError: The log or the file cannot be written.
        """
        await self.table.save_if_changed()

    async def take_back(self) -> None:
        """Has in memory what an open would read: offsets that rest on what may be cut go back.

        What is confirmed is written first and stays; other groups go on where the file has them.

        Raises:
            StoreError: The log or the file cannot be written, or the file cannot be read.
        """
        if self._state.replicas.epochs is not None:
            await self.table.go_back(NO_OFFSETS)

    async def _snapshot(self) -> Snapshot | None:
        """What was read, and the check points of what was popped, is made durable first.

        Of a slave, too, which does not know who pops: its master's offsets may be those of groups
        whose check points power loss would take from it.
        """
        fast_path = self._state.fast_path
        version = self._state.offsets_version.next(self._state.now_ms())
        self._state.offsets_version = version
        # Beside the loop: a million pairs take seconds.
        offsets = await asyncio.to_thread(fast_path.offsets.snapshot)
        table = await self._settled(offsets)
        if table is None:
            return None
        await asyncio.to_thread(self._state.store.flush)
        history = self._history.to_json() if self._state.replicas.epochs is not None else {}
        return lambda: pretty(offsets_json(table, version) | history)

    async def _settled(self, table: OffsetTable) -> OffsetTable | None:
        """Returns a table with the broker's own groups as far as what they rest on is confirmed.

        That is what was asked about anew, or has come back, before they were committed. Groups that
        pop rest on check points: None where such were stored and are not confirmed. Another master
        may cut them off, and who read the file afterwards would pass over their messages.
        """
        epochs = self._state.replicas.epochs
        if epochs is None:
            return table
        pops = self._state.fast_path.pops.records_stored
        has_pops = pops != self._pops_settled
        own, end = own_of(table), log_end(self._state)
        if own != self._own_settled or has_pops:
            if await is_settled(self._state, end):
                self._own_settled, self._pops_settled = own, pops
                self._history.add(epochs, end, own)
            else:
                # The next call writes them.
                self._own_left += 1
                if has_pops:
                    return None
        return with_own(table, self._own_settled)


def _own_offsets(found: object) -> OffsetTable:
    return offsets_of({"offsetTable": found})
