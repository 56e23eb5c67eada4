"""A slave that holds nothing copies whole files of its master's log, whatever ends meanwhile."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from rich.console import Console

from broker.test_controlled import members
from broker.test_replication import SLAVE, end_of, equal, fill, log_bytes, name_server
from interop.processes import free_port
from live_broker import Live, live
from loops import run_on, until
from mqcore import Inspection
from mqcore.admin import Admin
from mqcore.broker.observation import snapshot
from mqcore.broker.processors.replication import ha_status
from mqcore.cli.top import _Watch, shown
from mqcore.metrics.text import exposition
from mqcore.remoting import OwnRequestCode, ResponseCode

FILE = 1 << 20


async def fill_files(master: Live, files: int) -> None:
    """Sends until a log has so many whole files, and they are on the disk."""
    await master.create("T", 2)
    while end_of(master) < files * FILE + 10_000:
        await fill(master, "T", 100)
    await until(lambda: master.broker.state.store.stats().flushed >= files * FILE)


def start_of(slave: Live) -> int:
    """Returns where the log of a broker begins."""
    return slave.broker.state.store.stats().log_start


async def grown(slave: Live, end: int) -> None:
    """Returns when the log of a slave has come to an offset."""
    await until(lambda: end_of(slave) >= end)


@contextlib.asynccontextmanager
async def at_work(master: Live) -> AsyncIterator[None]:
    """Sends one after the other: what leaves a master at work has its bound."""

    async def work() -> None:
        while True:
            await master.send("T", b"at work")
            await asyncio.sleep(0.001)

    task = asyncio.ensure_future(work())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_blank_slave_gets_the_whole_log_and_follows(tmp_path: Path) -> None:
    async def run() -> int:
        async with (
            name_server(tmp_path) as names,
            live(tmp_path / "m", namesrvAddr=names) as master,
        ):
            await fill_files(master, 4)
            async with live(tmp_path / "s", namesrvAddr=names, **SLAVE) as slave:
                await equal(master, slave)
                assert start_of(slave) == 0
                await fill(master, "T", 50)
                await equal(master, slave)
                await slave.settled()
                for queue_id in (0, 1):
                    theirs = await master.pull("T", 5, queue_id=queue_id)
                    ours = await slave.pull("T", 5, queue_id=queue_id)
                    assert (ours.code, ours.body) == (theirs.code, theirs.body)
                return end_of(master)

    end = run_on("asyncio", run())
    assert log_bytes(tmp_path / "s", end) == log_bytes(tmp_path / "m", end)
    assert not (tmp_path / "s" / "commitlog.refill").exists()
    assert Inspection(tmp_path / "s").verify().problems == []


def test_a_setting_leaves_it_as_in_rocketmq(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            name_server(tmp_path) as names,
            live(tmp_path / "m", namesrvAddr=names) as master,
        ):
            await fill_files(master, 2)
            keys = {**SLAVE, "refillEnable": "false"}
            async with live(tmp_path / "s", namesrvAddr=names, **keys) as slave:
                await equal(master, slave)
                assert start_of(slave) == end_of(master) // FILE * FILE

    run_on("asyncio", run())


def test_after_a_kill_of_either_the_copy_goes_on(tmp_path: Path) -> None:
    async def run() -> int:
        async with name_server(tmp_path) as names, contextlib.AsyncExitStack() as rest:
            keys = {"namesrvAddr": names, "refillBytesPerSecond": str(2 * FILE)}
            keys |= {"deduplicationWindowMinutes": "0", "listenPort": str(free_port())}
            keys["haListenPort"] = str(free_port())
            master = await rest.enter_async_context(live(tmp_path / "m", **keys))
            await fill_files(master, 7)
            before = 0
            for killed in ("slave", "master"):
                # At work before the copy begins: an idle master would have given all of it by then.
                async with at_work(master):
                    slave = await rest.enter_async_context(
                        live(tmp_path / "s", namesrvAddr=names, **SLAVE)
                    )
                    await grown(slave, before + FILE)
                    assert end_of(slave) < 7 * FILE, "in the middle"
                    shown = ha_status(slave.broker.state)["haClientRuntimeInfo"]
                    assert isinstance(shown, dict)
                    assert shown["refillTotalBytes"] + before == 7 * FILE
                    assert ha_status(master.broker.state)["fileCopies"]
                    text = exposition(await snapshot(slave.broker.state))
                    assert b"mqcore_refill_total_bytes" in text
                await (slave if killed == "slave" else master).broker.abandon()
                if killed == "master":
                    master = await rest.enter_async_context(live(tmp_path / "m", **keys))
                else:
                    await slave.broker.stop()
                    before = len(list((tmp_path / "s" / "commitlog").iterdir())) * FILE
            await equal(master, slave)
            assert start_of(slave) == 0
            return end_of(master)

    end = run_on("asyncio", run())
    assert log_bytes(tmp_path / "s", end) == log_bytes(tmp_path / "m", end)
    assert Inspection(tmp_path / "s").verify().problems == []


def test_top_shows_how_far_a_copy_is(tmp_path: Path) -> None:
    async def run() -> None:
        async with name_server(tmp_path) as names:
            keys = {"namesrvAddr": names, "refillBytesPerSecond": str(2 * FILE)}
            async with live(tmp_path / "m", **keys) as master, Admin(names) as admin:
                await fill_files(master, 7)
                assert (await _Watch(admin).look())["refills"] == []
                for number in range(5):
                    copy = tmp_path / f"s{number}"
                    async with at_work(master), live(copy, namesrvAddr=names, **SLAVE) as slave:
                        await grown(slave, FILE)
                        if await is_shown(admin, slave):
                            return
                # Where sends stand still for a second the master gives the rest at once.
                pytest.fail("each copy was over before it was looked at")

    async def is_shown(admin: Admin, slave: Live) -> bool:
        """Looks at a copy; returns whether it was under way."""
        watch = _Watch(admin)
        while not (seen := await watch.look())["refills"]:
            if end_of(slave) >= 7 * FILE:
                return False
            await asyncio.sleep(0.01)
        (row,) = seen["refills"]
        assert (row["broker"], row["address"]) == ("b", slave.address)
        assert row["total_bytes"] == 7 * FILE
        assert row["percent"] == row["done_bytes"] * 100 // row["total_bytes"]
        assert 0 < row["percent"] < 100
        assert row["bytes_per_s"] > 0
        table = io.StringIO()
        Console(file=table, width=200).print(shown(seen, 2.0))
        assert f"{row['percent']} %" in table.getvalue()
        return True

    run_on("asyncio", run())


def test_a_slave_that_is_too_old_is_refused_with_the_command_that_helps(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            name_server(tmp_path) as names,
            live(tmp_path / "m", namesrvAddr=names) as master,
        ):
            await fill_files(master, 1)
            async with live(tmp_path / "s", namesrvAddr=names, **SLAVE) as slave:
                await equal(master, slave)
            await fill_files(master, 4)
            master.broker.state.store.remove_oldest(max_files=2)
            async with live(tmp_path / "s", namesrvAddr=names, **SLAVE) as slave:
                await until(lambda: "mqcore store refill" in slave.broker.state.replicas.ended)

    run_on("asyncio", run())


def test_members_of_a_group_are_filled_with_their_epochs(tmp_path: Path) -> None:
    async def run() -> None:
        async with members(tmp_path) as them:
            await them.begin(1)
            await them.until_master(1)
            master = them.live(1)
            await fill_files(master, 3)
            await them.begin(2)
            await them.until_slave(2)
            await them.until_in_sync(1, 2)
            ours, theirs = (them.live(number).broker.state.replicas for number in (2, 1))
            assert ours.epochs is not None
            assert theirs.epochs is not None
            epochs = [(each.epoch, each.start) for each in ours.epochs.entries()]
            assert epochs == [(each.epoch, each.start) for each in theirs.epochs.entries()]
            assert start_of(them.live(2)) == 0
            assert end_of(them.live(2)) == end_of(master)

    run_on("asyncio", run())


def test_who_serves_no_slave_offers_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path, haListenEnable="false") as broker:
            answer = await broker.call(OwnRequestCode.REFILL_OFFER)
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE

    run_on("asyncio", run())
