"""A table and its file: what is written when, and what a torn file or a failing disk leave."""

import asyncio
import json
import threading
from pathlib import Path

import pytest

from loops import run_on, until
from mqcore.errors import BadJsonError, MQError, StateFileError, StoreError
from mqcore.state_files import PersistedTable, Snapshot, StateFile


class Disk(StateFile):
    """A file whose writes are counted, fail on demand, or wait until they may go on."""

    def __init__(self, path: Path, *, empty_is_absent: bool = True) -> None:
        super().__init__(path, empty_is_absent=empty_is_absent)
        self.writes: list[bytes] = []
        self.running = 0
        self.running_max = 0
        self.is_failing = False
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def save(self, content: bytes) -> None:
        self.running += 1
        self.running_max = max(self.running_max, self.running)
        self.may_go_on.wait()
        try:
            if self.is_failing:
                raise StoreError("the disk failed")
            super().save(content)
            self.writes.append(content)
        finally:
            self.running -= 1


class Numbers:
    """A table of numbers; `changes` is its version."""

    def __init__(self, path: Path, *, empty_is_absent: bool = True) -> None:
        self.values: list[int] = []
        self.changes = 0
        self.disk = Disk(path, empty_is_absent=empty_is_absent)
        self.file = PersistedTable(
            self.disk, load=self.load, snapshot=self.text, version=lambda: self.changes
        )

    def add(self, value: int) -> None:
        self.values.append(value)
        self.changes += 1

    def load(self, content: bytes) -> None:
        try:
            self.values = list(json.loads(content))
        except ValueError as error:
            raise BadJsonError(str(error)) from error

    def text(self) -> Snapshot:
        values = list(self.values)
        return lambda: json.dumps(values).encode()


def loaded(path: Path, *, empty_is_absent: bool = True) -> list[int]:
    """What the next start reads."""
    table = Numbers(path, empty_is_absent=empty_is_absent)
    table.file.load()
    return table.values


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "numbers.json"


def test_only_a_changed_table_is_written(path: Path) -> None:
    async def work() -> None:
        table = Numbers(path)
        table.add(1)
        await table.file.save_if_changed()
        await table.file.save_if_changed()
        assert table.disk.writes == [b"[1]"]
        table.add(2)
        await table.file.save_if_changed()
        assert table.disk.writes == [b"[1]", b"[1, 2]"]

    run_on("asyncio", work())
    assert loaded(path) == [1, 2]
    assert loaded(path.with_name("numbers.json.bak")) == [1]


def test_what_was_noted_as_saved_is_not_written_until_it_changes(path: Path) -> None:
    async def work() -> None:
        table = Numbers(path)
        table.file.note_saved()
        await table.file.save_if_changed()
        assert table.disk.writes == []
        await table.file.save()
        assert table.disk.writes == [b"[]"]
        table.add(3)
        await table.file.save_if_changed()
        assert table.disk.writes == [b"[]", b"[3]"]

    run_on("asyncio", work())


def test_a_table_that_was_never_written_is_written_once(path: Path) -> None:
    async def work() -> None:
        table = Numbers(path)
        for _ in range(2):
            await table.file.save_if_changed()
        assert table.disk.writes == [b"[]"]

    run_on("asyncio", work())


def test_who_asks_during_a_write_shares_the_next(path: Path) -> None:
    async def work() -> None:
        table = Numbers(path)
        table.disk.may_go_on.clear()
        table.add(1)
        first = asyncio.create_task(table.file.save())
        await until(lambda: table.disk.running == 1)
        later = []
        for value in range(2, 6):
            table.add(value)
            later.append(asyncio.create_task(table.file.save()))
        await asyncio.sleep(0)
        assert not first.done()
        table.disk.may_go_on.set()
        await asyncio.gather(first, *later)
        assert table.disk.writes == [b"[1]", b"[1, 2, 3, 4, 5]"]
        await table.file.save_if_changed()
        assert len(table.disk.writes) == 2

    run_on("asyncio", work())


def test_what_changes_during_a_write_is_written_next(path: Path) -> None:
    async def work() -> None:
        table = Numbers(path)
        table.disk.may_go_on.clear()
        table.add(1)
        saving = asyncio.create_task(table.file.save_if_changed())
        await until(lambda: table.disk.running == 1)
        table.add(2)
        table.disk.may_go_on.set()
        await saving
        assert table.disk.writes == [b"[1]"]
        await table.file.save_if_changed()
        assert table.disk.writes == [b"[1]", b"[1, 2]"]

    run_on("asyncio", work())


