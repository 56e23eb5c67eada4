"""Records as columns through the door: bytes in, arrays out, the GIL, errors with their facts."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mqcore import Store
from mqcore.native import gil_counts
from mqcore.native.columns import ColumnBatch, RecordColumns, Span, queue_units
from mqcore.native.errors import NoRecordError
from mqcore.spark.schema import READ_COLUMNS
from small_store import SMALL, body_of, filled


@pytest.fixture
def log(tmp_path: Path) -> bytes:
    """Returns the bytes of a log of 300 messages."""
    with Store(tmp_path, config=SMALL) as store:
        end = filled(store, 300)[-1].end
    return (tmp_path / "commitlog" / f"{0:020}").read_bytes()[:end]


def values(batch: ColumnBatch, index: int) -> list[Any]:
    found: list[Any] = pa.record_batch(batch).column(index).to_pylist()
    return found


def test_arrays_outlive_everything_else_and_are_not_copied(log: bytes) -> None:
    reading = RecordColumns(["queueOffset", "body", "tags"], batch_rows=200)
    first, *_rest = reading.feed(log, 0)
    (second,) = reading.finish()
    del reading
    assert (len(first), first.rows, len(second)) == (200, 200, 100)
    assert values(second, 0) == list(range(200, 300))
    taken, again = pa.record_batch(first), pa.record_batch(first)
    del first
    assert taken.schema.names == ["queueOffset", "body", "tags"]
    assert taken.column(0).buffers()[1].address == again.column(0).buffers()[1].address
    del again
    taken.validate(full=True)
    assert taken.column(1).to_pylist() == [body_of(number) for number in range(200)]
    assert (taken.column(2).null_count, taken.column(2).buffers()[0]) == (0, None)
    assert not taken.column(0).buffers()[1].is_mutable


def test_batches_without_columns_have_rows(log: bytes) -> None:
    reading = RecordColumns([])
    reading.feed(log, 0)
    (batch,) = reading.finish()
    assert (len(batch), pa.record_batch(batch).num_rows) == (300, 300)


def test_every_column_has_the_type_that_spark_is_promised(log: bytes) -> None:
    reading = RecordColumns([column.name for column in READ_COLUMNS])
    reading.feed(log, 0)
    found = pa.record_batch(reading.finish()[0])
    found.validate(full=True)
    assert found.schema == pa.schema({column.name: column.arrow for column in READ_COLUMNS})


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_side_by_side_can_be_fed_in_any_pieces(kind: type, log: bytes) -> None:
    reading = RecordColumns(["queueOffset"])
    for at in range(0, len(log), 997):
        assert reading.feed(kind(log[at : at + 997]), at) == []
    assert values(reading.finish()[0], 0) == list(range(300))
    tally = reading.tally
    assert (reading.good_end, tally.records) == (len(log), 300)
    assert (tally.skipped, tally.skipped_bytes) == (0, 0)
    with pytest.raises(BufferError):
        RecordColumns([]).feed(memoryview(log)[::2], 0)


def test_a_gap_between_pieces_is_refused(log: bytes) -> None:
    reading = RecordColumns([])
    reading.feed(log[:1_000], 0)
    with pytest.raises(ValueError, match="begins at 2000, the one before ended at 1000"):
        reading.feed(log[2_000:], 2_000)


def test_large_pieces_give_the_gil_back(log: bytes) -> None:
    before = gil_counts().released
    RecordColumns(["body"]).feed(log, 0)
    assert gil_counts().released == before + 1
    counts = gil_counts()
    RecordColumns(["body"]).feed(log[:10_000], 0)
    after = gil_counts()
    assert (after.kept, after.released) == (counts.kept + 1, counts.released)


def test_damage_is_an_error_with_its_physical_offset(log: bytes) -> None:
    damaged = bytearray(log)
    damaged[4] ^= 0xFF
    with pytest.raises(NoRecordError, match="no whole record") as caught:
        RecordColumns([]).feed(damaged, 0)
    assert caught.value.physical_offset == 0
    assert pickle.loads(pickle.dumps(caught.value)).physical_offset == 0


def test_answers_are_fed_without_a_physical_offset(log: bytes) -> None:
    reading = RecordColumns(["physicalOffset"])
    assert reading.feed(log) == []
    assert reading.feed(log) == []
    (batch,) = reading.flush()
    assert len(batch) == 600
    assert reading.flush() == []


def test_spans_share_a_log(log: bytes) -> None:
    found = []
    for start, end in ((0, 50_000), (50_000, len(log))):
        span = Span(start=start, end=end, limit=len(log), is_inside=start > 0)
        reading = RecordColumns(["queueOffset"], span=span)
        batches = reading.feed(log[start:], start) + reading.finish()
        found += [number for batch in batches for number in values(batch, 0)]
    assert found == list(range(300))


def test_what_is_asked_wrongly_is_refused() -> None:
    with pytest.raises(ValueError, match="no column tpic"):
        RecordColumns(["tpic"])
    with pytest.raises(ValueError, match="fail, skip or emit"):
        RecordColumns([], bad_records="drop")  # type: ignore[arg-type]


def test_units_of_a_queue_file(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        appended = filled(store, 10)
    units = (tmp_path / "consumequeue" / "topic" / "0" / f"{0:020}").read_bytes()
    batch = queue_units(units, 0)
    assert values(batch, 0) == list(range(10))
    assert values(batch, 1) == [each.physical_offset for each in appended]
