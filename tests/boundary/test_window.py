"""Pages ahead of the append: half of the window while nobody writes, all of it from then on."""

import threading
from collections.abc import Callable
from pathlib import Path

from mqcore import Store
from small_store import SMALL

WINDOW_BYTES = 1 << 16
PAGE_BYTES = 4096
# Between two looks; the thread that populates gives no signal when it is done.
_LOOK_S = 0.005


def until(condition: Callable[[], bool]) -> None:
    """Returns when a condition holds that a thread of the store brings about."""
    while not condition():
        threading.Event().wait(_LOOK_S)


def test_a_store_that_nobody_writes_to_takes_half_of_the_window(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL | {"populateWindowBytes": WINDOW_BYTES}) as store:
        until(lambda: store.stats().warmed_bytes > 0)
        # One step populates more than the whole window: nothing more would come by itself.
        assert store.stats().warmed_bytes == WINDOW_BYTES // 2
        end = store.append("topic", b"x").end
        until(lambda: store.stats().warmed_bytes > WINDOW_BYTES // 2)
        [segment] = store.stats().segments
        assert segment.populated_bytes >= end + WINDOW_BYTES - 2 * PAGE_BYTES
