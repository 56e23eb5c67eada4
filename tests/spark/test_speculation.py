"""Speculative tasks: two attempts of a task send their rows side by side, and one counts."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from mqcore.testing import Broker
from spark.cluster import standalone_cluster
from spark.exact_sink import DECISIONS, read
from spark.test_sink_kills import FILES, ROWS_OF_FILE, left_of, prepared, run

EVERY = Counter(str(row) for row in range(FILES * ROWS_OF_FILE))


@pytest.mark.matrix
@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_of_speculative_attempts_one_counts(tmp_path: Path, delivery: str) -> None:
    with Broker(directory=tmp_path / "store") as broker, standalone_cluster(tmp_path) as cluster:
        broker.create_topic(DECISIONS, queues=1)
        broker.create_topic("rows")
        arguments = prepared(tmp_path, broker.namesrv, "rows", cluster.master)
        file = replace(arguments, delivery=delivery).write(tmp_path / "arguments.json")
        ended = run("spark.speculative_query", tmp_path, file)
        assert ended.returncode == 0, ended.stderr[-4_000:]
        assert list(tmp_path.glob("both-*")), "a task ran a second time"
        found = broker.messages("rows")
        if delivery == "exactly-once":
            assert read(broker, "rows") == EVERY
        else:
            attempts = {message.properties["SPARK_TASK"] for message in found}
            assert len(attempts) > FILES, "both attempts sent rows"
            assert left_of(found) == Counter(range(FILES * ROWS_OF_FILE))
