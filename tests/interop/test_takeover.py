"""Stores of ours opened by the official brokers, theirs opened by ours, in turns, also after kills.

The brokers get copies or the directory itself, one after another; never two at once, but where a
test is about the lock.
"""

import hashlib
import json
import random
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from golden_stores import GOLDEN_CONFIG, V49_KILLED, GoldenStore
from interop import writer
from interop.official import NEWEST, Broker, Official, RefusedError, below, write_topics
from interop.workload import (
    TOPICS,
    Draft,
    Line,
    Queue,
    assert_same,
    by_queue,
    draft,
    fill,
    line_of,
    lines_of,
)
from mqcore import Inspection, Store
from mqcore.native.errors import StoreLockedError

pytestmark = pytest.mark.java

Unpack = Callable[[GoldenStore], Path]

MODES = {
    "async": {},
    "sync": {"flushDiskType": "SYNC_FLUSH"},
    "pool": {"transientStorePoolEnable": "true", "transientStorePoolSize": "3"},
}
COUNT = 2_600
LOCK_REFUSAL = "Lock failed,MQ already started"
# More than the log's rest of a file: appends of so many bytes roll over.
ROLL_BYTES = 3 << 20
QUEUE_FILE_UNITS = int(GOLDEN_CONFIG["mappedFileSizeConsumeQueue"]) // 20
DELAYED_TOPIC = "GoldenDelay"


@pytest.fixture
def officials(
    official_49: Official, official_53: Official, official_55: Official
) -> dict[str, Official]:
    """Returns the releases by version."""
    return {release.version: release for release in (official_49, official_53, official_55)}


def open_ours(root: Path, mode: str = "async") -> Store:
    """Opens a store with the sizes of the golden ones."""
    return Store(root, config={**GOLDEN_CONFIG, **MODES[mode]})


def log_bytes(root: Path, end: int) -> bytes:
    """Returns the log below `end`."""
    files = sorted((root / "commitlog").iterdir())
    return b"".join(file.read_bytes() for file in files)[:end]


def assert_sound(root: Path) -> None:
    """Asserts that log, queues and index of a closed store agree."""
    verification = Inspection(root).verify()
    assert verification.problems == []


def log_end(broker: Broker) -> int:
    """Returns the end of the log as the broker reports it."""
    return int(broker.status()["commitLogMaxOffset"])


def assert_serves(broker: Broker, lines: list[Line]) -> None:
    """Asserts that a broker serves these messages, all of them and none besides, in our topics."""
    end = max(line["physical_offset"] + line["store_size"] for line in lines)
    pulled = broker.pull_all()
    topics = {line["topic"] for line in lines}
    assert not [queue for queue in pulled.refused if queue[0] in topics]
    assert_same((m for m in below(pulled.messages, end) if m["topic"] in topics), lines)
    for (topic, queue_id), there in by_queue(lines).items():
        assert broker.offsets(topic, queue_id) == (0, len(there))
    assert log_end(broker) >= end


