"""Records as columns through the door: buffers lent both ways, the GIL, errors with their facts."""

import pickle
from itertools import pairwise
from pathlib import Path

import pytest

from mqcore import Store
from mqcore.native import gil_counts
from mqcore.native.columns import ColumnBatch, RecordColumns, Span, queue_units
from mqcore.native.errors import NoRecordError
from small_store import SMALL, body_of, filled


@pytest.fixture
def log(tmp_path: Path) -> bytes:
    """Returns the bytes of a log of 300 messages."""
    with Store(tmp_path, config=SMALL) as store:
        end = filled(store, 300)[-1].end
    return (tmp_path / "commitlog" / f"{0:020}").read_bytes()[:end]


def held(part: object) -> memoryview:
    """Returns what a buffer of a column holds; types of this Python know no buffers."""
    return memoryview(part)  # type: ignore[arg-type]


def numbers(batch: ColumnBatch, index: int) -> list[int]:
    _validity, data = batch.column(index).buffers
    return held(data).cast("q").tolist()


def texts(batch: ColumnBatch, index: int) -> list[bytes]:
    _validity, offsets, data = batch.column(index).buffers
    ends = held(offsets).cast("i").tolist()
    return [bytes(held(data)[start:end]) for start, end in pairwise(ends)]


def test_buffers_are_read_only_and_outlive_everything_else(log: bytes) -> None:
    reading = RecordColumns(["queueOffset", "body", "tags"], batch_rows=200)
    first, *_rest = reading.feed(log, 0)
    (second,) = reading.finish()
    del reading
    assert (len(first), first.rows, len(second)) == (200, 200, 100)
    assert numbers(second, 0) == list(range(200, 300))
    assert texts(first, 1) == [body_of(number) for number in range(200)]
    tags = first.column(2)
    assert (tags.nulls, tags.buffers[0]) == (0, None)
    view = held(first.column(0).buffers[1])
    del first
    assert view.readonly
    assert view.cast("q")[199] == 199
    with pytest.raises(ValueError, match="no such column"):
        second.column(3)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_side_by_side_can_be_fed_in_any_pieces(kind: type, log: bytes) -> None:
    reading = RecordColumns(["queueOffset"])
    for at in range(0, len(log), 997):
        assert reading.feed(kind(log[at : at + 997]), at) == []
    assert numbers(reading.finish()[0], 0) == list(range(300))
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
        found += [number for batch in batches for number in numbers(batch, 0)]
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
    assert numbers(batch, 0) == list(range(10))
    assert numbers(batch, 1) == [each.physical_offset for each in appended]
