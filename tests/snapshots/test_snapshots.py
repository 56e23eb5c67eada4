"""Snapshots of stores: taken from stopped and running ones, restored whole or not at all."""

import asyncio
import contextlib
import errno
import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from broker.test_controlled import members
from live_broker import SMALL as BROKER
from live_broker import live
from loops import run_on
from mqcore import Inspection, Store
from mqcore.cli.main import commands
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import OwnRequestCode, expect
from mqcore.snapshots import Pool, Source, StoppedStore, restore, take
from mqcore.snapshots.errors import SnapshotError
from mqcore.snapshots.taking import STAGE
from mqcore.snapshots.units import cut_units
from mqcore.spark import sink_files
from small_store import SMALL, body_of, filled

SIZES = {name: SMALL[name] for name in ("maxHashSlotNum", "maxIndexNum")}
FILES = 4


@pytest.fixture
def store_dir(tmp_path: Path) -> Path:
    """A stopped store with some whole files."""
    directory = tmp_path / "store"
    with Store(directory, config=SMALL) as store:
        filled(store, 3_400, queues=3)
    (directory / "config").mkdir()
    (directory / "config" / "topics.json").write_text("{}")
    return directory


def taken(directory: Path, pool: Pool, **options: Any) -> Any:
    source = Source.of(directory)
    with StoppedStore(source) as point:
        assert point is not None
        return take(source, pool, lambda: point, **options)


def bodies(directory: Path) -> dict[tuple[str, int, int], bytes]:
    """Returns every message of a store that is opened for it."""
    with Store(directory, config=SMALL) as store:
        return {
            (each.topic, each.queue_id, each.queue_offset): bytes(each.body)
            for batch in store.scan()
            for each in batch
        }


def problems(directory: Path) -> list[str]:
    found = Inspection(directory, config=SIZES).verify()
    return [f"{each.part} {each.at}: {each.why}" for each in found.problems]


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(commands, ["store", *map(str, words)])
    return done.exit_code, f"{done.output}{done.exception or ''}"


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def test_a_stopped_store_comes_back_as_it_was(store_dir: Path, tmp_path: Path) -> None:
    pool = Pool.at(str(tmp_path / "backup"))
    done = taken(store_dir, pool)
    assert done.linked_files == FILES - 1
    assert done.manifest.is_clean
    again = restore(pool, None, tmp_path / "again")
    assert again.kept_files == 0
    assert problems(tmp_path / "again") == []
    with Store(tmp_path / "again", config=SMALL) as store:
        assert store.open_report().was_clean
        assert store.stats().appended == done.manifest.log_end
    assert bodies(tmp_path / "again") == bodies(store_dir)
    assert not (store_dir / STAGE).exists()


def test_a_second_snapshot_copies_what_is_new_alone(store_dir: Path, tmp_path: Path) -> None:
    pool = Pool.at(str(tmp_path / "backup"))
    first = taken(store_dir, pool)
    with Store(store_dir, config=SMALL) as store:
        filled(store, 10, topic="later")
    second = taken(store_dir, pool)
    assert second.linked_files == 0
    assert second.known_bytes > first.linked_bytes
    assert second.copied_bytes < 2 << 20
    for name, count in ((first.manifest.name, 3_400), (second.manifest.name, 3_410)):
        restore(pool, name, tmp_path / name)
        assert problems(tmp_path / name) == []
        assert len(bodies(tmp_path / name)) == count
    removed = pool.keep(1)
    assert (removed.snapshots, removed.files > 0) == (1, True)
    restore(pool, None, tmp_path / "after")
    assert len(bodies(tmp_path / "after")) == 3_410


def test_files_that_grow_are_not_shared_with_the_store(store_dir: Path, tmp_path: Path) -> None:
    pool = Pool.at(str(tmp_path / "backup"))
    before = taken(store_dir, pool)
    kept = bodies(store_dir)
    with Store(store_dir, config=SMALL) as store:
        filled(store, 3_400, topic="later")
        store.remove_oldest(max_files=3)
    restore(pool, before.manifest.name, tmp_path / "again")
    assert bodies(tmp_path / "again") == kept


def test_what_retention_removes_meanwhile_is_in_the_snapshot(tmp_path: Path) -> None:
    pool = Pool.at("memory://retention")
    with Store(tmp_path / "store", config=SMALL) as store:
        filled(store, 3_400)
        source = Source.of(tmp_path / "store")

        def remove(_done: int, _total: int) -> None:
            store.remove_oldest(max_files=10)

        def point() -> Any:
            with StoppedStore(source) as stopped:
                assert stopped is None, "the store is open"
            from mqcore.snapshots import Point

            return Point(store.flush(), 1 << 20, "b")

        done = take(source, pool, point, report=remove)
        assert store.stats().log_start > 0
        assert done.manifest.log_start == 0
    restore(pool, None, tmp_path / "again")
    assert problems(tmp_path / "again") == []
    assert len(bodies(tmp_path / "again")) == 3_400
    assert not (tmp_path / "store" / STAGE).exists()


