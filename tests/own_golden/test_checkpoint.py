"""The offset log of a streaming query that mqcore 0.1 wrote: read, written alike, gone on from.

Without a JVM: the twin of Spark's engine calls the reader. `tests/spark/test_golden_stream.py` has
Spark itself go on from the same checkpoint.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from mqcore.spark.topic_source.reading import stream_reader
from mqcore.spark.topic_source.stream_offsets import StreamOffset
from mqcore.testing import Broker
from own_golden.cases import STREAM, contents
from own_golden.streaming import COUNT, GROUP, PER_BATCH, SETTINGS, SOURCE, offset_log, send

pytest.importorskip("pyspark.sql.streaming.datasource", reason="its engine is that of Spark 4.2")
from spark.topic_source.engine import Engine

BODY = StructType.fromJson(
    {
        "type": "struct",
        "fields": [{"name": "body", "type": "binary", "nullable": True, "metadata": {}}],
    }
)
ADDED = 30


@pytest.fixture
def root(golden_copy: Callable[[str], Path]) -> Path:
    """Returns a copy of the directory."""
    return golden_copy(STREAM)


@pytest.fixture
def broker(root: Path) -> Iterator[Broker]:
    """Returns a broker on the store of the copy."""
    with Broker(SETTINGS, directory=root / "store") as started:
        yield started


def test_every_offset_is_read_and_written_as_it_was(root: Path) -> None:
    log = offset_log(root / "checkpoint")
    assert log == contents(STREAM)["offsets"]
    for offset in log:
        assert json.dumps(StreamOffset.of_json(offset).to_json()) == json.dumps(offset)
    assert sum(log[-1]["q"].values()) == COUNT


@pytest.mark.parametrize("done", [1, 2, 4])
def test_a_query_goes_on_behind_what_it_has_done(root: Path, broker: Broker, done: int) -> None:
    send(broker, COUNT, ADDED)
    log = offset_log(root / "checkpoint")
    assert len(log) >= done
    options = {"namesrv": broker.namesrv, "subscribe": SOURCE, "group": GROUP}
    options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": PER_BATCH}
    engine = Engine(lambda: stream_reader(options, BODY))
    engine.offset_log = [json.dumps(offset) for offset in log]
    engine.committed = done
    engine.available_now()
    before = sum(log[done - 1]["q"].values())
    found = [int(row["body"]) for row in engine.rows]
    assert len(found) == COUNT + ADDED - before
    assert set(range(COUNT, COUNT + ADDED)) <= set(found)
    stored = {int(message.body) for message in broker.messages(SOURCE)}
    assert len(set(found)) == len(found), "each once"
    assert set(found) <= stored
