"""A broker over queue files, records and tables that were damaged while it was down."""

import logging
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from live_broker import Live, live
from loops import run_on
from mqcore.cli.store import store as commands
from mqcore.native import decode_records
from mqcore.remoting import RequestCode

COUNT = 1_000
# Bodies long enough for several log files.
BODY_BYTES = 2_000
UNIT_BYTES = 20


async def fill(root: Path) -> None:
    async with live(root) as running:
        await running.create("T")
        for number in range(COUNT):
            answer = await running.send("T", b"%0*d" % (BODY_BYTES, number))
            assert answer.code == 0, answer.remark


async def consumed(running: Live) -> list[int]:
    """The numbers of all messages that a consumer gets."""
    numbers: list[int] = []
    offset = 0
    while True:
        found = await running.pull("T", offset)
        assert found.code in (0, 19, 20), found.remark
        if found.code == 0:
            numbers += [int(each.body) for each in decode_records(found.body)]
        elif found.code == 19:
            return numbers
        assert int(found.ext["nextBeginOffset"]) > offset
        offset = int(found.ext["nextBeginOffset"])


async def all_there(root: Path) -> None:
    async with live(root) as running:
        assert await consumed(running) == list(range(COUNT))
        answer = await running.send("T", b"%d" % COUNT)
        assert answer.ext["queueOffset"] == str(COUNT)
        assert running.broker.state.store.stats().units_mended > 0


def queue_file(root: Path) -> Path:
    return root / "consumequeue" / "T" / "0" / ("0" * 20)


def warned(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return any(text in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("damage", ["removed", "zeroed", "shortened"])
def test_a_damaged_queue_is_whole_before_it_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    async def run() -> None:
        await fill(tmp_path)
        path = queue_file(tmp_path)
        if damage == "removed":
            shutil.rmtree(path.parent)
        elif damage == "zeroed":
            with path.open("r+b") as file:
                file.seek(100 * UNIT_BYTES)
                file.write(bytes(50 * UNIT_BYTES))
        else:
            with path.open("r+b") as file:
                file.truncate(100 * UNIT_BYTES)
        await all_there(tmp_path)

    run_on("asyncio", run())
    assert warned(caplog, "units were made again from the log")


def test_damaged_records_are_not_delivered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        await fill(tmp_path)
        path = tmp_path / "commitlog" / ("0" * 20)
        content = path.read_bytes()
        at = content.index(b"%0*d" % (BODY_BYTES, 10))
        with path.open("r+b") as file:
            file.seek(at + 7)
            file.write(b"7")
        async with live(tmp_path) as running:
            for _time in range(2):
                assert await consumed(running) == [n for n in range(COUNT) if n != 10]
            store = running.broker.state.store
            assert store.stats().records_damaged == 1
            (damaged,) = store.damaged_records()
            found = (damaged.topic, damaged.queue_id, damaged.queue_offset)
            assert found == ("T", 0, 10)

    run_on("asyncio", run())
    errors = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert len([each for each in errors if "is damaged" in each.getMessage()]) == 1


def test_lost_topics_are_named_and_can_be_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topics = tmp_path / "config" / "topics.json"

    async def lose() -> None:
        await fill(tmp_path)
        topics.write_bytes(b"")
        topics.with_name("topics.json.bak").unlink(missing_ok=True)
        async with live(tmp_path, autoCreateTopicEnable="false"):
            pass

    run_on("asyncio", lose())
    assert warned(caplog, "1 topics have queues: T.")
    shown = CliRunner().invoke(
        commands, ["repair", str(tmp_path), "--topics", "--dry-run"], catch_exceptions=False
    )
    assert "T: 1 queues, perm 6" in shown.output
    before = topics.read_bytes()
    CliRunner().invoke(commands, ["repair", str(tmp_path), "--topics"], catch_exceptions=False)
    assert topics.read_bytes() != before

    async def served() -> None:
        async with live(tmp_path, autoCreateTopicEnable="false") as running:
            table = await running.json(RequestCode.GET_ALL_TOPIC_CONFIG)
            assert table["topicConfigTable"]["T"]["perm"] == 6
            assert await consumed(running) == list(range(COUNT))

    run_on("asyncio", served())
    again = CliRunner().invoke(commands, ["repair", str(tmp_path), "--topics"])
    assert again.output.startswith("0 topics were added")
