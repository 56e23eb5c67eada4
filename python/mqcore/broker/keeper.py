"""What follows from a change of a table: its file is written, the lane's policy filled, told.

Owns the files of `config`. Belongs to the event loop; the disk is waited for in threads.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path

from mqcore.broker import policy
from mqcore.broker.consumer_offsets import beyond_end, offsets_text, parse_offsets
from mqcore.broker.files import StateFile
from mqcore.broker.lost_topics import lost_topics, named
from mqcore.broker.pop_orders import orders_text, parse_orders
from mqcore.broker.settings_changes import file_with
from mqcore.broker.state import BrokerState
from mqcore.broker.timers import metrics_text, parse_metrics
from mqcore.broker.transaction_counts import TransactionCounts
from mqcore.errors import MQError
from mqcore.model.versions import DataVersion
from mqcore.native import Timers, write_state
from mqcore.remoting import Link, RequestCode, Slices

_log = logging.getLogger("mqcore.broker")

# Changes of membership are told together this late: a thousand clients that join at once would
# otherwise cause half a million messages. Rebalancing takes far longer.
NEWS_DELAY_S = 0.05

# Registers topics that changed (None: the whole table) with the name servers.
Announce = Callable[[tuple[str, ...] | None], Awaitable[None]]


class Saver:
    """Writes one file, as often as is asked for: who asks while one is written shares the next."""

    def __init__(self, file: StateFile, text: Callable[[], Callable[[], bytes]]) -> None:
        """Prepares.

        Args:
            file: The file.
            text: Takes what there is to write, on the loop; returns what makes the content of it,
                in a thread: a table of ten thousand topics takes a tenth of a second.
        """
        self.file = file
        self._text = text
        self._lock = asyncio.Lock()
        self._asked = 0
        self._written = 0

    async def save(self) -> None:
        """Writes the content as it is now, or later.

        Cancelling does not stop a write that has begun.

        Raises:
            StoreError: It cannot be written.
        """
        self._asked += 1
        mine = self._asked
        async with self._lock:
            if self._written >= mine:
                return
            asked, text = self._asked, self._text()
            await asyncio.shield(asyncio.to_thread(lambda: self.file.save(text())))
            self._written = asked


class Keeper:
    """Keeps files, lane and name servers in step with the tables."""

    def __init__(self, state: BrokerState) -> None:
        """Takes the tables; `load` fills them."""
        self._state = state
        config = Path(state.settings.store_dir) / "config"
        self._topics = Saver(StateFile(config / "topics.json"), state.topics.text)
        self._groups = Saver(StateFile(config / "subscriptionGroup.json"), state.groups.text)
        self._offsets = Saver(
            StateFile(config / "consumerOffset.json"), lambda: self._offsets_content
        )
        self._offsets_content: Callable[[], bytes] = lambda: b""
        self._pop_records_synced = 0
        self._delays = Saver(StateFile(config / "delayOffset.json"), lambda: self._delays_text)
        self._delays_text: Callable[[], bytes] = state.delays.text
        self._timer_metrics = StateFile(config / "timermetrics")
        self._timer_version = DataVersion(counter=0, timestamp_ms=0)
        self._timers_moved = False
        self._filters = Saver(StateFile(config / "consumerFilter.json"), state.filters.text)
        self._counts_table = TransactionCounts(state.boot_ms)
        self._counts = Saver(StateFile(config / "transactionMetrics"), self._counts_text)
        self._modes = Saver(StateFile(config / "messageRequestMode.json"), state.modes.text)
        self._orders = Saver(StateFile(config / "consumerOrderInfo.json"), self._orders_text)
        self._orders_saved = 0
        self._offsets_saved = -1
        self._delays_saved = -1
        self._filters_saved = 0
        self._counts_saved = 0
        self.announce: Announce | None = None
        self._news: set[str] = set()
        # Groups of which the lane does not know the newest yet.
        self._stale: dict[str, None] = {}

    def load(self) -> None:
        """Reads the files, and fills the lane. Blocks; for the start.

        Raises:
            StateFileError: There is content that cannot be read.
        """
        state = self._state
        if not self._topics.file.load(state.topics.load):
            self._report_lost_topics()
        self._groups.file.load(state.groups.load)
        self._offsets.file.load(self._take_offsets)
        self._delays.file.load(state.delays.load)
        self._modes.file.load(state.modes.load)
        was_clean = state.store.open_report().was_clean
        self._filters.file.load(
            lambda text: state.filters.load(text, state.now_ms(), was_clean=was_clean)
        )
        self._counts.file.load(self._counts_table.load)
        state.lane.half_messages.load(self._counts_table.waiting)
        self._orders.file.load(lambda text: state.lane.pops.load_orders(parse_orders(text)))
        self._orders_saved = state.lane.pops.order_changes
        self._counts_saved = state.lane.half_messages.changes
        queues = (each for each in state.store.queues() if each.topic == policy.SCHEDULE_TOPIC)
        state.delays.need(max((each.queue_id + 1 for each in queues), default=0), state.boot_ms)
        for level in state.delays.levels:
            state.delays.clamp(level, state.store.bounds(policy.SCHEDULE_TOPIC, level - 1))
        policy.fill(state)

    def _report_lost_topics(self) -> None:
        """Names the topics that have queues, when there is no file that names any."""
        queues = ((queue.topic, queue.queue_id) for queue in self._state.store.queues())
        lost = lost_topics(queues, self._state.topics.topics)
        if lost:
            _log.error(
                "%s is missing or empty, and its backup is too, but %d topics have queues: %s. "
                "They are unknown until somebody makes them; `mqcore store repair --topics %s` "
                "makes them again while the broker is stopped",
                self._topics.file.path,
                len(lost),
                named(lost),
                self._state.settings.store_dir,
            )

    async def topics_changed(self, names: Iterable[str]) -> None:
        """Follows a change of topics: file, then lane, then name servers.

        Raises:
            StoreError: The file cannot be written; the lane does not know the change.
        """
        changed = tuple(names)
        await self.topics_written(changed)
        await self.announce_topics(changed)

    async def topics_written(self, names: Iterable[str]) -> None:
        """Writes the topics, then lets the lane know those that changed.

        Raises:
            StoreError: The file cannot be written; the lane does not know the change.
        """
        await self._topics.save()
        policy.fill_topics(self._state, names)

    async def announce_topics(self, names: Iterable[str] | None) -> None:
        """Tells the name servers of topics that changed; None for all."""
        if self.announce is not None:
            await self.announce(None if names is None else tuple(names))

    def groups_known(self, names: Iterable[str]) -> None:
        """Lets the lane know groups that changed."""
        policy.fill_groups(self._state, names)

    async def groups_changed(self, names: Iterable[str]) -> None:
        """Follows a change of groups: lane at once, then file.

        Raises:
            StoreError: The file cannot be written.
        """
        self.groups_known(names)
        await self._groups.save()

    async def modes_changed(self) -> None:
        """Follows a change of who asks by pop: the file.

        Raises:
            StoreError: It cannot be written; the change holds until the next start.
        """
        await self._modes.save()

    def subscriptions_changed(self, groups: Iterable[str]) -> None:
        """Follows a change of who is online, or of what a group wants.

        For a slice of time at once; what is left follows in the next turns of the loop.
        """
        was_due = bool(self._stale)
        self._stale.update(dict.fromkeys(groups))
        if not was_due:
            self._fill_stale()

    def _fill_stale(self) -> None:
        state, slices = self._state, Slices()
        while self._stale:
            name = next(iter(self._stale))
            del self._stale[name]
            if name not in state.members.consumers:
                state.filters.unregister(name, state.now_ms())
            policy.fill_subscriptions(state, (name,))
            if self._stale and slices.is_over:
                asyncio.get_running_loop().call_soon(self._fill_stale)
                return

    async def subscriptions_filled(self) -> None:
        """Returns when the lane knows every change that was noted."""
        while self._stale:  # noqa: ASYNC110 - each turn of the loop does a slice of it
            await asyncio.sleep(0)

    def members_changed(self, groups: Iterable[str]) -> None:
        """Tells the members of groups soon that their membership changed."""
        was_due = bool(self._news)
        self._news.update(groups)
        if self._news and not was_due:
            asyncio.get_running_loop().call_later(NEWS_DELAY_S, self._tell_members)

    def _tell_members(self) -> None:
        news, self._news = self._news, set()
        if self._state.settings.notifies_members:
            self._tell_some(self._to_tell(news))

    def _to_tell(self, news: Iterable[str]) -> Iterator[tuple[str, Link]]:
        """Yields each member that is to be told of a group; what changes meanwhile counts."""
        state = self._state
        for name in news:
            config, group = state.groups.find(name), state.members.consumers.get(name)
            if group is None or (config is not None and not config.notifies_changes):
                continue
            for link in list(group.clients):
                if isinstance(link, Link):
                    yield name, link

    def _tell_some(self, members: Iterator[tuple[str, Link]]) -> None:
        """Tells members for a slice, and goes on in the next turn."""
        slices = Slices()
        for name, link in members:
            link.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": name})
            if slices.is_over:
                asyncio.get_running_loop().call_soon(self._tell_some, members)
                return

    async def settings_changed(self, changes: Mapping[str, str]) -> None:
        """Follows a change of settings: file, then lane, then name servers.

        Args:
            changes: The keys that changed, with their texts.

        Raises:
            StoreError: The file cannot be written; the change holds until the next start.
        """
        policy.fill(self._state)
        path = self._state.config_path
        if path is not None:
            await asyncio.to_thread(_change_file, path, changes)
        await self.announce_topics(None)

    async def save_offsets(self) -> None:
        """Writes consumer offsets, when they changed since the last time.

        Offsets of groups that pop may rest on check points: those are made durable first.

        Raises:
            StoreError: The log or the file cannot be written.
        """
        lane = self._state.lane
        changes = lane.offsets.changes
        if changes == self._offsets_saved:
            return
        version = self._state.offsets_version.next(self._state.now_ms())
        self._state.offsets_version = version
        # Beside the loop: a million pairs take seconds.
        table = await asyncio.to_thread(lane.offsets.snapshot)
        records = lane.pops.records_stored
        if records != self._pop_records_synced:
            await asyncio.to_thread(self._state.store.flush)
            self._pop_records_synced = records
        self._offsets_content = lambda: offsets_text(table, version)
        await self._offsets.save()
        self._offsets_saved = changes

    async def save_delays(self) -> None:
        """Writes how far delayed messages were delivered, when that changed.

        What was delivered is made durable first: a level must not be beyond what power loss
        leaves of it.

        Raises:
            StoreError: The log or the file cannot be written.
        """
        delays = self._state.delays
        changes = delays.changes
        if changes == self._delays_saved:
            return
        content = delays.text()
        await asyncio.to_thread(self._state.store.flush)
        self._delays_text = lambda: content
        await self._delays.save()
        self._delays_saved = changes

    @property
    def has_timer_files(self) -> bool:
        """Whether an earlier life of the store had timers."""
        return (Path(self._state.settings.store_dir) / "timerwheel").exists()

    def open_timers(self, now_ms: int) -> None:
        """Opens the timers of the store. Blocks; for a thread.

        Raises:
            StoreError: Their files cannot be used.
            StateFileError: The counts of what waits cannot be read.
        """
        state = self._state
        timers = Timers(state.store, now_ms)

        def take(text: bytes) -> None:
            topics, self._timer_version = parse_metrics(text)
            timers.set_waiting(topics)

        self._timer_metrics.load(take)
        state.lane.set_timers(timers)
        state.timers = timers

    def timers_moved(self) -> None:
        """Notes that the timers did something: it is to be written."""
        self._timers_moved = True

    def timer_metrics_text(self) -> bytes:
        """Returns how many messages of each topic wait. Blocks; for a thread."""
        timers = self._state.timers
        if timers is None:
            return metrics_text((), self._timer_version)
        topics = timers.waiting()
        changed_ms = max((each.changed_ms for each in topics), default=0)
        known = self._timer_version
        if changed_ms > known.timestamp_ms:
            self._timer_version = known.next(changed_ms)
        return metrics_text(topics, self._timer_version)

    async def save_timers(self) -> None:
        """Writes how far the timers are, when they did something since the last time.

        Raises:
            StoreError: The log or a file of the timers cannot be written.
        """
        timers = self._state.timers
        if timers is None or not self._timers_moved:
            return
        now_ms = self._state.now_ms()

        store = self._state.store

        def save() -> None:
            # First beside the timers: most of the wait for the disk is the log's, and meanwhile
            # they may deliver.
            store.flush()
            timers.flush(now_ms)
            self._timer_metrics.save(self.timer_metrics_text())

        self._timers_moved = False
        try:
            await asyncio.shield(asyncio.to_thread(save))
        except MQError:
            self._timers_moved = True
            raise

    async def save_filters(self) -> None:
        """Writes the registered expressions, when they changed since the last time.

        Raises:
            StoreError: The file cannot be written.
        """
        filters = self._state.filters
        filters.clean(self._state.now_ms())
        policy.fill_bits(self._state)
        changes = filters.changes
        if changes == self._filters_saved:
            return
        await self._filters.save()
        self._filters_saved = changes

    async def save_orders(self) -> None:
        """Writes what groups popped in order, when that changed.

        Raises:
            StoreError: The file cannot be written.
        """
        changes = self._state.lane.pops.order_changes
        if changes != self._orders_saved:
            await self._orders.save()
            self._orders_saved = changes

    def _orders_text(self) -> Callable[[], bytes]:
        rows = self._state.lane.pops.orders()
        return lambda: orders_text(rows)

    async def save_counts(self) -> None:
        """Writes how many half messages wait, when that changed.

        Raises:
            StoreError: The file cannot be written.
        """
        changes = self._state.lane.half_messages.changes
        if changes != self._counts_saved:
            await self._counts.save()
            self._counts_saved = changes

    def _counts_text(self) -> Callable[[], bytes]:
        now_ms = self._state.now_ms()
        waiting = {each.topic: each.waiting for each in self._state.lane.half_messages.counts()}
        self._counts_table.note(waiting, now_ms)
        return self._counts_table.text()

    async def save_all(self) -> None:
        """Writes every file; one that cannot be written does not keep the others from it."""
        saves = (
            self.save_offsets,
            self.save_delays,
            self.save_timers,
            self.save_filters,
            self.save_orders,
            self.save_counts,
            self._topics.save,
            self._groups.save,
        )
        for save in saves:
            try:
                await save()
            except MQError as error:
                _log.error("at the stop: %s", error.message)

    def _take_offsets(self, text: bytes) -> None:
        table = parse_offsets(text)
        repaired = beyond_end(table, self._state.store.bounds)
        for key, queues in repaired.items():
            for queue_id, offset in queues.items():
                _log.warning(
                    "%s: queue %d was read up to %d, but ends at %d: its group goes on there",
                    key,
                    queue_id,
                    table[key][queue_id],
                    offset,
                )
            table[key] |= queues
        self._state.lane.offsets.load(table)


def _change_file(path: Path, changes: Mapping[str, str]) -> None:
    """Rewrites a properties file; properties are Latin-1, and escapes stay as they were written."""
    text = path.read_text(encoding="iso-8859-1") if path.exists() else ""
    write_state(path, file_with(text, changes).encode("iso-8859-1", "replace"))
