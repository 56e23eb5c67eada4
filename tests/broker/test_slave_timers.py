"""Timers of a slave: it goes on where its master was, neither early nor again."""

import struct
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from broker.test_replication import SLAVE, equal, name_server
from broker.test_timers import TIMED, now_ms
from interop.processes import free_port
from live_broker import Live, live
from loops import run_on, until
from mqcore.broker.replication.master_timers import MasterPoint, TimersOfMaster
from mqcore.errors import BadJsonError
from mqcore.model.topics import TIMER_TOPIC
from mqcore.native import decode_records
from mqcore.remoting import expect

NEAR = 40
FAR = 40
FAR_MS = 3_600_000


async def send_timed(master: Live, name: str, count: int, first_ms: int) -> None:
    for number in range(count):
        sent = await master.send(
            "t",
            b"%s %d" % (name.encode(), number),
            TIMER_DELIVER_MS=first_ms + number * 20,
            UNIQ_KEY=f"{name}{number}",
        )
        expect(sent, master.address)


async def bodies(broker: Live) -> Counter[str]:
    """Returns what was delivered, with how often."""
    found: Counter[str] = Counter()
    offset = 0
    while offset < broker.broker.state.bounds("t", 0)[1]:
        records = decode_records((await broker.pull("t", offset)).body)
        found.update(record.body.decode() for record in records)
        offset += len(records)
    return found


def test_a_slave_in_place_of_its_master_delivers_the_rest_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            names = await stack.enter_async_context(name_server(tmp_path))
            master = await stack.enter_async_context(
                live(tmp_path / "m", namesrvAddr=names, **TIMED)
            )
            slave = await stack.enter_async_context(
                live(tmp_path / "s", namesrvAddr=names, **SLAVE, **TIMED)
            )
            await master.create("t")
            began_ms = now_ms()
            await send_timed(master, "near", NEAR, began_ms + 200)
            await send_timed(master, "far", FAR, began_ms + FAR_MS)
            state = slave.broker.state
            await until(lambda: master.broker.state.bounds("t", 0)[1] >= NEAR)
            delivering = master.broker.state.timers
            assert delivering is not None
            # A slot is 100 ms: how far it has read stays where its last message was due.
            await until(
                lambda: (
                    state.timers is not None
                    and state.timers.progress().queue_offset == NEAR + FAR
                    and delivering.progress().delivered == NEAR
                    and state.timers.progress().read_ms == delivering.progress().read_ms
                )
            )
            timers = state.timers
            assert timers is not None
            await until(lambda: [each.count for each in timers.waiting()] == [FAR])
            await equal(master, slave)
            await slave.settled()
            assert await bodies(slave) == Counter(f"near {number}" for number in range(NEAR))
            await master.broker.abandon()
        async with live(tmp_path / "s", **TIMED) as heir:
            heir.broker.state.timers_ahead_ms = FAR_MS
            await until(lambda: heir.broker.state.bounds("t", 0)[1] >= NEAR + FAR)
            expected = [f"near {number}" for number in range(NEAR)]
            expected += [f"far {number}" for number in range(FAR)]
            assert await bodies(heir) == Counter(expected)

    run_on("asyncio", run())


def test_how_far_the_master_is_counts_when_the_log_has_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            names = await stack.enter_async_context(name_server(tmp_path))
            ports = {"haListenPort": str(free_port())}
            master = await stack.enter_async_context(
                live(tmp_path / "m", namesrvAddr=names, **ports, **TIMED)
            )
            await master.create("t")
            await send_timed(master, "near", NEAR, now_ms())
            await until(lambda: master.broker.state.bounds("t", 0)[1] == NEAR)
            # Its tables come from the master, its log from nowhere.
            nowhere = {"haMasterAddress": f"127.0.0.1:{free_port()}"}
            slave = await stack.enter_async_context(
                live(tmp_path / "s", namesrvAddr=names, **nowhere, **SLAVE, **TIMED)
            )
            state = slave.broker.state
            await until(lambda: bool(state.replicas.master_address))
            following = TimersOfMaster(state, slave.broker._opened_persistence())
            try:
                assert not await following.follow()
                assert state.bounds(TIMER_TOPIC, 0) == (0, 0)
                assert state.timers is None
            finally:
                await following.stop()

    run_on("asyncio", run())


def test_a_check_point_is_read_or_refused() -> None:
    point = struct.pack(">7q", 1_000, 52, 7, 7, 0, 900, 3)
    status = b'{"master":true,"masterCommitLogMaxOffset":5000}'
    assert MasterPoint.of(point, status) == MasterPoint(1_000, 7, 5_000)
    assert MasterPoint.of(point + bytes(8), status) == MasterPoint(1_000, 7, 5_000)
    assert MasterPoint.of(bytes(56), status) is None
    for bad_point, bad_status in [
        (point[:-1], status),
        (b"", status),
        (point, b"{"),
        (point, b'{"master":false}'),
    ]:
        with pytest.raises(BadJsonError):
            MasterPoint.of(bad_point, bad_status)
