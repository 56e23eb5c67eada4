"""An open store: the native class with a Python face.

Appends and reads are the native methods themselves, one crossing each. One process opens a store at
a time. Any thread may call; a forked child may not. `durable` belongs to the event loop that awaits
it first.
"""

import asyncio
import logging
import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from mqcore.native._native import (
    Appended,
    NativeStore,
    Notice,
    QueueUnit,
    Stats,
    change_settings,
    stored_units,
)
from mqcore.native.errors import StoreClosedError
from mqcore.native.existing import existing_sizes

if TYPE_CHECKING:
    from typing_extensions import Buffer

_log = logging.getLogger("mqcore.store")
# Times on the wire of asyncio are seconds.
_MS_PER_SECOND = 1_000

Setting = str | int | bool | Path
OnDamage = Literal["refuse", "cut", "keep"]


class BatchMessage(NamedTuple):
    """A message of a batch.

    Attributes:
        body: Its body.
        properties: Its properties; None for none.
    """

    body: "Buffer"
    properties: dict[str, str] | None = None


def setting_texts(path: str | Path, config: Mapping[str, Setting] | None) -> dict[str, str]:
    """Returns settings as texts, with the store's directory, which wins.

    Raises:
        TypeError: The directory is no path.
    """
    # Path itself refuses what is none; the text is kept as it was given.
    Path(path)
    texts = {key: _text(value) for key, value in (config or {}).items()}
    return texts | {"storePathRootDir": str(path)}


def _with_sizes(settings: dict[str, str]) -> dict[str, str]:
    """Returns settings with the sizes that they do not give, as the files that exist have them."""
    log_dir = settings.get("storePathCommitLog")
    found = existing_sizes(Path(settings["storePathRootDir"]), Path(log_dir) if log_dir else None)
    return found | settings


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Store(NativeStore):
    """A store that is open for writing, in one directory.

    Args:
        path: The directory; made when there is none.
        config: Settings by the official keys of `broker.conf`; see `mqcore.read_properties` for a
            file of them. Keys that are not the store's are ignored. Sizes of files that are not
            given are those of the files that exist.
        on_damage: What to do about bytes of the log that were whole once and are not any more:
            "refuse" to open, "cut" the log there with all that is behind, or "keep" what is
            whole behind by putting other records in place of the bad bytes.
        store_host: Address and port of the broker, for message ids.
        is_member: Whether the store is a replica under a controller: it takes no appends until a
            `ReplicationMaster` leads, and its queues end at the confirm offset.
        cut_at: Where the log is to end: what is behind is kept below `truncated`, then taken out of
            it. A record must begin there; a log that ends before it is left as it is.

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
        is_member: bool = False,
        cut_at: int | None = None,
    ) -> Self:
        """Opens the store."""
        store = super().__new__(
            cls,
            _with_sizes(setting_texts(path, config)),
            on_damage=on_damage,
            store_host=store_host,
            is_member=is_member,
            cut_at=cut_at,
        )
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

    def change_settings(self, config: Mapping[str, Setting] | None, path: str | Path) -> None:
        """Takes changed settings: those about retention, reads, and when appends count as busy.

        All others stay as they were at the opening.

        Args:
            config: All settings, as they would be given to open the store.
            path: The directory.

        Raises:
            ConfigError: A value does not go with others; nothing has changed.
        """
        change_settings(self, _with_sizes(setting_texts(path, config)))

    def stats(self) -> Stats:
        """Returns the store in numbers, now. Asks the kernel for the pages of every map."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return self.stats_beside(usage.ru_minflt, usage.ru_majflt)

    def units(self, topic: str, queue_id: int, first: int, count: int) -> list[QueueUnit]:
        """Returns the units of up to `count` messages of a queue, from an offset on."""
        return stored_units(self, topic, queue_id, first, count)

    def notices(self) -> list[Notice]:
        """Takes what the store has to report, logs it as `mqcore.store`, and returns it."""
        notices = self.take_notices()
        for notice in notices:
            _log.log(notice.level, "%s", notice.text)
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
        physical_offset = end if isinstance(end, int) else end.end
        ticket = self.park(physical_offset, needs_replica=needs_replica)
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = future
        (self._watcher or self._answer)()
        try:
            if future.done():
                # Others were answered by the same call and wait below: they go on first.
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

    def resolve(self, statuses: Mapping[int, str]) -> None:
        """Answers tickets with their official statuses, in the order of the log."""
        for ticket, status in statuses.items():
            future = self._waiting.get(ticket)
            if future is not None and not future.done():
                future.set_result(status)

    def _answer(self) -> None:
        """Resolves what can be answered, in the order of the log. Runs in the loop's thread."""
        drained = self.drain()
        self.resolve(drained.statuses)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_ms = drained.next_ms
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
            self._notify_closed()

    def abandon(self) -> None:
        """Closes the store as a kill would: the directory stays as it lies; the next open recovers.

        What was appended is in the page cache, and survives all but a power failure.
        """
        super().abandon()
        self._notify_closed()

    def _notify_closed(self) -> None:
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