def test_a_running_broker_is_asked_and_goes_on(tmp_path: Path) -> None:
    acknowledged = 0

    async def go() -> tuple[int, str]:
        nonlocal acknowledged
        async with live(tmp_path / "store") as broker:
            await broker.create("T", 2)
            for number in range(1_500):
                expect(await broker.send("T", body_of(number), number % 2), broker.address)
            await broker.call(
                15, {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 700}
            )
            known = acknowledged = 1_500
            is_over = asyncio.Event()

            async def load() -> None:
                nonlocal acknowledged
                while not is_over.is_set():
                    expect(await broker.send("T", body_of(acknowledged), acknowledged % 2), "")
                    acknowledged += 1

            sending = asyncio.ensure_future(load())
            words = (
                "snapshot",
                tmp_path / "store",
                tmp_path / "backup",
                "--broker",
                broker.address,
            )
            found = await asyncio.to_thread(run, *words, "--json")
            is_over.set()
            await sending
            assert acknowledged > known
            other = (*words[:2], tmp_path / "other", "--broker", "127.0.0.1:1")
            code, text = await asyncio.to_thread(run, *other)
            assert (code, "--broker names its address" in text) == (1, True), text
            return found

    code, text = run_on("asyncio", go())
    assert code == 0, text
    shown = json.loads(text)
    assert shown["broker"] == "b"
    assert run("restore", "--list", tmp_path / "backup")[1].split() == [shown["name"]]
    code, text = run("restore", tmp_path / "backup", tmp_path / "again")
    assert code == 0, text
    # As a kill leaves it: an open recovers it first.
    assert (tmp_path / "again" / "abort").exists()
    with Store(tmp_path / "again", config=BROKER) as store:
        assert store.stats().appended == shown["log_end"]
    assert problems(tmp_path / "again") == []
    stored = [key for key in bodies(tmp_path / "again") if key[0] == "T"]
    assert len(stored) >= 1_500
    offsets = parse_object((tmp_path / "again" / "config" / "consumerOffset.json").read_bytes())
    assert offsets["offsetTable"]["T@g"]["0"] == 700


def test_a_broker_of_another_directory_is_refused(tmp_path: Path) -> None:
    async def go() -> None:
        async with live(tmp_path / "one") as one, live(tmp_path / "two") as two:
            # It has a log from its first message on.
            await two.create("T")
            expect(await two.send("T", b"x"), two.address)
            words = ("snapshot", tmp_path / "two", tmp_path / "backup", "--broker", one.address)
            code, text = await asyncio.to_thread(run, *words)
            assert (code, "not on" in text) == (1, True), text
            answer = await one.call(OwnRequestCode.SNAPSHOT, {"action": "other"})
            assert answer.code != 0

    run_on("asyncio", go())


def test_an_interrupted_snapshot_is_none_and_the_next_one_is_good(
    store_dir: Path, tmp_path: Path
) -> None:
    pool = Pool.at("memory://interrupted")
    calls = 0

    def count(_done: int, _total: int) -> None:
        nonlocal calls
        calls += 1

    taken(store_dir, pool, report=count)
    pool.keep(1)
    for last in range(1, calls, 3):
        left = last

        def stop(_done: int, _total: int) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

        other = Pool.at(f"memory://interrupted-{last}")
        with pytest.raises(KeyboardInterrupt):
            taken(store_dir, other, report=stop)
        assert other.names() == []
        with pytest.raises(SnapshotError, match="there is no snapshot"):
            other.manifest()
    restore(Pool.at("memory://interrupted"), None, tmp_path / "again")
    assert bodies(tmp_path / "again") == bodies(store_dir)


