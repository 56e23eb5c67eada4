"""`mqcore store refill`: a directory gets the whole log of a broker; an old log is kept."""

import asyncio
from pathlib import Path

from click.testing import CliRunner

from broker.test_refill import fill_files
from broker.test_replication import SLAVE, end_of, equal, log_bytes, name_server
from live_broker import SMALL, live
from loops import run_on
from mqcore import Inspection
from mqcore.cli.main import commands

FILE = 1 << 20
_SIZES = ("maxHashSlotNum", "maxIndexNum", "mappedFileSizeConsumeQueue")


def run(*words: object) -> tuple[int, str]:
    keys = [f"--set={name}={SMALL[name]}" for name in _SIZES]
    done = CliRunner().invoke(commands, ["store", "refill", *keys, *map(str, words)])
    return done.exit_code, f"{done.output}{done.exception or ''}"


def test_a_directory_is_filled_and_its_slave_goes_on_there(tmp_path: Path) -> None:
    async def go() -> int:
        copy = tmp_path / "s"
        async with (
            name_server(tmp_path) as names,
            live(tmp_path / "m", namesrvAddr=names) as master,
        ):
            await fill_files(master, 3)
            code, text = await asyncio.to_thread(run, copy, "--from", master.address)
            assert (code, f"ends at {3 * FILE}" in text) == (0, True), text
            assert Inspection(copy).verify().problems == []
            async with live(copy, namesrvAddr=names, **SLAVE) as slave:
                await equal(master, slave)
            code, text = await asyncio.to_thread(run, copy, "--from", master.address)
            assert "ends in the middle of a file" in text
            assert code == 1
            words = (copy, "--from", master.address, "--set-aside")
            code, text = await asyncio.to_thread(run, *words)
            assert (code, f"ends at {3 * FILE}" in text) == (0, True), text
            return end_of(master)

    end = run_on("asyncio", go())
    assert log_bytes(tmp_path / "s", 3 * FILE) == log_bytes(tmp_path / "m", 3 * FILE)
    (aside,) = (tmp_path / "s" / "truncated").iterdir()
    assert log_bytes(aside, end) == log_bytes(tmp_path / "m", end)


def test_a_broker_that_gives_no_files_is_named(tmp_path: Path) -> None:
    async def go() -> None:
        async with live(tmp_path / "m", haListenEnable="false") as master:
            code, text = await asyncio.to_thread(run, tmp_path / "s", "--from", master.address)
            assert (code, "gives no whole files" in text) == (1, True), text

    run_on("asyncio", go())
