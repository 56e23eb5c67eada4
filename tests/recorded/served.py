"""A server for one conversation, and its time: nothing happens in it but what a step asks for.

The timetables of the broker never begin: one that is stopped as soon as the broker serves may have
done its first work by then. Their work is done by name (`WORKS`).
Ports and addresses are pinned, because message ids, remarks and lists of connections name them.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol
from unittest.mock import patch

from mqcore.broker.app import Broker
from mqcore.broker.leading import MasterWork
from mqcore.broker.pop import PopRounds
from mqcore.broker.replication.controller_messages import SyncStateSet
from mqcore.broker.replication.orders import Become
from mqcore.broker.rounds import Rounds
from mqcore.broker.timer_rounds import TimerRounds
from mqcore.config import Layer, Program, namesrv_settings, resolved, settings_of_pairs
from mqcore.namesrv import NameServer
from recorded.conversation import LISTENER, NOW_MS, OWN, Conversation
from recorded.wall_clock import set_wall_clock_ms

__all__ = ["LISTENER_PORT", "PORT", "WORKS", "Served", "own_address", "served"]

# Outside the range that the kernel gives away. It is part of every message id, so it is the same in
# every run; each process listens on a loopback address of its own instead.
PORT: Final = 10977
LISTENER_PORT: Final = int(LISTENER.partition(":")[2])
# Numbers of three digits that a part of an address may have: 100 to 255.
_PARTS: Final = 156
# What the clock that never steps back has when a conversation begins.
_ELAPSED_MS: Final = 1_000
_SETTINGS: Final = {
    # Small files: a store of the default sizes allocates gigabytes.
    "mappedFileSizeCommitLog": str(1 << 20),
    "mappedFileSizeConsumeQueue": "20000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "populateWindowBytes": str(1 << 20),
    "hotWindowBytes": str(1 << 20),
    "maxMessageSize": "65536",
    "diskSpaceWarningLevelRatio": "99",
    "diskSpaceCleanForciblyRatio": "99",
    "scrubBytesPerSecond": "0",
    # One thread serves in the order of the conversation, with the clock of the test.
    "mqcoreReactors": "0",
    "brokerName": "b",
    "brokerClusterName": "c",
    # What message ids and remarks name, wherever the broker listens.
    "brokerIP1": "127.0.0.1",
    "listenPort": str(PORT),
    # The next port is that of the scripted name server.
    "haListenPort": str(PORT + 2),
    "reviveQueueNum": "1",
    "storePathRootDir": "store",
}


class Served(Protocol):
    """A server that runs."""

    address: str

    @property
    def now_ms(self) -> int:
        """The wall clock, Unix ms."""

    async def stop(self) -> None:
        """Ends it."""

    async def kill(self) -> None:
        """Ends it as a kill would, as far as its directory shows."""

    async def settled(self) -> None:
        """Returns when what was stored can be found everywhere."""

    def connections(self) -> int:
        """Returns how many connections it has."""

    def held(self) -> int:
        """Returns how many pulls, pops and notifications wait for messages."""

    def advance(self, by_ms: int) -> None:
        """Lets time pass."""

    async def do(self, work: str) -> None:
        """Does work of a timetable now."""


class _Broker:
    def __init__(self, settings: Mapping[str, str], address: str, now_ms: int) -> None:
        self.address = address
        self.now_ms, self._elapsed_ms = now_ms, _ELAPSED_MS
        pairs = _SETTINGS | {"bindAddress": address} | dict(settings)
        self.broker = Broker(settings_of_pairs(pairs))

    async def start(self) -> None:
        set_wall_clock_ms(self.now_ms)
        with ExitStack() as starting:
            for timetable in (Rounds, TimerRounds, PopRounds):
                starting.enter_context(patch.object(timetable, "start"))
            starting.enter_context(patch.object(Rounds, "lead"))
            await self.broker.start()
        self.broker.state.fast_path.drain(self._elapsed_ms)

    async def stop(self) -> None:
        await self.broker.stop()

    async def kill(self) -> None:
        await self.broker.abandon()

    async def settled(self) -> None:
        store = self.broker.state.store
        while max(store.stats().follower_lag_bytes.values()):  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.001)

    def connections(self) -> int:
        server = self.broker._server
        assert server is not None
        return len(server.hub.links)

    def held(self) -> int:
        stats = self.broker.state.fast_path.stats()
        return stats["held"] + stats["pops_held"]

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms
        self._elapsed_ms += by_ms
        set_wall_clock_ms(self.now_ms)
        self.broker.state.fast_path.drain(self._elapsed_ms)

    async def do(self, work: str) -> None:
        await WORKS[work](self.broker)
        await self.settled()


class _NameServer:
    def __init__(self, settings: Mapping[str, str], address: str, now_ms: int) -> None:
        self.address = address
        self.now_ms, self._elapsed_ms = now_ms, _ELAPSED_MS
        pairs = {
            "bindAddress": address,
            "listenPort": str(PORT),
            "kvConfigPath": str(Path("namesrv") / "kvConfig.json"),
        }
        layers = [Layer("given", pairs | dict(settings))]
        configuration = resolved(Program.NAMESRV, layers)
        self._server = NameServer(namesrv_settings(configuration), clock=lambda: self._elapsed_ms)

    async def start(self) -> None:
        set_wall_clock_ms(self.now_ms)
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop()

    async def kill(self) -> None:
        await self.stop()

    async def settled(self) -> None:
        return

    def connections(self) -> int:
        assert self._server.server is not None
        return len(self._server.server.hub.links)

    def held(self) -> int:
        return 0

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms
        self._elapsed_ms += by_ms
        set_wall_clock_ms(self.now_ms)

    async def do(self, work: str) -> None:
        assert work == "expire brokers", work
        self._server.look()


async def served(
    conversation: Conversation, more: Mapping[str, str] | None = None, now_ms: int = NOW_MS
) -> Served:
    """Starts the server of a conversation; its files come into the working directory.

    Args:
        conversation: The conversation.
        more: Settings beside those of the conversation.
        now_ms: What the wall clock shows, Unix ms.

    Raises:
        AddressError: Somebody listens on `PORT` on all addresses.
    """
    kind = _Broker if conversation.server == "broker" else _NameServer
    address = own_address()
    settings = {**conversation.settings, **(more or {})}
    named = {name: value.replace(OWN, address) for name, value in settings.items()}
    server = kind(named, address, now_ms)
    await server.start()
    return server


def own_address() -> str:
    """Returns a loopback address that no other process of this machine takes: of its number.

    Each part has three digits, so that the address is as long as `OWN`, which replaces it.
    """
    number = os.getpid()
    parts = (number // _PARTS**2, number // _PARTS, number)
    return ".".join(["127", *(str(100 + part % _PARTS) for part in parts)])


async def _lead(broker: Broker) -> None:
    # The services of a master have timetables of their own.
    with patch.object(MasterWork, "start"), patch.object(MasterWork, "take_over"):
        await broker.switch.lead(Become(5, SyncStateSet((1,), 3)), 1)


async def _flush(broker: Broker) -> None:
    await asyncio.to_thread(broker.state.store.flush)


async def _store_pops(broker: Broker) -> None:
    await asyncio.to_thread(broker.state.fast_path.pops.store)


async def _write_notes(broker: Broker) -> None:
    broker.state.fast_path.half_messages.write_op_messages()


async def _revive(broker: Broker) -> None:
    await broker.pop_rounds.revive()


# Work of the broker's timetables, by the name that steps have for it.
WORKS: Final[Mapping[str, Callable[[Broker], Awaitable[None]]]] = {
    "check transactions": lambda broker: broker.rounds.check_transactions(),
    "deliver delayed": lambda broker: broker.rounds.deliver_all(),
    "expire clients": lambda broker: broker.rounds.expire(),
    "flush": _flush,
    "lead": _lead,
    "revive popped": _revive,
    "sample": lambda broker: broker.rounds.sample(),
    "sample totals": lambda broker: broker.rounds.sample_totals(),
    "store pops": _store_pops,
    "tick timers": lambda broker: broker.timer_rounds.tick_all(),
    "write notes": _write_notes,
}