def assert_finds(broker: Broker, lines: list[Line]) -> None:
    """Asserts that queries by key and unique key, and searches by time, find what they should."""
    for line in lines[:: len(lines) // 20]:
        keys = (line["keys"] or "").split()
        for key in keys:
            found = {message["physical_offset"] for message in broker.query(line["topic"], key)}
            expected = {
                there["physical_offset"]
                for there in lines
                if there["topic"] == line["topic"] and key in (there["keys"] or "").split()
            }
            # A broker answers with 64 at most, the newest.
            assert found <= expected, key
            assert len(found) == min(len(expected), 64), key
        unique = line["properties"].get("UNIQ_KEY")
        if unique is not None:
            offsets = [m["physical_offset"] for m in broker.query_unique(line["topic"], unique)]
            assert offsets == [line["physical_offset"]]
    for (topic, queue_id), there in by_queue(lines).items():
        for line in (there[0], there[len(there) // 2], there[-1]):
            at = broker.search(topic, queue_id, line["store_timestamp"])
            found_ms, wanted_ms = there[at]["store_timestamp"], line["store_timestamp"]
            # 4.9.7 picks the file by its time of change (MappedFileQueue.getMappedFileByTime),
            # that of its last write and not of its last message: it may stop one file early.
            is_exact = broker.official.version != "4.9.7" or line["queue_offset"] < QUEUE_FILE_UNITS
            assert found_ms == wanted_ms if is_exact else found_ms <= wanted_ms, (topic, queue_id)


def send_some(broker: Broker, queues: Iterable[Queue]) -> list[Line]:
    """Lets the broker append to each queue; returns what is known of each message."""
    sent = []
    for number, (topic, queue_id) in enumerate(queues):
        body = f"official {number}".encode()
        properties = {"UNIQ_KEY": f"F{number:015X}", "KEYS": f"sent-{number}", "TAGS": "标签"}
        answer = broker.send(topic, queue_id, body, properties)
        sha256 = hashlib.sha256(body).hexdigest()
        sent_to = {"topic": topic, "queue_id": queue_id, "body_sha256": sha256}
        sent.append({**sent_to, **answer, "properties": properties})
    return sent


def assert_has(lines: list[Line], sent: list[Line]) -> None:
    """Asserts that every message that a broker acknowledged is at the offset of its answer."""
    there = {(line["topic"], line["queue_id"], line["queue_offset"]): line for line in lines}
    for line in sent:
        found = there[(line["topic"], line["queue_id"], line["queue_offset"])]
        assert found["msg_id"] == line["msg_id"]
        assert found["body_sha256"] == line["body_sha256"]
        assert line["properties"].items() <= found["properties"].items()


@pytest.mark.sampled(count=1)
@pytest.mark.parametrize(
    ("mode", "versions"),
    [
        ("async", ("4.9.7", "5.3.3")),
        ("sync", ("5.3.3", "4.9.7")),
        ("pool", ("4.9.7",)),
    ],
)
def test_a_store_that_was_closed_goes_from_broker_to_broker(
    mode: str, versions: tuple[str, ...], officials: dict[str, Official], tmp_path: Path
) -> None:
    root = tmp_path / "store"
    with open_ours(root, mode) as store:
        lines = fill(store, random.Random(mode), COUNT)
        end = store.stats().appended
        assert store.close()
    assert_sound(root)
    assert len(list((root / "commitlog").iterdir())) >= 4
    assert len(list((root / "index").iterdir())) >= 2
    assert len(list((root / "consumequeue" / "Plain" / "0").iterdir())) >= 2
    write_topics(root, TOPICS)
    content = log_bytes(root, end)
    untouched = tmp_path / "copy"
    shutil.copytree(root, untouched)

    first, *others = (officials[version] for version in versions)
    with first.serve(root, GOLDEN_CONFIG) as broker:
        assert_serves(broker, lines)
        assert_finds(broker, lines)
        sent = send_some(broker, by_queue(lines))
    assert log_bytes(root, end) == content
    with open_ours(root, mode) as store:
        assert store.open_report().was_clean
        ours = lines_of(store)
        assert_has(ours, sent)
        old = [line for line in ours if line["physical_offset"] < end]
        assert_same(old, lines)
        found = store.query(sent[0]["topic"], "sent-0")
        assert [message.message_id for message in found] == [sent[0]["msg_id"]]
        more = range(2 * COUNT, 2 * COUNT + 50)
        ours += [draft(random.Random(number), number).put(store) for number in more]
        assert store.close()
    assert_sound(root)
    for official in others:
        with official.serve(root, GOLDEN_CONFIG) as broker:
            assert_serves(broker, ours)
            assert_finds(broker, ours)
            broker.kill()
        with official.serve(untouched, GOLDEN_CONFIG) as broker:
            assert_serves(broker, lines)
            assert_finds(broker, lines)
            broker.kill()
        assert log_bytes(untouched, end) == content


def killed_writer(root: Path, acks: Path, seed: int, mode: str) -> list[Line]:
    """Kills an appending process at a moment that the seed determines; returns the acknowledged."""
    settings = [f"{key}={value}" for key, value in {**GOLDEN_CONFIG, **MODES[mode]}.items()]
    command = [sys.executable, writer.__file__, str(root), str(acks), str(seed), *settings]
    with subprocess.Popen(command) as process:
        while not acks.exists() and process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.001)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(random.Random(seed).uniform(0.05, 0.4))
        process.kill()
    whole = acks.read_bytes().split(b"\n")[:-1]
    assert len(whole) > 10
    return [json.loads(line) for line in whole]


@pytest.mark.sampled(count=1)
@pytest.mark.parametrize("mode", MODES)
def test_a_killed_writer_leaves_all_that_it_acknowledged(
    mode: str, officials: dict[str, Official], tmp_path: Path
) -> None:
    root = tmp_path / "store"
    acknowledged = killed_writer(root, tmp_path / "acks", 1, mode)
    assert (root / "abort").exists()
    write_topics(root, TOPICS)
    served: dict[str, list[Line]] = {}
    for version, official in officials.items():
        copy = tmp_path / version
        shutil.copytree(root, copy)
        with official.serve(copy, GOLDEN_CONFIG) as broker:
            pulled = broker.pull_all()
            broker.kill()
        served[version] = [m for m in pulled.messages if m["topic"] in TOPICS]
        for queue, there in by_queue(served[version]).items():
            assert [line["queue_offset"] for line in there] == list(range(len(there))), queue
        # One append may have been stored and not acknowledged.
        offsets = {line["physical_offset"] for line in acknowledged}
        served_acked = [line for line in served[version] if line["physical_offset"] in offsets]
        assert_same(served_acked, acknowledged)
        assert len(served[version]) - len(served_acked) <= 1
    with open_ours(root, mode) as store:
        assert not store.open_report().was_clean
        ours = lines_of(store)
        assert store.close()
    for lines in served.values():
        assert_same(ours, lines)
    assert_sound(root)


@pytest.mark.sampled
@pytest.mark.parametrize("version", ["4.9.7", "5.3.3", NEWEST])
def test_a_killed_official_broker_leaves_us_all_that_it_acknowledged(
    version: str, officials: dict[str, Official], tmp_path: Path
) -> None:
    root = tmp_path / "store"
    with open_ours(root) as store:
        lines = fill(store, random.Random(version), 500)
        assert store.close()
    write_topics(root, TOPICS)
    queues = [("Plain", 0), ("Keys", 3), ("New", 1)]
    sent: list[Line] = []
    refusals = []

    def send_until_refused(broker: Broker) -> None:
        try:
            while True:
                sent.extend(send_some(broker, queues))
        except RefusedError as error:
            refusals.append(str(error))

    with officials[version].serve(root, GOLDEN_CONFIG) as broker:
        # The asking process needs its time to start.
        sent.extend(send_some(broker, queues))
        sender = threading.Thread(target=send_until_refused, args=(broker,))
        sender.start()
        sender.join(random.Random(version).uniform(0.5, 1.5))
        broker.kill()
        sender.join()
    assert len(sent) > 10, refusals
    with open_ours(root) as store:
        assert not store.open_report().was_clean
        ours = lines_of(store, [*TOPICS, "New"])
        assert_has(ours, sent)
        there = {line["physical_offset"] for line in lines}
        assert_same((line for line in ours if line["physical_offset"] in there), lines)
        assert store.close()
    assert_sound(root)


def test_5_3_serves_records_of_the_second_version(official_53: Official, tmp_path: Path) -> None:
    long_topic = "%RETRY%CG_" + "long_" * 28
    assert len(long_topic) > 127
    rng = random.Random(2)
    root = tmp_path / "store"
    with open_ours(root) as store:
        lines = []
        for number in range(200):
            for topic in (long_topic, "Plain"):
                text = f"{number}".encode() * rng.randrange(100)
                one = Draft(topic, 0, text, tags="标签", keys=f"k-{number}")
                lines.append(one.put(store))
        assert store.message_at(lines[0]["physical_offset"]).magic & 0xFFFFFFFF == 0xDAA320AB
        assert store.close()
    write_topics(root, {long_topic: 1, "Plain": 1})
    with official_53.serve(root, GOLDEN_CONFIG) as broker:
        assert_serves(broker, lines)
        assert_finds(broker, lines)
        broker.kill()
    # And back, after that kill.
    with open_ours(root) as store:
        assert_same(lines_of(store, [long_topic, "Plain"]), lines)
        assert store.close()


def test_what_we_recovered_is_what_the_official_broker_recovers(
    official_49: Official, unpacked: Unpack
) -> None:
    root = unpacked(V49_KILLED)
    with open_ours(root) as store:
        end = store.open_report().end
        assert end == V49_KILLED.max_physical_offset
        assert store.close()
    answers = V49_KILLED.answers("after-official-recovery")
    with official_49.serve(root, GOLDEN_CONFIG) as broker:
        pulled = broker.pull_all()
        recovered = below(pulled.messages, end)
        counts = Counter((message["topic"], message["queue_id"]) for message in recovered)
        for queue in answers["queues"]:
            name = queue["topic"], queue["queue_id"]
            least, greatest = queue["min_offset"], queue["max_offset"]
            if name not in pulled.refused:
                assert counts[name] == greatest - least, name
            # The broker goes on delivering what was delayed.
            if queue["topic"] != DELAYED_TOPIC:
                assert broker.offsets(*name) == (least, greatest), name
        for query in answers["query_by_key"]:
            found = [
                f"{message['msg_id']} {message['uniq_key']}"
                for message in below(broker.query(query["topic"], query["key"]), end)
            ]
            answer = query["offset_msg_ids_and_uniq_keys"]
            # A text: the reason why nothing was found.
            assert sorted(found) == ([] if isinstance(answer, str) else sorted(answer))
        broker.kill()


def snapshot(root: Path) -> dict[str, tuple[int, int, str]]:
    """Returns size, time of change and hash of every file below `root`."""
    return {
        str(path.relative_to(root)): (
            path.stat().st_size,
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_a_store_that_the_official_lock_holds_is_refused_unchanged(
    official_49: Official, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    with open_ours(root) as store:
        fill(store, random.Random(3), 100)
        assert store.close()
    with official_49.lock_held(root):
        before = snapshot(root)
        with pytest.raises(StoreLockedError):
            open_ours(root)
        assert snapshot(root) == before
    open_ours(root).close()


def test_a_store_that_an_official_broker_serves_is_refused(
    official: Official, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    with open_ours(root) as store:
        lines = fill(store, random.Random(4), 100)
        assert store.close()
    write_topics(root, TOPICS)
    with official.serve(root, GOLDEN_CONFIG) as broker:
        with pytest.raises(StoreLockedError):
            open_ours(root)
        assert_serves(broker, lines)
        broker.kill()


def test_an_official_broker_that_we_refuse_costs_us_nothing(
    official: Official, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    rng = random.Random(5)
    with open_ours(root) as store:
        lines = fill(store, rng, 300)
        write_topics(root, TOPICS)
        assert LOCK_REFUSAL in official.refusal(root, GOLDEN_CONFIG)
        # It has removed what was made ahead, and index files: appends roll over all the same.
        goal = store.stats().appended + ROLL_BYTES
        number = 300
        while store.stats().appended < goal:
            body = rng.randbytes(4000)
            one = Draft("Plain", 1, body, keys=f"key-{number}")
            lines.append(one.put(store))
            number += 1
        store.wait_dispatched(store.stats().appended)
        store.close()
    with open_ours(root) as store:
        assert_same(lines_of(store), lines)
        for line in lines[::7]:
            for key in (line["keys"] or "").split():
                found = [line_of(message) for message in store.query(line["topic"], key)]
                assert line["physical_offset"] in [there["physical_offset"] for there in found]
        assert store.close()
    assert_sound(root)
    with official.serve(root, GOLDEN_CONFIG) as broker:
        assert_serves(broker, lines)
        broker.kill()
