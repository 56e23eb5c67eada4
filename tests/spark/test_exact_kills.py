"""Exactly once, whichever driver or executor is killed: what is read is what was written, once."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mqcore.testing import Broker
from spark.cluster import standalone_cluster
from spark.exact_sink import DECISIONS, read
from spark.sink_query import EXACT_STEPS, EXECUTOR_FLAG, KILLED_BATCH
from spark.test_sink_kills import FILES, ROWS_OF_BATCH, ROWS_OF_FILE, prepared, run


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """Returns a broker of one test, which asks back soon."""
    settings = {"transactionCheckInterval": "1000", "transactionTimeOut": "1000"}
    with Broker(settings, directory=tmp_path / "store") as started:
        started.create_topic(DECISIONS, queues=1)
        started.create_topic("rows")
        yield started


@pytest.mark.matrix
@pytest.mark.parametrize("has_broker_crashed", [False, True])
@pytest.mark.parametrize("step", EXACT_STEPS)
def test_a_driver_that_is_killed_wrote_every_row_once(
    broker: Broker, tmp_path: Path, step: str, has_broker_crashed: bool
) -> None:
    arguments = prepared(tmp_path, broker.namesrv, "rows")
    arguments = replace(arguments, delivery="exactly-once")
    file = tmp_path / "arguments.json"
    killed = run("spark.sink_query", tmp_path, replace(arguments, step=step).write(file))
    assert killed.returncode == -9, killed.stderr[-4_000:]
    before = read(broker, "rows")
    assert set(before.values()) == {1}, "no row is there twice"
    first = {str(row) for row in range(ROWS_OF_BATCH * KILLED_BATCH)}
    assert set(before) >= first, "the first batch was committed"
    if step in ("task", "before commit", "decided"):
        assert set(before) == first, "nobody sees what is not committed"
    if has_broker_crashed:
        broker.kill()
        broker.restart()
    ended = run("spark.sink_query", tmp_path, arguments.write(file))
    assert ended.returncode == 0, ended.stderr[-4_000:]
    assert read(broker, "rows") == Counter(str(row) for row in range(FILES * ROWS_OF_FILE))


@pytest.mark.matrix
def test_an_executor_that_is_killed_wrote_every_row_once(broker: Broker, tmp_path: Path) -> None:
    with standalone_cluster(tmp_path) as cluster:
        arguments = prepared(tmp_path, broker.namesrv, "rows", cluster.master)
        arguments = replace(arguments, delivery="exactly-once", step="executor")
        ended = run("spark.sink_query", tmp_path, arguments.write(tmp_path / "arguments.json"))
    assert ended.returncode == 0, ended.stderr[-4_000:]
    assert arguments.processes.with_name(EXECUTOR_FLAG).exists()
    assert read(broker, "rows") == Counter(str(row) for row in range(FILES * ROWS_OF_FILE))
