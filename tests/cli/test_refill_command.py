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
from tls_papers import Papers

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
            (copy / "brokerIdentity").write_text("DefaultCluster#broker#2")
            words = (copy, "--from", master.address, "--set-aside")
            code, text = await asyncio.to_thread(run, *words)
            assert (code, f"ends at {3 * FILE}" in text) == (0, True), text
            return end_of(master)

    end = run_on("asyncio", go())
    assert log_bytes(tmp_path / "s", 3 * FILE) == log_bytes(tmp_path / "m", 3 * FILE)
    (aside,) = (tmp_path / "s" / "truncated").iterdir()
    assert log_bytes(aside, end) == log_bytes(tmp_path / "m", end)
    # Its controller must not elect it for a log that it had.
    assert (aside / "brokerIdentity").exists()
    assert not (tmp_path / "s" / "brokerIdentity").exists()


def test_a_broker_that_gives_no_files_is_named(tmp_path: Path) -> None:
    async def go() -> None:
        async with live(tmp_path / "m", haListenEnable="false") as master:
            code, text = await asyncio.to_thread(run, tmp_path / "s", "--from", master.address)
            assert (code, "gives no whole files" in text) == (1, True), text

    run_on("asyncio", go())


def test_a_directory_is_filled_over_tls(tmp_path: Path) -> None:
    papers = Papers(tmp_path / "papers")
    safe = {"useTLS": "true", "tls.server.mode": "permissive", "mqcoreHaTls": "enforcing"}

    async def go() -> None:
        async with live(tmp_path / "m", **papers.keys("m"), **safe) as master:
            await fill_files(master, 2)
            copying = (tmp_path / "s", "--from", master.address)
            code, text = await asyncio.to_thread(run, *copying)
            assert (code, "over TLS alone" in text) == (1, True), text
            own = papers.keys("s") | safe
            words = [f"--set={name}={text}" for name, text in own.items()]
            code, text = await asyncio.to_thread(run, *copying, *words)
            assert (code, f"ends at {2 * FILE}" in text) == (0, True), text
            words[words.index("--set=mqcoreHaTls=enforcing")] = "--set=tls.server.certPath="
            code, text = await asyncio.to_thread(
                run, *copying, *words, "--set=mqcoreHaTls=enforcing"
            )
            assert (code, "needs tls.server.certPath" in text) == (1, True), text

    run_on("asyncio", go())
    assert log_bytes(tmp_path / "s", 2 * FILE) == log_bytes(tmp_path / "m", 2 * FILE)