def test_a_full_disk_is_refused_before_and_in_the_middle(
    store_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Pool.at(str(tmp_path / "backup"))
    with monkeypatch.context() as patch:
        patch.setattr(Pool, "free_bytes", lambda _: 1_000)
        with pytest.raises(SnapshotError, match="nothing was written"):
            taken(store_dir, pool)
    assert not (tmp_path / "backup" / "files").exists()
    put: Callable[..., None] = Pool.put
    with monkeypatch.context() as patch:
        written = 0

        def full(self: Pool, name: str, pieces: Any) -> None:
            nonlocal written
            written += 1
            if written == 4:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
            put(self, name, pieces)

        patch.setattr(Pool, "put", full)
        with pytest.raises(SnapshotError, match="No space left"):
            taken(store_dir, pool)
    files = [each for each in (tmp_path / "backup" / "files").rglob("*") if each.is_file()]
    assert (files, pool.names()) == ([], [])
    taken(store_dir, pool)
    restore(pool, None, tmp_path / "again")
    assert bodies(tmp_path / "again") == bodies(store_dir)


@contextlib.contextmanager
def changed(file: Path) -> Iterator[None]:
    """Changes one byte of a file for the time of the block."""
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    yield
    file.write_bytes(content)


def test_a_restore_refuses_other_bytes_and_goes_on_later(store_dir: Path, tmp_path: Path) -> None:
    pool = Pool.at(str(tmp_path / "backup"))
    manifest = taken(store_dir, pool).manifest
    row = next(each for each in manifest.files if each.path.startswith("consumequeue/topic/2"))
    again = tmp_path / "again"
    with changed(Path(pool.file(row.name))):
        with pytest.raises(SnapshotError, match="is not what it was"):
            restore(pool, None, again)
        assert names(again) == {"mqcore.restoring"}
        Path(pool.file(row.name)).rename(tmp_path / "aside")
        with pytest.raises(SnapshotError, match="is gone"):
            restore(pool, None, again)
        (tmp_path / "aside").rename(pool.file(row.name))
    done = restore(pool, None, again)
    assert done.kept_files > 0
    assert bodies(again) == bodies(store_dir)
    with pytest.raises(SnapshotError, match="is not empty"):
        restore(pool, None, again)
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine").touch()
    with pytest.raises(SnapshotError, match=r"is not empty \(mine\)"):
        restore(pool, None, tmp_path / "used")


def test_without_hashes_links_are_not_read(store_dir: Path, tmp_path: Path) -> None:
    pool = Pool.at(str(tmp_path / "backup"))
    done = taken(store_dir, pool, hashes_links=False)
    unhashed = [row for row in done.manifest.files if not row.sha256]
    assert len(unhashed) == done.linked_files == FILES - 1
    assert restore(pool, None, tmp_path / "again").unhashed_files == FILES - 1
    assert bodies(tmp_path / "again") == bodies(store_dir)
    second = taken(store_dir, pool, hashes_links=False)
    assert (second.linked_files, second.copied_files) == (0, 0)


def test_what_is_copied_is_synced_bit_by_bit(
    store_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A broker's sends wait for one large sync: no file has more unsynced than this.
    monkeypatch.setattr(sink_files, "SETTLED_BYTES", 65_536)
    synced: list[int] = []
    fdatasync = os.fdatasync

    def counted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        fdatasync(descriptor)

    monkeypatch.setattr(os, "fdatasync", counted)
    done = taken(store_dir, Pool.at(str(tmp_path / "backup")), hashes_links=False)
    assert done.linked_files == FILES - 1
    last = max(row.stored_bytes for row in done.manifest.files if row.sha256)
    assert last > 65_536
    assert set(range(65_536, last, 65_536)) <= set(synced)


def test_a_manifest_leads_nowhere_else(store_dir: Path, tmp_path: Path) -> None:
    pool = Pool.at(str(tmp_path / "backup"))
    name = taken(store_dir, pool).manifest.name
    file = tmp_path / "backup" / "snapshots" / f"{name}.json"
    text = file.read_text()
    for bad in (text.replace('"checkpoint"', '"../checkpoint"'), "{}", "[1]", '{"format": 2}'):
        file.write_text(bad)
        with pytest.raises(SnapshotError):
            restore(pool, None, tmp_path / "again")
    assert not (tmp_path / "checkpoint").exists()


def test_a_killed_broker_s_store_is_taken_as_it_lies(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", config=SMALL)
    filled(store, 1_200)
    store.abandon()
    pool = Pool.at(str(tmp_path / "backup"))
    assert not taken(tmp_path / "store", pool).manifest.is_clean
    restore(pool, None, tmp_path / "again")
    assert len(bodies(tmp_path / "again")) == 1_200
    assert problems(tmp_path / "again") == []


def test_a_member_s_snapshot_ends_at_the_confirm_offset(tmp_path: Path) -> None:
    async def go() -> tuple[int, int]:
        async with members(tmp_path) as them:
            await them.begin_pair()
            await them.send(1, 50)
            await them.until_in_sync(1, 2)
            await them.send(1, 50, 50)
            master = them.live(1)
            words = ("snapshot", tmp_path / "store1", tmp_path / "backup", "--json")
            code, text = await asyncio.to_thread(run, *words, "--broker", master.address)
            assert code == 0, text
            epochs = master.broker.state.replicas.epochs
            assert epochs is not None
            return json.loads(text)["log_end"], epochs.positions().confirmed

    end, confirmed = run_on("asyncio", go())
    assert 0 < end <= confirmed
    restore(Pool.at(str(tmp_path / "backup")), None, tmp_path / "again")
    assert (tmp_path / "again" / "epochFileCheckpoint").exists()
    # The set at the controller may count on the log that is elsewhere.
    assert not (tmp_path / "again" / "brokerIdentity").exists()
    assert len([key for key in bodies(tmp_path / "again") if key[0] == "T"]) == 100


@given(st.lists(st.integers(1, 1_000), min_size=1, max_size=40), st.integers(0, 40_000))
def test_units_behind_the_end_are_cut(lens: list[int], end: int) -> None:
    at, units, kept = 0, b"", 0
    for length in lens:
        units += struct.pack(">qiq", at, length, 0)
        kept += at < end
        at += length
    assert cut_units(units.rstrip(b"\0"), 20, end) == units[: kept * 20]
