"""The GIL during calls: free during everything that may wait, kept by what is short.

Counted, not timed: with a switch interval longer than the test a thread runs only when another
gives the GIL back of its own.
"""

import select
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqcore import Store
from mqcore.native import BatchMessage, gil_counts
from mqcore.native.errors import StoreTimeoutError
from small_store import SMALL, filled


class Computing:
    """A thread that computes; `steps` counts its progress."""

    def __init__(self) -> None:
        self.steps = 0
        self.is_wanted = True
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        while self.is_wanted:
            self.steps += sum(range(100)) // 4_950
            # Gives the GIL back, or the test's own thread would wait for the switch interval.
            select.select([], [], [], 0)


@pytest.fixture
def computing() -> Iterator[Computing]:
    computing = Computing()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1_000)
    computing.thread.start()
    try:
        yield computing
    finally:
        computing.is_wanted = False
        computing.thread.join()
        sys.setswitchinterval(before)


def test_short_calls_keep_the_gil(tmp_path: Path, computing: Computing) -> None:
    with Store(tmp_path, config=SMALL) as store:
        filled(store, 100)
        before = gil_counts()
        steps = computing.steps
        for _ in range(100):
            store.append("topic", b"x" * 1_000, tags="a")
            store.get("topic", 0, 10)
        after = gil_counts()
        assert (after.kept, after.released) == (before.kept + 200, before.released)
        assert computing.steps == steps


def test_calls_that_may_wait_give_it_back(tmp_path: Path, computing: Computing) -> None:
    with Store(tmp_path, config={**SMALL, "flushDiskType": "SYNC_FLUSH"}) as store:
        appended = store.append("topic", b"body", keys="k")
        store.wait_dispatched(appended.end)
        calls: list[Callable[[], object]] = [
            lambda: store.append("topic", b"body"),
            lambda: store.append_batch("topic", [BatchMessage(b"body")]),
            store.flush,
            store.stats,
            store.queues,
            lambda: store.wait_dispatched(0),
            lambda: store.query("topic", "k"),
            lambda: store.message_at(0),
            lambda: store.get("topic", 0, 0, 1_000),
            lambda: next(store.scan()),
            lambda: store.offset_by_time("topic", 0, 0),
        ]
        for call in calls:
            released = gil_counts().released
            call()
            assert gil_counts().released == released + 1
        # What waits for long lets others run meanwhile.
        steps = computing.steps
        with pytest.raises(StoreTimeoutError):
            store.wait_dispatched(1 << 40, timeout_ms=100)
        assert computing.steps > steps


def test_an_append_of_more_than_64_kib_gives_it_back(tmp_path: Path) -> None:
    config = {**SMALL, "maxMessageSize": 200_000}
    with Store(tmp_path, config=config) as store:
        filled(store, 1)
        released = gil_counts().released
        store.append("topic", bytes(65_537))
        assert gil_counts().released == released + 1
