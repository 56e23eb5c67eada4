"""Messages of an archive sent again: their order, their queues, their origin, at a rate."""

from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mqcore.spark.pipelines.archive_directory import ArchiveDirectory
from mqcore.spark.pipelines.comparison import ORIGIN_ID
from mqcore.spark.pipelines.pacing import batch_rows_of, paced
from mqcore.spark.pipelines.part_writer import write_parts
from mqcore.spark.pipelines.replay import replay
from mqcore.spark.pipelines.spans import Span
from mqcore.spark.pipelines.verify import verify
from mqcore.testing import Broker
from spark.pipelines.rows import batch, row


class Time:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def now_ms(self) -> int:
        return round(self.now)

    def wait_s(self, seconds: float) -> None:
        self.now += seconds * 1_000


def test_rows_come_at_their_rate_and_in_their_order() -> None:
    time = Time()
    seen: list[tuple[int, str]] = []
    batches = [batch(row(n) for n in range(at, at + 250)) for at in (0, 250, 500, 750)]
    for part in paced(batches, 100.0, now_ms=time.now_ms, wait_s=time.wait_s):
        seen += [(time.now_ms(), key) for key in part.column("msgId").to_pylist()]
    assert [key for _, key in seen] == [f"ID{n:028d}" for n in range(1_000)]
    for number, (at_ms, _) in enumerate(seen):
        assert number / 100 * 1_000 - 200 <= at_ms <= number / 100 * 1_000 + 200


def test_what_was_late_is_not_made_up_for() -> None:
    time = Time()
    rows = paced([batch(row(n) for n in range(30))], 100.0, now_ms=time.now_ms, wait_s=time.wait_s)
    next(rows)
    time.now += 60_000
    next(rows)
    next(rows)
    assert time.now >= 60_000


@pytest.mark.parametrize(("per_s", "rows"), [(0.5, 1), (10, 1), (1_000, 100), (1e9, 8_192)])
def test_little_goes_through_at_once(per_s: float, rows: int) -> None:
    assert batch_rows_of(per_s) == rows


def test_an_archive_is_sent_again_in_order(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    archive = ArchiveDirectory(tmp_path / "a")
    spans = [Span("store:s", 0, 9)]
    # The last of a queue first: the file's order is not the queue's.
    rows = [row(n, topic="replayed", queueOffset=1_000 - n) for n in range(400)]
    archive.commit(spans, write_parts(archive.files, spans, [batch(rows)]), now_ms=1)
    source = f"archive:{tmp_path / 'a'}"
    broker.create_topic("replayed-again")
    done = replay(
        spark,
        source,
        target_namesrv=broker.namesrv,
        topic_map={"replayed": "replayed-again"},
        rate=100_000,
    )
    assert done.messages == 400
    queues = defaultdict(list)
    for message in broker.messages("replayed-again"):
        number = int(message.body.split()[1])
        queues[message.queue.queue_id].append((message.queue_offset, number))
        assert message.properties["colour"] == "red"
        assert message.properties[ORIGIN_ID] == f"ID{number:028d}"
        assert message.tags == rows[number]["tags"]
        assert message.keys == tuple(str(rows[number]["keys"] or "").split())
    for queue_id, sent in queues.items():
        numbers = [number for _, number in sorted(sent)]
        assert numbers == sorted(numbers, reverse=True)
        assert {number % 4 for number in numbers} == {queue_id}
    again = "topic:replayed-again"
    found = verify(spark, source, again, by="origin", namesrv=broker.namesrv)
    assert (found.left_rows, found.right_rows, found.counts) == (400, 400, {})
