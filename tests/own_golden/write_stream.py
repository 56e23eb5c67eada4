"""Writes the golden store with the checkpoint of a streaming query. Needs Spark and Java.

cd tests && python -m own_golden.write_stream DIR
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

import mqcore.spark
from mqcore.testing import Broker
from own_golden.cases import STREAM
from own_golden.streaming import (
    COUNT,
    DECISIONS,
    SETTINGS,
    SOURCE,
    TARGET,
    copies,
    offset_log,
    run_query,
    send,
)
from own_golden.write import pack


def write_stream(root: Path) -> dict[str, object]:
    """Runs the query over several batches and stops everything cleanly."""
    config = {"spark.ui.enabled": False, "spark.sql.shuffle.partitions": 2}
    spark = mqcore.spark.session("golden", master="local[2]", config=config)
    try:
        with Broker(SETTINGS, directory=root / "store") as broker:
            broker.create_topic(SOURCE, queues=2)
            broker.create_topic(TARGET, queues=2)
            broker.create_topic(DECISIONS, queues=1)
            send(broker, 0, COUNT)
            run_query(spark, broker, root / "checkpoint")
            assert copies(broker) == Counter(range(COUNT))
    finally:
        spark.stop()
    offsets = offset_log(root / "checkpoint")
    assert len(offsets) > 2
    return {"offsets": offsets}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory) / STREAM
        made.mkdir()
        pack(made, Path(sys.argv[1]), write_stream(made))
