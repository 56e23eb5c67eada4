"""The reference itself is right: official brokers serve the golden stores as in their manifests."""

import fcntl
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from golden_stores import GOLDEN_CONFIG, TINY, V49_CLEAN, V53_CLEAN, GoldenStore
from interop import install
from interop.install import JavaMissingError, OfficialError
from interop.official import Message, Official, below, write_topics

pytestmark = pytest.mark.java

Unpack = Callable[[GoldenStore], Path]
# The broker of 5.x serves a batch queue's record once per pull position: not comparable by queue.
BATCH_TOPIC = "GoldenBcq"
# Its records are in the log, its queues went with the topic.
DELETED_TOPIC = "GoldenDeleted"
V53_UNIQUE_KEY = "FD0000000000000000000000000000023E9430946E0968CE2C34007B"
# A 5.x store with a timer log cannot be opened with another size of its files.
TIMER_CONFIG = {"mappedFileSizeTimerLog": "1040000"}
LOCK_REFUSAL = "Lock failed,MQ already started"
# fcntl.F_OFD_SETLK has a name in Python from 3.9 on some builds only; the number is Linux's.
F_OFD_SETLK = 37


def readable(store: GoldenStore, *unserved: str) -> list[Message]:
    """Returns the manifest's messages of all topics but `unserved`, ordered by queue."""
    messages = [message for message in store.messages() if message["topic"] not in unserved]
    return sorted(messages, key=order)


def order(message: Message) -> tuple[str, int, int]:
    """Returns the order of a message among all queues."""
    return message["topic"], message["queue_id"], message["queue_offset"]


def test_4_9_serves_its_own_store(official_49: Official, unpacked: Unpack) -> None:
    store = unpacked(V49_CLEAN)
    with official_49.serve(store, GOLDEN_CONFIG) as broker:
        pulled = broker.pull_all()
        status = broker.status()
        offsets = broker.offsets("GoldenPlain", 0)
        by_key = broker.query("GoldenKeys", "k-1")
        answers = V49_CLEAN.answers("official")
        searched = next(q for q in answers["queues"] if q["topic"] == "GoldenAuto")
        for time_ms, queue_offset in searched["offset_by_timestamp"].items():
            assert broker.search("GoldenAuto", 0, int(time_ms)) == queue_offset
    assert not (store / "abort").exists()
    assert status["brokerVersionDesc"] == "V4_9_7"
    assert offsets == (0, 1200)
    assert [message["keys"] for message in by_key] == ["k-1"]
    # It is not in the topics.json of 4.9.7, so a pull is refused.
    refused = {topic for topic, _ in pulled.refused}
    assert refused == {"RMQ_SYS_TRANS_OP_HALF_TOPIC"}
    served = sorted(below(pulled.messages, V49_CLEAN.max_physical_offset), key=order)
    assert served == readable(V49_CLEAN, DELETED_TOPIC, *refused)


def test_5_3_serves_its_own_store(official_53: Official, unpacked: Unpack) -> None:
    store = unpacked(V53_CLEAN)
    with official_53.serve(store, {**GOLDEN_CONFIG, **TIMER_CONFIG}) as broker:
        pulled = broker.pull_all()
        (unique,) = broker.query_unique("GoldenPlain", V53_UNIQUE_KEY)
        broker.kill()
    assert pulled.refused == {}
    served = sorted(below(pulled.messages, V53_CLEAN.max_physical_offset), key=order)
    expected = readable(V53_CLEAN, BATCH_TOPIC, DELETED_TOPIC)
    assert [message for message in served if message["topic"] != BATCH_TOPIC] == expected
    assert unique in expected


def test_a_killed_broker_leaves_its_abort_file(official_49: Official, unpacked: Unpack) -> None:
    store = unpacked(TINY)
    with official_49.serve(store, GOLDEN_CONFIG) as broker:
        broker.kill()
    assert (store / "abort").exists()


def test_topics_written_for_the_broker_are_served(official_49: Official, unpacked: Unpack) -> None:
    store = unpacked(TINY)
    (store / "config" / "topics.json").unlink()
    write_topics(store, {message["topic"]: 4 for message in TINY.messages()})
    with official_49.serve(store, GOLDEN_CONFIG) as broker:
        pulled = broker.pull_all()
        broker.kill()
    assert pulled.refused == {}
    assert sorted(below(pulled.messages, TINY.max_physical_offset), key=order) == readable(TINY)


@contextmanager
def lock_of_ours(store: Path) -> Iterator[None]:
    """Holds byte 0 of the store's lock file by an open-file-description lock (Linux)."""
    descriptor = os.open(store / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        # struct flock of 64-bit Linux: type, whence, start, length, pid.
        lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        fcntl.fcntl(descriptor, F_OFD_SETLK, lock)
        yield
    finally:
        os.close(descriptor)


def test_a_broker_refuses_a_store_whose_lock_is_held(official: Official, unpacked: Unpack) -> None:
    store = unpacked(TINY)
    with lock_of_ours(store):
        assert LOCK_REFUSAL in official.refusal(store, GOLDEN_CONFIG)


def test_the_official_lock_excludes_an_open_file_description_lock(
    official_49: Official, tmp_path: Path
) -> None:
    with official_49.lock_held(tmp_path), pytest.raises(BlockingIOError), lock_of_ours(tmp_path):
        pass
    with lock_of_ours(tmp_path), pytest.raises(OfficialError), official_49.lock_held(tmp_path):
        pass


def test_a_store_that_is_served_is_no_refusal(official_49: Official, unpacked: Unpack) -> None:
    with pytest.raises(OfficialError, match="serves"):
        official_49.refusal(unpacked(TINY), GOLDEN_CONFIG)


def test_missing_java_is_reported_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(JavaMissingError, match="apt install openjdk-17-jdk-headless maven"):
        install.need_java()
