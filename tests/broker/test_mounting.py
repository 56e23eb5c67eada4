"""A store of somebody else, served for reading alone: everything is read, nothing is changed."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from golden_stores import GOLDEN_CONFIG, V49_CLEAN, V49_KILLED, V53_CLEAN, GoldenStore
from live_broker import SMALL, Live, live
from loops import run_on
from mqcore import ConsumeFrom, Message, Producer, PullConsumer, Store
from mqcore.broker.mounting import Mount
from mqcore.cli.main import commands
from mqcore.config import settings_of_pairs
from mqcore.errors import MountError, MQError
from mqcore.model.queues import MessageQueue
from mqcore.native import decode_records
from mqcore.remoting import AnsweredBy, RequestCode, ResponseCode, answered_by
from mqcore.testing import Broker
from small_store import SMALL as STORE_SMALL
from small_store import body_of, filled


def state_of(root: Path) -> dict[str, tuple[object, ...]]:
    """Returns what differs after any change in a directory."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [root, *sorted(root.rglob("*"))]:
        stat = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(root))] = (stat.st_mtime_ns, stat.st_ino, stat.st_size, content)
    return found


async def all_of(client: Live, topic: str, queue_id: int) -> list[tuple[int, bytes]]:
    """Returns offsets and bodies of a queue, by pulls."""
    found: list[tuple[int, bytes]] = []
    offset = 0
    while True:
        answer = await client.pull(topic, offset, queue_id=queue_id)
        if answer.code != ResponseCode.SUCCESS:
            if int(answer.ext["nextBeginOffset"]) == offset:
                return found
        else:
            found += [(each.queue_offset, each.body) for each in decode_records(answer.body)]
        offset = int(answer.ext["nextBeginOffset"])


