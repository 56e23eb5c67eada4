"""A streaming query from one topic of a broker into another, exactly once."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

import mqcore
from mqcore.testing import Broker
from own_golden.serving import STORE_KEYS

SOURCE, TARGET = "flights", "copies"
DECISIONS: Final = "MQCORE_SPARK_DECISIONS"
GROUP: Final = "mirror"
# So many messages, so many of them per batch.
COUNT: Final = 200
PER_BATCH: Final = "60"
QUERY_S: Final = 120
SETTINGS: Final = STORE_KEYS | {"brokerName": "broker-golden"}


def send(broker: Broker, first: int, count: int) -> None:
    """Sends numbered messages; returns when they can be read."""
    with mqcore.Producer(broker.namesrv) as producer:
        for number in range(first, first + count):
            producer.send(mqcore.Message(SOURCE, b"%d" % number, tags="t", keys=f"k{number}"))
    broker.messages(SOURCE)


def run_query(spark: SparkSession, broker: Broker, checkpoint: Path) -> Any:
    """Runs the query over everything that is there; returns it when it has ended."""
    frame = (
        spark.readStream.format("mqcore")
        .options(
            namesrv=broker.namesrv,
            subscribe=SOURCE,
            startingOffsets="earliest",
            maxOffsetsPerTrigger=PER_BATCH,
            group=GROUP,
        )
        .schema("body binary, keys string")
        .load()
    )
    query = (
        frame.writeStream.format("mqcore")
        .options(namesrv=broker.namesrv, topic=TARGET, delivery="exactly-once")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(QUERY_S)
    return query


def copies(broker: Broker) -> Counter[int]:
    """Returns what every reader of the target finds."""
    return Counter(int(message.body) for message in broker.messages(TARGET))


def offset_log(checkpoint: Path) -> list[dict[str, Any]]:
    """Returns the ends of the batches in Spark's log of offsets, as our source wrote them."""
    logs = sorted(
        (path for path in (checkpoint / "offsets").iterdir() if path.name.isdigit()),
        key=lambda path: int(path.name),
    )
    # A version, the batch's own record, and one line per source.
    return [json.loads(path.read_text().splitlines()[2]) for path in logs]
