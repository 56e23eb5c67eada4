"""A snapshot of a store that is being written to, restored, and served by the official brokers."""

import random
import threading
from pathlib import Path

import pytest

from golden_stores import GOLDEN_CONFIG
from interop.official import NEWEST, Official, below, write_topics
from interop.workload import TOPICS, assert_same, draft, fill, lines_of
from mqcore import Inspection, Store
from mqcore.snapshots import Point, Pool, Source, restore, take

pytestmark = pytest.mark.java


@pytest.mark.sampled(count=1)
@pytest.mark.parametrize("version", ["4.9.7", "5.3.3", NEWEST])
def test_official_brokers_serve_what_was_restored(
    version: str,
    official_49: Official,
    official_53: Official,
    official_55: Official,
    tmp_path: Path,
) -> None:
    by_version = {each.version: each for each in (official_49, official_53, official_55)}
    root, again = tmp_path / "store", tmp_path / "again"
    rng = random.Random(version)
    is_over = threading.Event()
    with Store(root, config=GOLDEN_CONFIG) as store:
        fill(store, rng, 2_000)
        write_topics(root, TOPICS)

        def load() -> None:
            number = 2_000
            while not is_over.is_set():
                draft(rng, number).put(store, wait=True)
                number += 1

        writing = threading.Thread(target=load)
        writing.start()
        try:
            file_len = int(GOLDEN_CONFIG["mappedFileSizeCommitLog"])
            pool = Pool.at(str(tmp_path / "backup"))
            done = take(Source.of(root), pool, lambda: Point(store.flush(), file_len, "broker-a"))
        finally:
            is_over.set()
            writing.join()
        end = done.manifest.log_end
        assert store.stats().appended > end
        expected = below(lines_of(store), end)
    assert done.linked_files > 0
    restore(pool, None, again)
    with by_version[version].serve(again, GOLDEN_CONFIG) as broker:
        served = below(broker.pull_all().messages, end)
        assert broker.send("Plain", 0, b"after", {"TAGS": "AA"})
    assert_same((line for line in served if line["topic"] in TOPICS), expected)
    with Store(again, config=GOLDEN_CONFIG) as store:
        assert_same(below(lines_of(store), end), expected)
    assert Inspection(again).verify().problems == []