@pytest.mark.parametrize("golden", [V49_CLEAN, V49_KILLED, V53_CLEAN], ids=lambda s: s.name)
def test_an_official_directory_is_read_and_not_touched(golden: GoldenStore, tmp_path: Path) -> None:
    root = golden.unpack(tmp_path / "archive")
    before = state_of(root)
    plain = [each for each in golden.messages() if each["topic"] == "GoldenPlain"]

    async def run() -> None:
        mounted = {"mountedStoreDir": str(root)} | GOLDEN_CONFIG
        async with live(tmp_path / "mount", **mounted) as client:
            table = (await client.json(RequestCode.GET_ALL_TOPIC_CONFIG))["topicConfigTable"]
            assert table["GoldenPlain"]["readQueueNums"] == 4
            for queue_id in range(4):
                wanted = [each for each in plain if each["queue_id"] == queue_id]
                found = await all_of(client, "GoldenPlain", queue_id)
                assert [offset for offset, _ in found] == [each["queue_offset"] for each in wanted]
            await client.settled()
            refused = await client.send("GoldenPlain", b"x")
            assert refused.code == ResponseCode.NO_PERMISSION
            assert str(root) in (refused.remark or "")

    run_on("uvloop", run())
    assert state_of(root) == before


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A store of ours with some thousand messages, in several files of log and queue."""
    root = tmp_path / "archive"
    with Store(root, config=STORE_SMALL) as store:
        filled(store, 3_000, queues=2)
    return root


def test_topics_are_found_by_queues_alone_and_keys_are_found(archive: Path, tmp_path: Path) -> None:
    assert not (archive / "config" / "topics.json").exists()
    before = state_of(archive)

    async def run() -> None:
        async with live(tmp_path / "mount", **pairs(archive)) as client:
            read = [await all_of(client, "topic", queue) for queue in range(2)]
            assert [len(each) for each in read] == [1_500, 1_500]
            assert read[1][0] == (0, body_of(1))
            asked = {"topic": "topic", "key": "k-2001", "maxNum": 8}
            span = {"beginTimestamp": 0, "endTimestamp": 2**63 - 1}
            found = await client.call(RequestCode.QUERY_MESSAGE, asked | span)
            assert [each.body for each in decode_records(found.body)] == [body_of(2_001)]

    run_on("uvloop", run())
    assert state_of(archive) == before


def test_what_would_change_it_is_refused(archive: Path, tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path / "mount", **pairs(archive)) as client:
            for code in answered_by(AnsweredBy.BROKER):
                answer = await client.call(code, {"topic": "T"})
                is_refused = "for reading alone" in (answer.remark or "")
                assert is_refused != code.row.on_mounted, code
                assert not is_refused or answer.code == ResponseCode.NO_PERMISSION, code
            half = await client.send("topic", b"x", TRAN_MSG=True)
            delayed = await client.send("topic", b"x", DELAY=1)
            assert {half.code, delayed.code} == {ResponseCode.NO_PERMISSION}
            # Below the fast path's answer is the store's.
            with pytest.raises(MQError, match="reading only"):
                client.broker.state.store.append("topic", b"x")

    run_on("uvloop", run())


# What the requests of the fast path name: none of them lacks a field.
_NATIVE_FIELDS = {
    **{"topic": "topic", "consumerGroup": "g", "group": "g", "producerGroup": "p"},
    **{"queueId": 0, "offset": 0, "queueOffset": 0, "commitOffset": 0, "timestamp": 0},
    **{"maxMsgNums": 32, "sysFlag": 4, "suspendTimeoutMillis": 0, "subscription": "*"},
    **{"subVersion": 0, "exp": "*", "expType": "TAG", "order": False, "bornTime": 0},
    **{"invisibleTime": 60_000, "pollTime": 0, "initMode": 0, "extraInfo": "0 1 60000 0 0 b 0 0"},
    **{"defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "bornTimestamp": 1, "flag": 0},
    **{"properties": "", "reconsumeTimes": 0, "delayLevel": 1, "recallHandle": "x"},
    **{"tranStateTableOffset": 0, "commitLogOffset": 0, "commitOrRollback": 8},
    **{"a": "p", "b": "topic", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": ""},
    **{"j": 0, "k": False, "m": False},
}
# Besides success: nothing to peek at, nothing that was acknowledged.
_NOTHING_FOUND = {ResponseCode.PULL_NOT_FOUND, ResponseCode.NO_MESSAGE}


def test_native_requests_are_executed_or_refused_as_the_table_has_it(
    archive: Path, tmp_path: Path
) -> None:
    async def run() -> None:
        async with live(tmp_path / "mount", **pairs(archive)) as client:
            store = client.broker.state.store
            before = store.stats().appended
            for code in sorted(answered_by(AnsweredBy.NATIVE)):
                is_batch = code == RequestCode.BATCH_ACK_MESSAGE
                body = b'{"acks":[]}' if is_batch else b"x"
                answer = await client.call(code, _NATIVE_FIELDS, body)
                is_executed = answer.code in {ResponseCode.SUCCESS, *_NOTHING_FOUND}
                assert is_executed == code.row.on_mounted, (code.name, answer.code, answer.remark)
            assert store.stats().appended == before

    run_on("uvloop", run())


def pairs(archive: Path) -> dict[str, str]:
    sizes = {key: str(value) for key, value in STORE_SMALL.items()}
    return sizes | {"mountedStoreDir": str(archive)}


def test_offsets_are_kept_beside_the_store(archive: Path, tmp_path: Path) -> None:
    before = state_of(archive)
    with Broker(settings=pairs(archive), directory=tmp_path / "mount") as broker:
        read = consumed(broker, 40)
        assert len(read) >= 40
    with Broker(settings=pairs(archive), directory=tmp_path / "mount") as broker:
        again = consumed(broker, 40)
    # What was committed does not come again; the rest does.
    assert not set(read) & set(again)
    assert state_of(archive) == before


def consumed(broker: Broker, count: int) -> list[tuple[MessageQueue, int]]:
    """Consumes some messages and commits them."""
    found: list[tuple[MessageQueue, int]] = []
    with PullConsumer(
        broker.namesrv, group="readers", topics="topic", consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        while len(found) < count:
            batch = consumer.poll(timeout_s=10)
            found += [(each.queue, each.queue_offset) for each in batch]
        consumer.commit()
    return found


def test_a_producer_is_refused_with_the_reason(archive: Path, tmp_path: Path) -> None:
    with (
        Broker(settings=pairs(archive), directory=tmp_path / "mount") as broker,
        Producer(broker.namesrv, group="p") as producer,
        pytest.raises(MQError),
    ):
        producer.send(Message("topic", b"x"), timeout_s=3)


def refusals(archive: Path, tmp_path: Path) -> list[tuple[str, Callable[[], Mount]]]:
    busy = tmp_path / "busy"
    busy.mkdir()
    (busy / "commitlog").mkdir()
    return [
        ("no store", lambda: Mount(tmp_path / "busy" / "none", tmp_path / "m1")),
        ("in the store itself", lambda: Mount(archive, archive / "mount")),
        ("in the store itself", lambda: Mount(archive, archive)),
        ("not empty", lambda: Mount(archive, busy)),
    ]


def test_an_unusable_directory_is_refused(archive: Path, tmp_path: Path) -> None:
    for why, mount in refusals(archive, tmp_path):
        with pytest.raises(MountError, match=why):
            mount()
    assert not (archive / "mount").exists()


def test_one_directory_is_for_one_mount(archive: Path, tmp_path: Path) -> None:
    with Mount(archive, tmp_path / "mount"), pytest.raises(MountError, match="is served"):
        Mount(archive, tmp_path / "mount")
    # Given back, it is made anew: what an earlier mount left behind is gone.
    (tmp_path / "mount" / "commitlog" / "stray").write_text("x")
    (tmp_path / "mount" / "config" / "consumerOffset.json").write_text("{}")
    with Mount(archive, tmp_path / "mount"):
        assert not (tmp_path / "mount" / "commitlog" / "stray").exists()
        assert (tmp_path / "mount" / "config" / "consumerOffset.json").read_text() == "{}"


def test_the_last_files_are_copies_and_the_others_links(archive: Path, tmp_path: Path) -> None:
    with Mount(archive, tmp_path / "mount"):
        logs = sorted((tmp_path / "mount" / "commitlog").iterdir())
        assert len(logs) > 1
        assert all(file.is_symlink() for file in logs)
        (queue,) = (tmp_path / "mount" / "consumequeue").glob("*/0")
        *sealed, last = sorted(queue.iterdir())
        assert sealed
        assert all(file.is_symlink() for file in sealed)
        assert not last.is_symlink()
        original = archive / last.relative_to(tmp_path / "mount")
        assert last.read_bytes() == original.read_bytes()


def test_the_settings_of_a_mount_are_printed(archive: Path, tmp_path: Path) -> None:
    settings = settings_of_pairs(
        SMALL | pairs(archive) | {"storePathRootDir": str(tmp_path / "mount")}
    )
    assert settings.mounted_dir == str(archive)
    printed = CliRunner().invoke(
        commands, ["broker", "--mount", str(archive), "--data", str(tmp_path / "m"), "-p"]
    )
    assert printed.exit_code == 0, printed.output
    row = next(line for line in printed.stdout.splitlines() if line.startswith("mountedStoreDir"))
    assert str(archive) in row
    # Nothing is appended to it: its files need not hold the longest message by default.
    row = next(line for line in printed.stdout.splitlines() if line.startswith("maxMessageSize"))
    assert row.split()[1] == "983032"
    assert row.endswith("files of the store")
