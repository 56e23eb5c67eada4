"""An open store: the native class with a Python face.

Appends and reads are the native methods themselves, one crossing each. One process opens a store at
a time. Any thread may call; a forked child may not. `durable` belongs to the event loop that awaits
it first.
"""

import asyncio
import logging
import resource
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from mqcore.native._native import Appended, NativeStore, stored_units
from mqcore.native.errors import StoreClosedError

_log = logging.getLogger("mqcore.store")
# Times on the wire of asyncio are seconds.
_MS_PER_SECOND = 1_000

Setting = str | int | bool | Path
OnDamage = Literal["refuse", "cut", "keep"]


@dataclass(frozen=True, slots=True)
class Segment:
    """One log file.

    Attributes:
        physical_offset: First byte of it in the log.
        len_bytes: Its length.
        is_mapped: Whether it is mapped.
        is_locked: Whether it is locked in memory.
        resident_bytes: Bytes of its map in memory.
        populated_bytes: Bytes made present ahead of the append.
    """

    physical_offset: int
    len_bytes: int
    is_mapped: bool
    is_locked: bool
    resident_bytes: int
    populated_bytes: int


@dataclass(frozen=True, slots=True)
class Stats:
    """The store in numbers, at one moment. Positions are physical offsets (bytes of the log).

    Attributes:
        log_start: First byte that is kept.
        appended: End of what was appended.
        committed: End of what survives the process.
        flushed: End of what survives power loss.
        dispatched: End of what is readable through queues.
        commit_lag_bytes: Appended, not committed.
        flush_lag_bytes: Committed, not flushed.
        dispatch_lag_bytes: Appended, not dispatched.
        follower_lag_bytes: The same per follower of the log: queues, index.
        syncs: Syncs of the log since the store was opened.
        records_dispatched: Records dispatched since then.
        mapped_bytes: Bytes of log files mapped.
        locked_bytes: Bytes of them locked in memory.
        resident_bytes: Bytes of them in memory.
        segments_ready: Log files ready ahead of need.
        warmed_bytes: Bytes that the warm-up has populated.
        pool_buffers_free: Free buffers of the transient pool.
        pool_buffers: All of them, 0 without a pool.
        parked: Parked acknowledgements.
        queue_pending_bytes: Queue units that are in memory only.
        queues: Queues known.
        queues_mended: Queues of which something was made again since the store was opened.
        units_mended: Their units that were made again from the log.
        units_lost: Their queue offsets for which the log has no record.
        records_damaged: Damaged records found by the scrub or by reads.
        scrub_rounds: Rounds of the scrub that were finished.
        lock_held_ms: How long the append lock is held at this moment.
        refused: Why appends are refused; empty when they are not.
        poisoned: Why nothing is acknowledged any more, or None.
        segments: Log files.
        minor_faults: Page faults of this process without a read.
        major_faults: Page faults of this process that read a disk.
    """

    log_start: int
    appended: int
    committed: int
    flushed: int
    dispatched: int
    commit_lag_bytes: int
    flush_lag_bytes: int
    dispatch_lag_bytes: int
    follower_lag_bytes: dict[str, int]
    syncs: int
    records_dispatched: int
    mapped_bytes: int
    locked_bytes: int
    resident_bytes: int
    segments_ready: int
    warmed_bytes: int
    pool_buffers_free: int
    pool_buffers: int
    parked: int
    queue_pending_bytes: int
    queues: int
    queues_mended: int
    units_mended: int
    units_lost: int
    records_damaged: int
    scrub_rounds: int
    lock_held_ms: int
    refused: list[str]
    poisoned: str | None
    segments: list[Segment]
    minor_faults: int
    major_faults: int