def test_a_cancelled_write_goes_on_and_the_next_waits_for_it(path: Path) -> None:
    async def work() -> None:
        table = Numbers(path)
        table.disk.may_go_on.clear()
        table.add(1)
        saving = asyncio.create_task(table.file.save_if_changed())
        await until(lambda: table.disk.running == 1)
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
        table.add(2)
        again = asyncio.create_task(table.file.save_if_changed())
        await asyncio.sleep(0)
        assert not again.done()
        table.disk.may_go_on.set()
        await again
        assert table.disk.writes == [b"[1]", b"[1, 2]"]
        assert table.disk.running_max == 1

    run_on("asyncio", work())


def test_a_failed_write_leaves_the_file_and_is_made_up_for(path: Path) -> None:
    async def work() -> None:
        table = Numbers(path)
        table.add(1)
        await table.file.save()
        table.disk.is_failing = True
        table.add(2)
        for save in (table.file.save, table.file.save_if_changed):
            with pytest.raises(StoreError, match="the disk failed"):
                await save()
            assert loaded(path) == [1]
        table.disk.is_failing = False
        await table.file.save_if_changed()
        assert loaded(path) == [1, 2]

    run_on("asyncio", work())


def test_a_directory_that_cannot_be_made_is_an_error(path: Path) -> None:
    path.parent.write_bytes(b"a file where a directory should be")

    async def work() -> None:
        table = Numbers(path)
        with pytest.raises(MQError):
            await table.file.save()

    run_on("asyncio", work())


def test_a_snapshot_may_wait_for_what_must_be_durable_first(path: Path) -> None:
    steps: list[str] = []

    async def snapshot() -> Snapshot:
        await asyncio.sleep(0)
        steps.append("log")
        return lambda: b"[7]"

    class Noted(StateFile):
        def save(self, content: bytes) -> None:
            steps.append("file")
            super().save(content)

    async def work() -> None:
        await PersistedTable(Noted(path), load=lambda _: None, snapshot=snapshot).save()

    run_on("asyncio", work())
    assert steps == ["log", "file"]
    assert loaded(path) == [7]


def test_a_failed_snapshot_writes_nothing(path: Path) -> None:
    async def snapshot() -> Snapshot:
        raise StoreError("the log cannot be flushed")

    async def work() -> None:
        disk = Disk(path)
        table = PersistedTable(
            disk, load=lambda _: None, snapshot=snapshot, version=lambda: len(disk.writes)
        )
        for _ in range(2):
            with pytest.raises(StoreError):
                await table.save_if_changed()
        assert disk.writes == []

    run_on("asyncio", work())


def test_a_table_without_a_version_is_not_compared(path: Path) -> None:
    table = PersistedTable(StateFile(path), load=lambda _: None, snapshot=lambda: lambda: b"")
    with pytest.raises(RuntimeError, match="no version"):
        run_on("asyncio", table.save_if_changed())


@pytest.mark.parametrize("torn", [b"[1, 2", b"\0\0\0\0", b"", b" \n"])
def test_a_torn_file_yields_to_the_generation_before(path: Path, torn: bytes) -> None:
    StateFile(path).save(b"[1]")
    StateFile(path).save(b"[1, 2]")
    path.write_bytes(torn)
    assert loaded(path) == [1]
    path.unlink()
    assert loaded(path) == [1]


def test_a_torn_file_alone_is_an_error_and_an_empty_one_where_it_is_torn(path: Path) -> None:
    assert loaded(path) == []
    path.parent.mkdir()
    path.write_bytes(b"")
    assert loaded(path) == []
    with pytest.raises(StateFileError, match="it is empty"):
        loaded(path, empty_is_absent=False)
    path.write_bytes(b"[1")
    with pytest.raises(StateFileError, match="missing or empty"):
        loaded(path)
    path.with_name("numbers.json.bak").write_bytes(b"[4]")
    assert loaded(path) == [4]
    path.with_name("numbers.json.bak").write_bytes(b"?")
    with pytest.raises(StateFileError) as caught:
        loaded(path)
    assert caught.value.path == str(path)
    assert "numbers.json.bak" in caught.value.message
