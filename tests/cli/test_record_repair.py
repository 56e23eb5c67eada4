"""Bad records of a directory are fetched from another replica, and from no broker that differs."""

import asyncio
from pathlib import Path

from click.testing import CliRunner

from broker.test_replication import SLAVE, end_of, equal, fill, ha_address
from live_broker import live
from loops import run_on
from mqcore import Inspection
from mqcore.cli.main import commands


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(commands, ["store", "repair", *map(str, words)])
    return done.exit_code, f"{done.output}{done.exception or ''}"


def spoil(directory: Path, position: int) -> bytes:
    """Changes bytes of the log; returns the file as it was."""
    path = directory / "commitlog" / f"{0:020}"
    before = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(position)
        file.write(bytes(255 - byte for byte in before[position : position + 4]))
    return before


def records_of(directory: Path) -> list[tuple[int, int]]:
    """Returns place and length of each record."""
    found = Inspection(directory).scan()
    return [(message.physical_offset, len(message.record)) for batch in found for message in batch]


def test_a_bad_record_is_fetched_from_another_replica(tmp_path: Path) -> None:
    async def go() -> None:
        copy = tmp_path / "s"
        async with live(tmp_path / "m") as master:
            await master.create("T", 2)
            async with live(copy, haMasterAddress=ha_address(master), **SLAVE) as slave:
                await fill(master, "T", 200)
                await equal(master, slave)
            records = records_of(copy)
            (at, size), (after, _size) = records[50], records[120]
            before = spoil(copy, at + 200)
            spoil(copy, after + 200)
            assert Inspection(copy).verify().problem_count == 1
            words = (copy, "--from", master.address)
            code, text = await asyncio.to_thread(run, *words, "--dry-run")
            assert (code, "2 records would be repaired" in text) == (0, True), text
            assert Inspection(copy).verify().problem_count == 1, "nothing was written"
            code, text = await asyncio.to_thread(run, *words)
            assert (code, f"the record at {at}, {size} bytes, was replaced" in text) == (0, True)
            assert (copy / "commitlog" / f"{0:020}").read_bytes() == before
            assert Inspection(copy).verify().problems == []
            kept = (copy / "truncated" / f"{at:020}.replaced").read_bytes()
            assert len(kept) == size
            assert kept != before[at : at + size]
            code, text = await asyncio.to_thread(run, *words)
            assert "0 records were repaired" in text

    run_on("asyncio", go())


def test_a_broker_with_another_log_is_no_help(tmp_path: Path) -> None:
    async def go() -> None:
        directory = tmp_path / "one"
        async with live(directory) as broker:
            await broker.create("T", 2)
            await fill(broker, "T", 100)
        at, _size = records_of(directory)[50]
        spoil(directory, at + 200)
        spoiled = (directory / "commitlog" / f"{0:020}").read_bytes()
        async with live(tmp_path / "two") as other:
            await other.create("T", 2)
            await fill(other, "T", 100)
            assert end_of(other) > at
            code, text = await asyncio.to_thread(run, directory, "--from", other.address)
            assert code != 0, text
            # Its records have other times, if one begins there at all.
            assert "no copy of this log" in text or "differ at" in text, text
        assert (directory / "commitlog" / f"{0:020}").read_bytes() == spoiled
        async with live(tmp_path / "three"):
            code, text = await asyncio.to_thread(run, directory, "--from", "127.0.0.1:9")
            assert "does not answer" in text

    run_on("asyncio", go())
