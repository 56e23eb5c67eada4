"""A damaged store of ours after `recover --keep`, opened by the official brokers.

They must serve every message but the damaged ones, with the offsets that they had, after a clean
stop and after a kill of ours.
"""

import random
import shutil
from pathlib import Path

import pytest

from damage_cases import flip, log_files, overwrite, record_at
from golden_stores import GOLDEN_CONFIG
from interop.official import Official, write_topics
from interop.workload import TOPICS, Line, assert_same, fill, lines_of
from mqcore import Inspection, Store

pytestmark = pytest.mark.java

BODY_AT = 88
PAGE_BYTES = 4_096
# What is damaged, by records of the first file: single records, a head, and a page over several.
BODY_RECORD, LENGTH_RECORD, PAGE_RECORD = 30, 90, 200


def damaged(root: Path) -> None:
    """Flips a bit of a body and of a length, and fills a page with other bytes."""
    path = log_files(root)[0]
    positions = [record_at(path, number) for number in (BODY_RECORD, LENGTH_RECORD, PAGE_RECORD)]
    flip(path, positions[0] + BODY_AT)
    flip(path, positions[1] + 2)
    page = positions[2] - positions[2] % PAGE_BYTES + PAGE_BYTES
    overwrite(path, page, b"\xa5" * PAGE_BYTES)


@pytest.mark.sampled
@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_official_brokers_serve_all_but_the_damaged_records(
    stop: str, official_49: Official, official_53: Official, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    with Store(root, config=GOLDEN_CONFIG) as store:
        fill(store, random.Random(14), 1_500)
        store.flush()
        lines = lines_of(store)
        store.abandon()
    damaged(root)
    with Store(root, config=GOLDEN_CONFIG, on_damage="keep") as store:
        kept = lines_of(store)
        if stop == "killed":
            store.abandon()
    assert (root / "abort").exists() == (stop == "killed")
    before = {line["physical_offset"]: line for line in lines}
    whole = [line for line in kept if before.get(line["physical_offset"]) == line]
    last, offsets = max(before), {line["physical_offset"] for line in whole}
    # A body, a length, and what the page touches: a record in front, those in it, one behind.
    assert len(lines) - 2 - PAGE_BYTES // 100 <= len(whole) < len(lines) - 2
    assert before[last] in whole
    assert Inspection(root).verify().problems == []
    write_topics(root, TOPICS)
    for official in (official_49, official_53):
        copy = tmp_path / official.version
        shutil.copytree(root, copy)
        with official.serve(copy, GOLDEN_CONFIG) as broker:
            pulled = broker.pull_all()
            broker.kill()
        served = [message for message in pulled.messages if message["topic"] in TOPICS]
        found: list[Line] = [m for m in served if m["physical_offset"] in offsets]
        assert_same(found, whole)
