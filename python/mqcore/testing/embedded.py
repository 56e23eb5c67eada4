"""A broker for tests, as coroutines on the loop that it lives on.

Starts, stops, kills and disturbs a broker and, unless it joins another's, its name server; reads
what it stored. Which thread the loop runs in is not its business.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType

from mqcore.broker import policy
from mqcore.broker.app import Broker
from mqcore.clock import wall_ms
from mqcore.config import settings_of_pairs
from mqcore.errors import UsageError, UsageReason
from mqcore.native import ReceivedMessage, existing_sizes
from mqcore.standalone import Standalone, namesrv_settings_of
from mqcore.testing.ageing import Ageing
from mqcore.testing.send_faults import SendFaults

# Weaker than what a test sets: files are small, and nothing is made ahead of need.
DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        "bindAddress": "127.0.0.1",
        "brokerIP1": "127.0.0.1",
        "brokerName": "broker-test",
        "listenPort": "0",
        "haListenEnable": "false",
        "mappedFileSizeCommitLog": str(16 << 20),
        "maxHashSlotNum": "50000",
        "maxIndexNum": "200000",
        "populateWindowBytes": str(4 << 20),
        "hotWindowBytes": str(16 << 20),
        # A test goes on where the disk is nearly full for other reasons.
        "diskSpaceWarningLevelRatio": "99",
        "diskSpaceCleanForciblyRatio": "99",
    }
)
_HOST = "127.0.0.1"
_NOT_STARTED = "the broker was not started: use it as a context manager, or start() it"
# The name server is in this process, or answers on this machine.
_REGISTERED_TIMEOUT_S = 5.0
# A read of the store at a time.
_READ_MAX = 1_024
# Dispatch follows the log within milliseconds.
_DISPATCHED_TIMEOUT_MS = 10_000


class Embedded:
    """One broker with its directory, through any number of starts.

    Attributes:
        ports: Its ports from the first start on, by the program's name.
    """

    def __init__(
        self, settings: Mapping[str, str], directory: Path | None, namesrv: str | None
    ) -> None:
        """Prepares; `start` opens.

        Args:
            settings: Official keys, stronger than `DEFAULTS`.
            directory: Where to store; a temporary directory without one.
            namesrv: Name servers to join, joined by `;`; one of its own without.
        """
        self._given = dict(settings)
        self._is_temporary = directory is None
        self._directory = directory
        self.ports: dict[str, int] = {}
        self._joined = namesrv
        self._ageing = Ageing()
        self._faults = SendFaults()
        self._both: Standalone | None = None
        # What a stop ends.
        self._started = AsyncExitStack()
        self._broker: Broker | None = None

    @property
    def is_running(self) -> bool:
        """Whether it serves."""
        return self._broker is not None

    @property
    def directory(self) -> Path:
        """Where it stores.

        Raises:
            UsageError: It has no directory yet.
        """
        if self._directory is None:
            raise UsageError(_NOT_STARTED, reason=UsageReason.NOT_STARTED)
        return self._directory

    @property
    def namesrv(self) -> str:
        """The name servers, as clients get them."""
        return self._joined or f"{_HOST}:{self._port('namesrv')}"

    @property
    def address(self) -> str:
        """Where the broker listens."""
        return f"{_HOST}:{self._port('broker')}"

    def _port(self, name: str) -> int:
        if name not in self.ports:
            raise UsageError(_NOT_STARTED, reason=UsageReason.NOT_STARTED)
        return self.ports[name]

    def _running(self) -> Broker:
        if self._broker is None:
            raise UsageError(
                "the broker does not run: start() it, or restart() it",
                reason=UsageReason.NOT_STARTED,
            )
        return self._broker

    async def start(self) -> None:
        """Starts it, on the ports that it had before; does nothing while it runs.

        Raises:
            MQError: It cannot start.
        """
        if self._broker is not None:
            return
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="mqcore-test-"))
        stored = Path(self._given.get("mountedStoreDir") or self.directory)
        pairs = dict(DEFAULTS) | self._given
        capacity = int(pairs["maxHashSlotNum"]), int(pairs["maxIndexNum"])
        pairs |= existing_sizes(stored, index_capacity=capacity)
        pairs["storePathRootDir"] = str(self.directory)
        if "broker" in self.ports:
            pairs["listenPort"] = str(self.ports["broker"])
        both: Standalone | None = None
        async with AsyncExitStack() as starting:
            if self._joined is None:
                settings, port = settings_of_pairs(pairs), self.ports.get("namesrv", 0)
                both = Standalone(settings, namesrv_settings_of(settings, port))
                await both.start()
                starting.push_async_callback(both.stop)
                broker, self.ports = both.broker, both.ports
            else:
                broker = Broker(settings_of_pairs(pairs | {"namesrvAddr": self._joined}))
                await broker.start()
                starting.push_async_callback(broker.stop)
                for name_server in broker.settings.name_servers:
                    await broker.until_registered(name_server, timeout_s=_REGISTERED_TIMEOUT_S)
                self.ports = broker.ports
            assert broker is not None
            broker.rounds.due_ms = lambda length_ms: self._ageing.due_ms(length_ms, wall_ms())
            broker.state.timers_ahead_ms = self._ageing.passed_ms
            policy.fill(broker.state)
            self._apply_faults(broker)
            self._broker, self._both, self._started = broker, both, starting.pop_all()

    async def stop(self) -> None:
        """Stops it as a signal does: everything is written.

        Raises:
            StoreError: The store could not be written; it is stopped all the same.
        """
        self._broker = self._both = None
        await self._started.aclose()

    async def restart(self) -> None:
        """Stops it if it runs, and starts it."""
        await self.stop()
        await self.start()

    async def kill(self) -> None:
        """Ends it, and its own name server, as `kill -9` does."""
        broker, self._broker = self._running(), None
        both, self._both = self._both, None
        self._started.pop_all()
        await broker.abandon()
        if both is not None and both.namesrv.server is not None:
            both.namesrv.server.hub.cut()
            await both.namesrv.stop()

    async def remove(self) -> None:
        """Stops it and removes its directory, if that is a temporary one."""
        try:
            await self.stop()
        finally:
            if self._is_temporary and self._directory is not None:
                await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)

    async def deafen(self) -> None:
        """Neither it nor its own name server reads or answers from now on."""
        broker = self._running()
        broker.deafen()
        # What a client sends from now on is not read, by threads either.
        await asyncio.to_thread(broker.state.fast_path.settle_reactors)
        if self._both is not None and self._both.namesrv.server is not None:
            self._both.namesrv.server.hub.deafen()

    async def hear(self) -> None:
        """They read and answer again; does nothing for a broker that ended meanwhile."""
        if self._broker is not None:
            self._broker.hear()
        if self._both is not None and self._both.namesrv.server is not None:
            self._both.namesrv.server.hub.hear()

    async def drop_connections(self) -> None:
        """Ends every connection to the broker and to its own name server, once."""
        self._running().cut_connections()
        if self._both is not None and self._both.namesrv.server is not None:
            self._both.namesrv.server.hub.cut()

    async def fail_sends(self, count: int, code: int, remark: str) -> None:
        """Refuses the next sends, before anything of them is stored.

        Raises:
            UsageError: The count is none.
        """
        if not isinstance(count, int) or count < 0:
            raise UsageError(f"times: a number from 0 on is expected, not {count!r}")
        self._faults.set(count, code, remark)
        self._apply_faults(self._running())

    def _apply_faults(self, broker: Broker) -> None:
        """Lets the broker ask about every request while there are faults to come."""
        is_needed = self._faults.left > 0
        if is_needed or broker.state.check is not None:
            broker.state.check = self._faults.answer if is_needed else None
            policy.fill(broker.state)

    async def advance(self, by_ms: int) -> None:
        """Lets everything that is delayed now become older, and delivers what is due.

        Half messages without an end are as much older, for this time, and are checked.
        """
        if by_ms < 0:
            raise ValueError(f"time does not go back: {by_ms} ms")
        broker, jumped_ms = self._running(), wall_ms()
        self._ageing.advance(by_ms, jumped_ms)
        # What is stored from now on must differ in time from what was stored before.
        while wall_ms() <= jumped_ms:  # noqa: ASYNC110 - the clock has no event
            await asyncio.sleep(0.0005)
        # What was acknowledged is in its level's queue a moment later.
        await asyncio.to_thread(_until_dispatched, broker)
        broker.state.timers_ahead_ms = self._ageing.passed_ms
        policy.fill(broker.state)
        await broker.rounds.deliver_all()
        await broker.timer_rounds.tick_all()
        await broker.rounds.check_transactions(ahead_ms=by_ms)

    def has_topic(self, topic: str) -> bool:
        """Whether it knows a topic."""
        return self._running().state.topics.find(topic) is not None

    async def messages(self, topic: str) -> list[ReceivedMessage]:
        """Returns all that is stored of a topic, by queue and offset, as consumers get it."""
        return await asyncio.to_thread(self._read, self._running(), topic)

    def _read(self, broker: Broker, topic: str) -> list[ReceivedMessage]:
        # Imported here: a broker is there sooner without it.
        from mqcore.client.message import received_of

        _until_dispatched(broker)
        store = broker.state.store
        found: list[ReceivedMessage] = []
        for queue in (each for each in store.queues() if each.topic == topic):
            at = max(0, queue.min_offset)
            while at < queue.max_offset:
                part = store.get(topic, queue.queue_id, at, _READ_MAX)
                found += (received_of(each, broker.settings.name) for each in part.messages)
                if part.next_offset <= at:
                    break
                at = part.next_offset
        return found

    async def offsets(self, group: str, topic: str) -> dict[int, int]:
        """Returns how far a group has read a topic, as the broker has it: by queue."""
        return dict(self._running().state.fast_path.offsets.of(group, topic))


def _until_dispatched(broker: Broker) -> None:
    """Waits until everything that is stored can be read by queue. Runs in a thread."""
    store = broker.state.store
    store.wait_dispatched(store.stats().appended, timeout_ms=_DISPATCHED_TIMEOUT_MS)