@dataclass(frozen=True, slots=True)
class OpenReport:
    """What opening found and did. Positions are physical offsets (bytes of the log).

    Attributes:
        was_clean: Whether the last end was clean.
        scanned_from: Where the walk of the log began.
        scanned_bytes: Bytes walked.
        records: Records walked.
        end: Where the log ends now.
        kept_aside_bytes: Bytes behind the end that were not zero.
        kept_in: Files that hold them now.
        removed: Log files behind the end that were removed.
        whole_records: Whole records among the bytes that were cut off.
        missing_bytes: Bytes that were durable once and that no file had any more.
        cut_why: What was wrong where the log was cut, or None where nothing was taken out of it.
        recorded_in: Files that tell what was taken out of the log, until they are acknowledged.
        replaced_bytes: Bad bytes of which others took the place, so that what follows them stays.
        replaced_at: Where they stood.
        whole_records_kept: Whole records behind the first of them.
        end_why: What was wrong at the end of the log, or None.
        used_manifest: Whether no queue had to be looked at.
        dispatched_from: Where the queues are built on from.
        index_from: Where the index is built on from, or None.
    """

    was_clean: bool
    scanned_from: int
    scanned_bytes: int
    records: int
    end: int
    kept_aside_bytes: int
    kept_in: list[str]
    removed: list[str]
    whole_records: int
    missing_bytes: int
    cut_why: str | None
    recorded_in: list[str]
    replaced_bytes: int
    replaced_at: list[int]
    whole_records_kept: int
    end_why: str | None
    used_manifest: bool
    dispatched_from: int
    index_from: int | None


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """One queue.

    Attributes:
        topic: Its topic.
        queue_id: Its number in the topic.
        min_offset: First queue offset that is kept.
        max_offset: Queue offset behind the last message.
    """

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class QueueUnit:
    """One unit of a queue, as it stands there.

    Attributes:
        queue_offset: Queue offset of its first message.
        physical_offset: Where its record begins in the log.
        size_bytes: Length of the record.
        tags_code: Hash of its tags, or when a delayed message is delivered.
        is_extended: Whether the extension of the queue has the code; then the code here is a place
            there where `extension` is None.
        extension: Store time, ms, and bits, where the extension has the unit.
    """

    queue_offset: int
    physical_offset: int
    size_bytes: int
    tags_code: int
    is_extended: bool
    extension: tuple[int, bytes] | None


