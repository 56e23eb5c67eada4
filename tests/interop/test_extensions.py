"""Stores whose queues have extensions, with filter bits in them, from broker to broker."""

import shutil
from pathlib import Path

import pytest

from interop.cases import Case, bodies
from interop.driver import Driver
from interop.patience import eventually
from interop.servers import OURS, Servers, official_software, serving
from mqcore import Inspection
from mqcore.native import rebuild

pytestmark = [pytest.mark.java, pytest.mark.matrix]

CONFIG = {
    "enablePropertyFilter": "true",
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    # A file is full after some hundred messages.
    "mappedFileSizeConsumeQueueExt": "4096",
}
COUNT = 200
BITS_LEN = 112 // 8


def assert_sound(store: Path) -> None:
    """Asserts that log, queues and their extensions agree, and that nothing is missing."""
    verification = Inspection(store).verify()
    assert verification.problems == []
    assert [note for note in verification.notes if "extension" in note] == []


def queue_files(store: Path, topic: str) -> dict[str, bytes]:
    """Returns the files of a topic's queues and of their extensions."""
    return {
        str(path.relative_to(store)): path.read_bytes()
        for folder in ("consumequeue", "consumequeue_ext")
        for path in sorted((store / folder / topic).rglob("*"))
        if path.is_file()
    }


def filtered(case: Case, sent: str, count: int) -> None:
    """Sends messages of which a consumer of the group wants half, and asserts that it gets them."""
    consumer = case.push(sql=f"number >= {count // 2} AND TAGS IS NOT NULL")
    case.allocated(consumer, 2)
    messages = case.send(case.producer(), body=sent, count=count, tags="A,B", keys="k")
    found = eventually(lambda: case.got(consumer, sent), lambda items: len(items) >= count // 2)
    assert bodies(found) == bodies(messages[count // 2 :])


def test_a_store_with_filter_bits_goes_from_broker_to_broker(
    driver_53: Driver, tmp_path: Path
) -> None:
    official = official_software("5.3.3")
    with serving(official, tmp_path, CONFIG) as servers:
        case, plain = (Case(driver_53, servers, name) for name in ("extended", "unfiltered"))
        case.create(2)
        plain.create(1)
        filtered(case, "first", COUNT)
        plain.send(plain.producer(), body="plain", count=2 * COUNT, tags="A,B")
        plain.pulled(2 * COUNT)
        case.close()
        plain.close()
        servers.broker.stop()
        assert_sound(servers.store)
        assert_has_bits(servers, case.topic)
        assert_made_as_ours(servers.store, tmp_path / "ours", plain.topic)
        for turn, software in enumerate((OURS, official)):
            servers.broker.become(software)
            servers.broker.start()
            later = Case(driver_53, servers, f"later{turn}")
            later.topic, later.group = case.topic, case.group
            filtered(later, f"turn{turn}", COUNT)
            later.close()
            servers.broker.stop()
            assert_sound(servers.store)
            assert_has_bits(servers, case.topic)


def assert_has_bits(servers: Servers, topic: str) -> None:
    """Asserts that the last unit of each extension has bits of the usual number."""
    for queue in (servers.store / "consumequeue_ext" / topic).iterdir():
        content = sorted(queue.iterdir())[-1].read_bytes()
        position, last_len = 0, 0
        while (size := int.from_bytes(content[position : position + 2], "big", signed=True)) > 0:
            last_len = int.from_bytes(content[position + 18 : position + 20], "big")
            position += size
        assert last_len in (0, BITS_LEN)
        if position:
            assert last_len == BITS_LEN, queue


def assert_made_as_ours(store: Path, copy: Path, topic: str) -> None:
    """Asserts that we make the queues and extensions of a topic byte for byte as they are there."""
    shutil.copytree(store, copy)
    theirs = queue_files(copy, topic)
    assert len([name for name in theirs if "_ext" in name]) > 1
    sizes = {
        "mappedFileSizeCommitLog": str(64 << 20),
        "mappedFileSizeConsumeQueue": "600000",
        "maxHashSlotNum": "10000",
        "maxIndexNum": "40000",
    }
    rebuild(copy, config={**sizes, **CONFIG})
    assert queue_files(copy, topic) == theirs
