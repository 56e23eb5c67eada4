"""A record that rots while a broker runs: fetched from a replica, or named with the command."""

import asyncio
from pathlib import Path

import pytest

from broker.test_replication import SLAVE, end_of, equal, fill, name_server
from live_broker import Live, live
from loops import run_on, until
from mqcore import Inspection
from mqcore.broker.replication.record_repair import RecordRepair
from mqcore.remoting import ResponseCode

FILE = 1 << 20
# The scrub would find it too, later.
QUIET = {"scrubBytesPerSecond": "0", "deduplicationWindowMinutes": "0"}


async def filled(running: Live) -> None:
    """Sends until the first file of the log is not mapped any more."""
    await running.create("T", 2)
    while end_of(running) < 4 * FILE:
        await fill(running, "T", 200)
    store = running.broker.state.store
    await until(lambda: store.stats().flushed > 3 * FILE)


def spoil(directory: Path, at: int) -> None:
    """Changes bytes of the first file of a log."""
    with (directory / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(at)
        bytes_ = file.read(4)
        file.seek(at)
        file.write(bytes(255 - byte for byte in bytes_))


def offset_of(directory: Path, number: int) -> int:
    """Returns where a record begins."""
    found = (message for batch in Inspection(directory).scan() for message in batch)
    return next(each.physical_offset for at, each in enumerate(found) if at == number)


async def found_by_a_read(running: Live) -> int:
    """Reads the first queue until a damaged record is known; returns its place."""
    state = running.broker.state
    offset = 0
    while not (found := state.store.damaged_records()):
        answer = await running.pull("T", offset)
        offset = int(answer.ext["nextBeginOffset"])
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
    return found[0].physical_offset


@pytest.mark.parametrize("rotten", ["m", "s"])
def test_it_is_fetched_from_the_other_one_and_served_again(rotten: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with name_server(tmp_path) as names:
            keys = QUIET | {"namesrvAddr": names}
            async with (
                live(tmp_path / "m", **keys) as master,
                live(tmp_path / "s", **keys, **SLAVE) as slave,
            ):
                await filled(master)
                await equal(master, slave)
                broken = master if rotten == "m" else slave
                await broken.settled()
                state = broken.broker.state
                await until(lambda: state.topics.find("T") is not None)
                await until(lambda: state.store.stats().flushed > 3 * FILE)
                at = await asyncio.to_thread(offset_of, tmp_path / rotten, 50)
                before = (tmp_path / rotten / "commitlog" / f"{0:020}").read_bytes()
                spoil(tmp_path / rotten, at + 150)
                assert await found_by_a_read(broken) == at
                repair = RecordRepair(state)
                await repair.look()
                await repair.stop()
                assert repair.repaired == 1
                assert state.store.damaged_records() == []
                now = (tmp_path / rotten / "commitlog" / f"{0:020}").read_bytes()
                assert now == before

    run_on("asyncio", run())


def test_where_nobody_has_it_the_log_names_the_command(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with live(tmp_path / "m", **QUIET) as master:
            await filled(master)
            await master.settled()
            at = await asyncio.to_thread(offset_of, tmp_path / "m", 50)
            spoil(tmp_path / "m", at + 150)
            assert await found_by_a_read(master) == at
            repair = RecordRepair(master.broker.state)
            await repair.look()
            await repair.look()
            await repair.stop()
            assert repair.repaired == 0
            logged = [each for each in caplog.messages if "is not repaired" in each]
            assert len(logged) == 1
            assert f"physical offset {at}" in logged[0]
            assert f"mqcore store repair --from HOST:PORT {tmp_path / 'm'}" in logged[0]

    run_on("asyncio", run())