def setting_pairs(path: str | Path, config: Mapping[str, Setting] | None) -> list[tuple[str, str]]:
    """Returns settings as texts, with the store's directory last: it wins."""
    pairs = [(key, _text(value)) for key, value in (config or {}).items()]
    return [*pairs, ("storePathRootDir", str(path))]


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Store(NativeStore):
    """A store that is open for writing, in one directory.

    Args:
        path: The directory; made when there is none.
        config: Settings by the official keys of `broker.conf`; see `mqcore.read_properties` for a
            file of them. Keys that are not the store's are ignored.
        on_damage: What to do about bytes of the log that were whole once and are not any more:
            "refuse" to open, "cut" the log there with all that stands behind, or "keep" what stands
            whole behind by putting other records in place of the bad bytes.
        store_host: Address and port of the broker, for message ids.

    Raises:
        StoreError: It cannot be opened; nothing on disk was changed.
    """

    _loop: asyncio.AbstractEventLoop | None
    _timer: asyncio.TimerHandle | None
    _waiting: dict[int, asyncio.Future[str]]
    _watcher: Callable[[], None] | None

    def __new__(
        cls,
        path: str | Path,
        *,
        config: Mapping[str, Setting] | None = None,
        on_damage: OnDamage = "refuse",
        store_host: str = "127.0.0.1:10911",
    ) -> Self:
        """Opens the store."""
        pairs = setting_pairs(path, config)
        store = super().__new__(cls, pairs, on_damage=on_damage, store_host=store_host)
        store._loop = None
        store._timer = None
        store._waiting = {}
        store._watcher = None
        for key in store.unknown_settings:
            _log.debug("the store has no setting %s: ignored", key)
        store.notices()
        return store

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        config: Mapping[str, Setting] | None = None,
        on_damage: OnDamage = "refuse",
    ) -> Self:
        """Opens a store: the same as calling the class."""
        return cls(path, config=config, on_damage=on_damage)

    def __enter__(self) -> Self:
        """Returns the store itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the store."""
        self.close()

    def stats(self) -> Stats:
        """Returns the store in numbers, now. Asks the kernel for the pages of every map."""
        numbers = self.stat_numbers()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        segments = [Segment(**segment) for segment in numbers.pop("segments")]
        return Stats(
            **numbers,
            segments=segments,
            minor_faults=usage.ru_minflt,
            major_faults=usage.ru_majflt,
        )

    def open_report(self) -> OpenReport:
        """Returns what opening found and did."""
        return OpenReport(**self.report_numbers())

    def queues(self) -> list[QueueBounds]:
        """Returns every queue with its bounds, by topic and queue id."""
        return [QueueBounds(*row) for row in self.queue_rows()]

    def units(self, topic: str, queue_id: int, first: int, count: int) -> list[QueueUnit]:
        """Returns the units of up to `count` messages of a queue, from an offset on."""
        return [QueueUnit(*row) for row in stored_units(self, topic, queue_id, first, count)]

    def notices(self) -> list[tuple[int, str]]:
        """Takes what the store has to tell, logs it as `mqcore.store`, and returns it.

        Returns:
            Levels of `logging`, each with a text.
        """
        notices = self.take_notices()
        for level, text in notices:
            _log.log(level, "%s", text)
        return notices

    async def durable(self, end: Appended | int, *, needs_replica: bool = False) -> str:
        """Waits until everything below `end` is as durable as the settings promise.

        Use it after `append(..., wait=False)`. Cancelling forgets the answer, nothing else.

        Args:
            end: What `append` returned, or a physical offset (bytes of the log).
            needs_replica: Wait for replicas too.

        Returns:
            The official status: `PUT_OK`, `FLUSH_DISK_TIMEOUT`, ...

        Raises:
            LimitError: Too many are waiting.
            StoreClosedError: The store was closed before the answer.
            RuntimeError: Another event loop waits on this store already.
        """
        self._attach(asyncio.get_running_loop())
        place = end if isinstance(end, int) else end.end
        ticket = self.park(place, needs_replica=needs_replica)
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = future
        (self._watcher or self._answer)()
        try:
            if future.done():
                # Others were answered by the same call and stand below: they go on first.
                await asyncio.sleep(0)
            return await future
        finally:
            self._waiting.pop(ticket, None)

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise RuntimeError("another event loop waits on this store: give each its own")
        self._waiting.clear()
        self._timer = None
        self._loop = loop
        loop.add_reader(self.wake_descriptor, self._answer)

    def watch_for(self, loop: asyncio.AbstractEventLoop, watcher: Callable[[], None]) -> None:
        """Lets `watcher` drain in place of the store, and hand back tickets by `resolve`.

        Raises:
            RuntimeError: Another event loop waits on this store already.
        """
        self._attach(loop)
        self._watcher = watcher
        loop.add_reader(self.wake_descriptor, watcher)

    def unwatch(self) -> None:
        """Lets the store drain for itself again."""
        self._watcher = None
        if self._loop is not None and not self._loop.is_closed():
            self._loop.add_reader(self.wake_descriptor, self._answer)

    def resolve(self, answers: Iterable[tuple[int, str]]) -> None:
        """Answers tickets with their official statuses, in the order of the log."""
        for ticket, status in answers:
            future = self._waiting.get(ticket)
            if future is not None and not future.done():
                future.set_result(status)

    def _answer(self) -> None:
        """Resolves what can be answered, in the order of the log. Runs in the loop's thread."""
        answers, next_ms = self.drain()
        self.resolve(answers)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if next_ms is not None and self._loop is not None and not self.is_closed:
            self._timer = self._loop.call_later(next_ms / _MS_PER_SECOND, self._answer)

    def close(self) -> bool:
        """Closes the store; closing again does nothing.

        Returns:
            Whether the next open need not recover anything.

        Raises:
            StoreError: Something could not be written; the store is closed all the same.
        """
        try:
            return super().close()
        finally:
            self.notices()
            self._tell_closed()

    def abandon(self) -> None:
        """Closes the store as a kill would: the directory stays as it lies; the next open recovers.

        What was appended is in the page cache, and survives all but a power failure.
        """
        super().abandon()
        self._tell_closed()

    def _tell_closed(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            if loop.is_running():
                loop.call_soon_threadsafe(self._finish)
            else:
                self._finish()

    def _finish(self) -> None:
        """Answers everyone who still waits, after the store was closed."""
        self._answer()
        closed = StoreClosedError("the store was closed", status="SERVICE_NOT_AVAILABLE")
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(closed)
        if self._loop is not None:
            self._loop.remove_reader(self.wake_descriptor)
            self._loop = None
