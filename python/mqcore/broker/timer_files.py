"""The files of the timers: opened where there are some, written after the timers did something.

Owns `config/timermetrics`; wheel, timer log and check point are the store's. Knows no timetable.
Belongs to the event loop, but for what blocks by its docstring.
"""

import asyncio
from pathlib import Path

from mqcore.broker.settled import come_true
from mqcore.broker.state import BrokerState
from mqcore.broker.timers import metrics_text, parse_metrics
from mqcore.model.versions import DataVersion
from mqcore.native import Timers
from mqcore.state_files import PersistedTable, Snapshot, StateFile


class TimerFiles:
    """What the timers of one broker have on the disk."""

    def __init__(self, state: BrokerState) -> None:
        """Takes the broker; `open` opens the timers."""
        self._state = state
        self._version = DataVersion(counter=0, timestamp_ms=0)
        self._moves = 0
        # Timers that are being opened: they take the counts before anybody sees them.
        self._opening: Timers | None = None
        self._metrics = PersistedTable(
            StateFile.of_store(state.settings.store_dir, "timermetrics"),
            load=self._take_metrics,
            snapshot=self._snapshot,
            version=lambda: self._moves,
        )
        self._metrics.note_saved()

    @property
    def are_there(self) -> bool:
        """Whether an earlier life of the store had timers."""
        return (Path(self._state.settings.store_dir) / "timerwheel").exists()

    def open(self, now_ms: int) -> None:
        """Opens the timers of the store. Blocks; for a thread.

        Raises:
            StoreError: Their files cannot be used.
            StateFileError: The counts of what waits cannot be read.
        """
        state = self._state
        timers = Timers(state.store, now_ms)
        self._opening = timers
        try:
            self._metrics.load()
        finally:
            self._opening = None
        state.fast_path.set_timers(timers)
        state.timers = timers

    def _take_metrics(self, text: bytes) -> None:
        topics, self._version = parse_metrics(text)
        if self._opening is not None:
            self._opening.set_waiting(topics)

    def moved(self) -> None:
        """Notes that the timers did something: it is to be written."""
        self._moves += 1

    def metrics_text(self) -> bytes:
        """Returns how many messages of each topic wait. Blocks; for a thread."""
        timers = self._state.timers
        if timers is None:
            return metrics_text((), self._version)
        topics = timers.waiting()
        changed_ms = max((each.changed_ms for each in topics), default=0)
        known = self._version
        if changed_ms > known.timestamp_ms:
            self._version = known.next(changed_ms)
        return metrics_text(topics, self._version)

    async def save(self) -> None:
        """Writes how far the timers are, when they did something since the last time.

        Raises:
            StoreError: The log or a file of the timers cannot be written.
        """
        if self._state.timers is not None:
            await self._metrics.save_if_changed()

    async def _snapshot(self) -> Snapshot:
        """Log, timer log and wheel are durable before the counts are written.

        Where what was delivered is not confirmed in time they are left as they are, and the next
        call writes them.
        """
        store, timers = self._state.store, self._state.timers

        def flush() -> bool:
            # First beside the timers: most of the wait for the disk is the log's, and meanwhile
            # they may deliver.
            store.flush()
            return timers is None or timers.flush(self._state.now_ms())

        if not await come_true(lambda: asyncio.shield(asyncio.to_thread(flush))):
            self._moves += 1
        return self.metrics_text
