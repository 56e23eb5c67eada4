"""Every kind of damage to a store directory, after a clean stop and after a kill: never silent.

A broker starts on the damaged directory and every message is asked for; what is missing must have
been refused or reported, and no queue offset may be given twice.
"""

import asyncio
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from damage_cases import (
    BODY_BYTES,
    CASES,
    CUT,
    LOST,
    PER_QUEUE,
    REBUILT,
    REFUSED,
    STOPS,
    TOPICS,
    WHOLE,
    Case,
    Stop,
    table,
)
from live_broker import SMALL, Live, live
from loops import run_on, until
from mqcore.cli.main import commands
from mqcore.errors import MQError

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
QUEUES = [(topic, queue_id) for topic, count in TOPICS.items() for queue_id in range(count)]
LOGGER = "mqcore"


def body_of(topic: str, queue_id: int, number: int) -> bytes:
    """Returns the body that only this message has."""
    return f"{topic}/{queue_id}/{number}".encode().ljust(BODY_BYTES, b".")


async def fill(client: Live) -> None:
    """Makes the topics and their messages, the queues mixed in the log."""
    store = client.broker.state.store
    for topic, queues in TOPICS.items():
        await client.create(topic, queues)
    for number in range(max(PER_QUEUE.values())):
        for topic, queue_id in QUEUES:
            if number < PER_QUEUE[topic]:
                body = body_of(topic, queue_id, number)
                store.append(topic, body, queue_id=queue_id, keys=f"{topic}-{number}")
    await client.settled()
    store.flush()
    # Units are written a little later.
    await until(lambda: store.stats().queue_pending_bytes == 0)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[Stop, Path]:
    """Two directories of the same messages: stopped cleanly, and copied from under a broker."""
    folder = tmp_path_factory.mktemp("damage")
    roots: dict[Stop, Path] = {"clean": folder / "clean", "killed": folder / "killed"}

    async def run() -> None:
        async with live(roots["clean"]) as client:
            await fill(client)
            # What a kill leaves: the files as the page cache has them.
            await asyncio.to_thread(shutil.copytree, roots["clean"], roots["killed"])

    run_on("uvloop", run())
    return roots


@dataclass(slots=True)
class Seen:
    """What a start showed.

    Attributes:
        refused: Why the broker did not start; empty when it did.
        missing: Messages that cannot be read.
        reused: Queues whose next message got an offset that another message had.
        reports: Warnings and errors of the log.
    """

    refused: str
    missing: int
    reused: list[tuple[str, int]]
    reports: list[str]

    @property
    def outcome(self) -> str:
        """What it is called in the table; anything silent has a name that no case expects."""
        if self.refused:
            return REFUSED
        if self.missing == 0 and not self.reused:
            return REBUILT if self.reports else WHOLE
        if not self.reports:
            return f"SILENT: {self.missing} messages missing, offsets reused in {self.reused}"
        if self.reused:
            return CUT
        return LOST


def start(root: Path, caplog: pytest.LogCaptureFixture) -> Seen:
    """Starts a broker, reads every message, appends one to each queue, stops."""
    caplog.clear()

    async def run() -> tuple[int, list[tuple[str, int]]]:
        async with live(root) as client:
            store = client.broker.state.store
            missing = sum([await asyncio.to_thread(unread, client, *queue) for queue in QUEUES])
            reused = []
            for topic, queue_id in QUEUES:
                appended = store.append(topic, b"next", queue_id=queue_id)
                if appended.queue_offset < PER_QUEUE[topic]:
                    reused.append((topic, queue_id))
            return missing, reused

    try:
        with caplog.at_level(logging.WARNING, logger=LOGGER):
            missing, reused = run_on("uvloop", run())
    except MQError as error:
        return Seen(str(error), 0, [], [])
    reports = [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith(LOGGER) and record.levelno >= logging.WARNING
    ]
    return Seen("", missing, reused, reports)


def unread(client: Live, topic: str, queue_id: int) -> int:
    """Returns how many messages of a queue cannot be read."""
    store, found, offset = client.broker.state.store, set[int](), 0
    while offset < PER_QUEUE[topic]:
        got = store.get(topic, queue_id, offset, 256, max_bytes=1 << 20)
        for message in got.messages:
            number = message.queue_offset
            if message.body == body_of(topic, queue_id, number):
                found.add(number)
        if got.next_offset <= offset:
            break
        offset = got.next_offset
    return PER_QUEUE[topic] - len(found)


def mqcore(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(commands, words)
    return done.exit_code, f"{done.output}{done.exception or ''}"


@pytest.mark.slow
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_no_damage_is_silent(
    case: Case,
    stop: Stop,
    stores: dict[Stop, Path],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    root = tmp_path / "store"
    shutil.copytree(stores[stop], root)
    case.damage(root)
    expected = case.answers[stop]
    code, output = mqcore("store", "verify", str(root))
    seen = start(root, caplog)
    assert (seen.outcome, code != 0) == (expected.start, expected.verify), (seen, output)
    if seen.refused:
        # The parts of an error: what is wrong, where, and the command that goes on.
        assert str(root) in seen.refused, seen.refused
    if expected.mend:
        code, output = mqcore("store", *case.command, str(root), *sizes())
        assert code == 0, output
        again = start(root, caplog)
        assert not again.refused, again
        assert again.missing > 0, again
        assert (root / "truncated").is_dir()
        assert mqcore("store", "damage", str(root))[0] == 1


def sizes() -> list[str]:
    """Returns the settings of the test's stores that their files do not show."""
    keys = ("maxMessageSize", "maxHashSlotNum", "maxIndexNum")
    return [word for key in keys for word in ("--set", f"{key}={SMALL[key]}")]


def test_the_undamaged_stores_are_read_whole(
    stores: dict[Stop, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for stop in STOPS:
        root = tmp_path / stop
        shutil.copytree(stores[stop], root)
        assert mqcore("store", "verify", str(root))[0] == 0
        assert start(root, caplog).outcome == WHOLE


def test_the_page_has_the_table() -> None:
    assert table() in PAGE.read_text()
