"""What a 5.3 broker keeps beside the store's own files stays as it is while we have the store."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from golden_stores import GOLDEN_CONFIG, V53_CLEAN, GoldenStore
from interop.official import Official, below
from interop.workload import Draft, line_of
from mqcore import Store

Unpack = Callable[[GoldenStore], Path]

# What we read and write of a store; all else is somebody else's.
OURS = (
    *("commitlog", "consumequeue", "index", "checkpoint", "abort", "lock"),
    *("queues.manifest", "queues.manifest.before", "mqcore.session"),
)
# A 5.x store with a timer log cannot be opened with another size of its files.
TIMER_CONFIG = {"mappedFileSizeTimerLog": "1040000"}
BATCH_TOPIC = "GoldenBcq"
# Its records are in the log, its queues went with the topic.
DELETED_TOPIC = "GoldenDeleted"


def foreign(root: Path) -> dict[str, tuple[int, str]]:
    """Returns time of change and hash of every file that is not of the store as we know it."""
    return {
        str(path.relative_to(root)): (
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.relative_to(root).parts[0] not in OURS
    }


def append_ours(root: Path) -> list[dict[str, object]]:
    """Takes the store over, appends to it, and closes it; returns what was appended."""
    with Store(root, config=GOLDEN_CONFIG) as store:
        lines = [
            Draft("GoldenPlain", 0, b"x" * 5000, keys=f"ours-{n}").put(store) for n in range(300)
        ]
        assert [line_of(message) for message in store.query("GoldenPlain", "ours-7")] == [lines[7]]
        assert store.close()
    return lines


def test_files_that_we_do_not_know_are_left_alone(unpacked: Unpack) -> None:
    root = unpacked(V53_CLEAN)
    before = foreign(root)
    for name in ("timerwheel", "abort.bak", "config/timermetrics", "config/consumerOffset.json"):
        assert name in before
    assert any(name.startswith("batchconsumequeue/") for name in before)
    assert any(name.startswith("timerlog/") for name in before)
    append_ours(root)
    assert foreign(root) == before


@pytest.mark.java
def test_5_3_takes_its_store_back_with_timers_and_batch_queues(
    official_53: Official, unpacked: Unpack
) -> None:
    root = unpacked(V53_CLEAN)
    lines = append_ours(root)
    end = V53_CLEAN.max_physical_offset
    golden = [m for m in V53_CLEAN.messages() if m["topic"] not in (BATCH_TOPIC, DELETED_TOPIC)]
    with official_53.serve(root, {**GOLDEN_CONFIG, **TIMER_CONFIG}) as broker:
        pulled = broker.pull_all().messages
        for queue in V53_CLEAN.answers("official")["queues"]:
            if queue["topic"] == BATCH_TOPIC:
                bounds = broker.offsets(BATCH_TOPIC, queue["queue_id"])
                assert bounds == (queue["min_offset"], queue["max_offset"])
        broker.kill()
    served = [message for message in below(pulled, end) if message["topic"] != BATCH_TOPIC]
    offsets = [message["physical_offset"] for message in served]
    assert len(offsets) == len(golden)
    by_offset = dict(zip(offsets, served, strict=True))
    assert by_offset == {message["physical_offset"]: message for message in golden}
    later = {message["physical_offset"]: message["body_sha256"] for message in pulled}
    for line in lines:
        assert later[line["physical_offset"]] == line["body_sha256"]
