"""Persistence of the broker's configuration: topics, groups, offsets and the other small tables.

Owns the files of `config`, and what follows from a change: file, fast path, name servers. Belongs
to the event loop; the disk is waited for in threads.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping

from mqcore.broker import policy
from mqcore.broker.consumer_offset_file import ConsumerOffsetFile
from mqcore.broker.delay_file import DelayFile
from mqcore.broker.lost_topics import lost_topics, named
from mqcore.broker.pop_orders import orders_text, parse_orders
from mqcore.broker.state import BrokerState
from mqcore.broker.table_followers import GROUPS, MODES, TOPICS, TableFollowers
from mqcore.broker.timer_files import TimerFiles
from mqcore.broker.transaction_counts import TransactionCounts
from mqcore.config.properties import change_file
from mqcore.errors import MQError, RefusedError
from mqcore.remoting import ResponseCode
from mqcore.state_files import PersistedTable, Snapshot, StateFile

_log = logging.getLogger("mqcore.broker")

# Registers topics that changed (None: the whole table) with the name servers.
Announce = Callable[[tuple[str, ...] | None], Awaitable[None]]


class ConfigPersistence:
    """Writes the tables of one broker, and passes their changes on.

    Attributes:
        offsets: The file of the offsets of groups.
        delays: The file of how far delayed messages were delivered.
        timers: The files of the timers.
        followers: The slaves that are notified of changes.
    """

    def __init__(self, state: BrokerState) -> None:
        """Takes the tables; `load` fills them."""
        self._state = state
        fast_path, filters = state.fast_path, state.filters
        self._topics = self._table(
            "topics.json", load=state.topics.load, snapshot=state.topics.text
        )
        self._groups = self._table(
            "subscriptionGroup.json", load=state.groups.load, snapshot=state.groups.text
        )
        self._static = self._table(
            "topicQueueMapping.json",
            load=state.static_topics.load,
            snapshot=state.static_topics.text,
        )
        self._modes = self._table(
            "messageRequestMode.json", load=state.modes.load, snapshot=state.modes.text
        )
        self.offsets = ConsumerOffsetFile(state)
        self.delays = DelayFile(state)
        self._filters = self._table(
            "consumerFilter.json",
            load=self._take_filters,
            snapshot=filters.text,
            version=lambda: filters.changes,
        )
        self._counts_table = TransactionCounts(state.boot_ms)
        self._counts = self._table(
            "transactionMetrics",
            load=self._counts_table.load,
            snapshot=self._counts_snapshot,
            version=lambda: fast_path.half_messages.changes,
        )
        self._orders = self._table(
            "consumerOrderInfo.json",
            load=lambda text: fast_path.pops.load_orders(parse_orders(text)),
            snapshot=self._orders_snapshot,
            version=lambda: fast_path.pops.order_changes,
        )
        self.timers = TimerFiles(state)
        # Without a file it is as if it had been written empty.
        self._filters.note_saved()
        self.announce: Announce | None = None
        self.followers = TableFollowers(lambda: _required(state))

    def _table(
        self,
        name: str,
        *,
        load: Callable[[bytes], None],
        snapshot: Callable[[], Snapshot | Awaitable[Snapshot | None]],
        version: Callable[[], Hashable] | None = None,
    ) -> PersistedTable:
        """Returns a table in a file of `config`."""
        file = StateFile.of_store(self._state.settings.store_dir, name)
        return PersistedTable(file, load=load, snapshot=snapshot, version=version)

    def load(self) -> None:
        """Reads the files, and fills the fast path. Blocks; for the start.

        Raises:
            StateFileError: There is content that cannot be read.
        """
        state = self._state
        state.access.load()
        if not self._topics.load():
            self._report_lost_topics()
        tables = (self._static, self._groups, self.offsets.table, self._modes, self._filters)
        for table in tables:
            table.load()
        self.delays.load()
        self._counts.load()
        state.fast_path.half_messages.load(self._counts_table.waiting)
        self._orders.load()
        self._orders.note_saved()
        self._counts.note_saved()
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
                self._topics.path,
                len(lost),
                named(lost),
                self._state.settings.store_dir,
            )

    async def topics_changed(self, names: Iterable[str], *, must_have: bool = False) -> None:
        """Follows a change of topics: file, then slaves and fast path, then name servers.

        Args:
            names: The topics.
            must_have: Whether slaves that are required must have it.

        Raises:
            StoreError: The file cannot be written; the fast path does not know the change.
            RefusedError: The change was made here, and slaves that are required do not have it.
        """
        changed = tuple(names)
        lacking = await self.topics_written(changed)
        await self.announce_topics(changed)
        if must_have:
            _refuse_lacking(lacking)

    async def topics_written(self, names: Iterable[str]) -> list[str]:
        """Writes the topics, lets slaves take them, then the fast path know those that changed.

        Returns:
            The addresses of slaves that are required, and do not have them.

        Raises:
            StoreError: The file cannot be written; the fast path does not know the change.
        """
        await self._topics.save()
        lacking = await self._replicated(TOPICS)
        policy.fill_topics(self._state, names)
        return lacking

    async def _replicated(self, table: str) -> list[str]:
        """Lets slaves take a table; returns who is required and does not have it."""
        timeout_ms = self._state.settings.tables_ack_ms
        if timeout_ms == 0 or not self._state.role.is_master:
            return []
        lacking = await self.followers.have((table,), timeout_s=timeout_ms / 1_000)
        if lacking:
            _log.warning("%s: not with the slaves %s yet", table, ", ".join(lacking))
        return lacking

    async def announce_topics(self, names: Iterable[str] | None) -> None:
        """Notifies the name servers of topics that changed; None for all."""
        if self.announce is not None:
            await self.announce(None if names is None else tuple(names))

    def groups_known(self, names: Iterable[str]) -> None:
        """Lets the fast path know groups that changed."""
        policy.fill_groups(self._state, names)

    async def groups_changed(self, names: Iterable[str], *, must_have: bool = False) -> None:
        """Follows a change of groups: fast path at once, then file, then slaves.

        Args:
            names: The groups.
            must_have: Whether slaves that are required must have it.

        Raises:
            StoreError: The file cannot be written.
            RefusedError: The change was made here, and slaves that are required do not have it.
        """
        self.groups_known(names)
        await self._groups.save()
        lacking = await self._replicated(GROUPS)
        if must_have:
            _refuse_lacking(lacking)

    async def static_topics_changed(self) -> None:
        """Writes the mappings of static topics; their topics are to be written after them.

        Raises:
            StoreError: The file cannot be written.
        """
        await self._static.save()

    async def follow_topics(self, text: bytes) -> None:
        """Takes the topics of a master: tables, files, fast path, name servers.

        Raises:
            BadJsonError: They cannot be read; nothing, or the mappings alone, was taken.
            StoreError: A file cannot be written.
        """
        static = self._state.static_topics.follow(text)
        if static:
            await self.static_topics_changed()
        changed = self._state.topics.follow(text)
        if changed:
            await self.topics_changed(changed)
        policy.fill_topics(self._state, set(static) - set(changed))

    async def follow_groups(self, text: bytes) -> None:
        """Takes the groups of a master: table, fast path, file.

        Raises:
            BadJsonError: They cannot be read; nothing was taken.
            StoreError: The file cannot be written.
        """
        changed = self._state.groups.follow(text)
        if changed:
            await self.groups_changed(changed)

    async def follow_modes(self, text: bytes) -> None:
        """Takes who asks a master by pop: table and file.

        Raises:
            BadJsonError: They cannot be read; nothing was taken.
            StoreError: The file cannot be written.
        """
        before = self._state.modes.to_json()
        self._state.modes.load(text)
        if self._state.modes.to_json() != before:
            await self.modes_changed()

    async def modes_changed(self) -> None:
        """Follows a change of who asks by pop: the file.

        Raises:
            StoreError: It cannot be written; the change holds until the next start.
        """
        await self._modes.save()
        await self._replicated(MODES)

    async def slaves_have(self, table: str) -> None:
        """Returns when slaves that are required have taken a table that was changed and written.

        Raises:
            RefusedError: They do not have it.
        """
        _refuse_lacking(await self._replicated(table))

    async def settings_changed(self, changes: Mapping[str, str]) -> None:
        """Follows a change of settings: file, then fast path, then name servers.

        Args:
            changes: The keys that changed, with their texts.

        Raises:
            StoreError: The file cannot be written; the change holds until the next start.
        """
        policy.fill(self._state)
        path = self._state.config_path
        if path is not None:
            await asyncio.to_thread(change_file, path, changes)
        await self.announce_topics(None)

    async def save_filters(self) -> None:
        """Writes the registered expressions, when they changed since the last time.

        Raises:
            StoreError: The file cannot be written.
        """
        filters = self._state.filters
        filters.clean(self._state.now_ms())
        policy.fill_bits(self._state)
        await self._filters.save_if_changed()

    async def save_orders(self) -> None:
        """Writes what groups popped in order, when that changed.

        Raises:
            StoreError: The file cannot be written.
        """
        await self._orders.save_if_changed()

    def _orders_snapshot(self) -> Snapshot:
        rows = self._state.fast_path.pops.orders()
        return lambda: orders_text(rows)

    async def save_counts(self) -> None:
        """Writes how many half messages wait, when that changed.

        Raises:
            StoreError: The file cannot be written.
        """
        await self._counts.save_if_changed()

    def _counts_snapshot(self) -> Snapshot:
        now_ms = self._state.now_ms()
        waiting = {
            each.topic: each.waiting for each in self._state.fast_path.half_messages.counts()
        }
        self._counts_table.note(waiting, now_ms)
        return self._counts_table.text()

    async def save_all(self, when: str = "at the stop") -> None:
        """Writes every file; one that cannot be written does not keep the others from it."""
        saves = (
            self.offsets.save,
            self.delays.save,
            self.timers.save,
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
                _log.error("%s: %s", when, error.message)

    def _take_filters(self, text: bytes) -> None:
        state = self._state
        was_clean = state.store.open_report().was_clean
        state.filters.load(text, state.now_ms(), was_clean=was_clean)


def _required(state: BrokerState) -> frozenset[int] | None:
    """Returns the controller ids of slaves that must have a change; None for all that follow.

    Those whom the controller may elect; of a synchronous master without one, every slave.
    """
    master, role = state.replicas.master, state.role
    if not role.waits_for_slaves or master is None:
        return frozenset()
    if not role.is_controlled:
        return None
    in_sync = master.sync_state()
    members = frozenset(in_sync.members) | frozenset(in_sync.asked)
    return members - {state.replicas.controller_id}


def _refuse_lacking(lacking: list[str]) -> None:
    if lacking:
        raise RefusedError(
            f"it is made here, but {', '.join(lacking)} does not have it yet: it would be lost "
            "with this broker; try again",
            code=ResponseCode.SYSTEM_ERROR,
        )
