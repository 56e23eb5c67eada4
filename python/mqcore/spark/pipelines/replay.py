"""The pipeline `replay`: messages of an archive, a store or a topic are sent again.

Every message keeps body, keys, tags, group and the properties of its user, and carries its first
id in the property `MQCORE_ORIGIN_ID`. What stood in one queue goes to one queue, in its order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqcore.client.properties import RESERVED
from mqcore.spark.pipelines.errors import PipelineSettingError
from mqcore.spark.pipelines.inputs import frame, parse_input
from mqcore.spark.pipelines.jobs import Job, parallelism
from mqcore.spark.pipelines.scales import time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["Replayed", "ReplayedTopic", "replay", "replayed_rows"]

_COLUMNS = (
    "topic",
    "storeHost",
    "queueId",
    "queueOffset",
    "msgId",
    "keys",
    "tags",
    "messageGroup",
    "body",
    "bodyLength",
    "storeTimestamp",
    "properties",
)
_QUEUE = ("topic", "storeHost", "queueId")
_ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedTopic:
    """What went to one topic, or would go.

    Attributes:
        topic: Where it was.
        target: Where it goes.
        messages: How many.
        body_bytes: Bytes of their bodies as they were stored.
        first_ms: Store time of the earliest, Unix ms.
        last_ms: Store time of the latest.
    """

    topic: str
    target: str
    messages: int
    body_bytes: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """What `replay` did.

    Attributes:
        topics: By the topic where it was.
        is_dry: Whether nothing was sent.
    """

    topics: tuple[ReplayedTopic, ...]
    is_dry: bool

    @property
    def messages(self) -> int:
        """Messages of all topics."""
        return sum(topic.messages for topic in self.topics)

    @property
    def exit_code(self) -> int:
        """0: what fails raises."""
        return 0

    def lines(self) -> list[str]:
        """Returns it for people."""
        verb = "would send" if self.is_dry else "sent"
        return [
            f"{verb} {one.messages:,} messages ({one.body_bytes:,} bytes) of {one.topic} to "
            f"{one.target}, stored {time_text(one.first_ms)} to {time_text(one.last_ms)}"
            for one in self.topics
        ] or ["there is nothing to send"]


def replay(
    spark: SparkSession,
    source: str | DataFrame,
    *,
    target_namesrv: str,
    namesrv: str | None = None,
    topics: Sequence[str] = (),
    topic_map: Mapping[str, str] | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    rate: float = 0.0,
    queues: int = 0,
    dry_run: bool = False,
) -> Replayed:
    """Sends messages again.

    Args:
        spark: The session.
        source: topic:NAME, store:DIRECTORY or archive:PATH.
        target_namesrv: Name servers of the cluster that gets them.
        namesrv: Name servers of the source, where it is a topic.
        topics: Only these; all of the source where not given.
        topic_map: Another name for a topic in the target, such as orders=orders-again.
        start: Only what was stored at this time or later.
        end: Only what was stored before this time.
        rate: At most so many messages per second, of all tasks together; 0 for as fast as it goes.
        queues: How many queues the topics have in the target, where those are fewer: queue ids are
            taken modulo this. 0 keeps the ids.
        dry_run: Counts and sends nothing.

    Raises:
        PipelineSettingError: Settings contradict each other, or a topic would be sent to itself.
    """
    mapping = dict(topic_map or {})
    _check(rate, queues, start, end)
    rows = _read(spark, source, namesrv, topics)
    _check_targets(source, namesrv, target_namesrv, mapping)
    if start is not None:
        rows = rows.where(rows["storeTimestamp"] >= start)
    if end is not None:
        rows = rows.where(rows["storeTimestamp"] < end)
    source_name = source if isinstance(source, str) else "a DataFrame"
    with Job(spark, f"count what replay sends of {source_name}"):
        counted = _counted(rows, mapping)
    if dry_run or not counted:
        return Replayed(counted, dry_run)
    with Job(spark, f"replay {source_name} to {target_namesrv}"):
        _send(spark, replayed_rows(rows, mapping, queues=queues), target_namesrv, rate)
    return Replayed(counted, is_dry=False)


def replayed_rows(rows: DataFrame, topic_map: Mapping[str, str], *, queues: int = 0) -> DataFrame:
    """Returns the rows that the sink takes, and where they come from.

    Args:
        rows: Rows of the read schema with `properties`.
        topic_map: Another name for a topic.
        queues: Queue ids are taken modulo this; 0 keeps them.
    """
    from pyspark.sql import functions as F

    from mqcore.spark.pipelines.comparison import ORIGIN_ID
    from mqcore.spark.topic_sink.marks import ROW_OF, ROWS, TASK

    # What the client, the broker or an earlier writing set, and what has a column of its own.
    left_out = [*sorted(RESERVED), ORIGIN_ID, TASK, ROW_OF, ROWS]
    kept = F.map_filter("properties", lambda name, _: ~name.isin(left_out))
    origin = F.coalesce(F.col("properties")[ORIGIN_ID], F.col("msgId"))
    queue = F.pmod("queueId", F.lit(queues)) if queues else F.col("queueId")
    return rows.select(
        _target(topic_map).alias("topic"),
        "body",
        "tags",
        "keys",
        "messageGroup",
        F.map_concat(kept, F.create_map(F.lit(ORIGIN_ID), origin)).alias("properties"),
        queue.cast("int").alias("queueId"),
        F.struct(*_QUEUE).alias("from"),
        F.col("queueOffset").alias("fromOffset"),
    )


def _target(topic_map: Mapping[str, str]) -> Column:
    from pyspark.sql import functions as F

    target = F.col("topic")
    for topic, other in topic_map.items():
        target = F.when(F.col("topic") == topic, F.lit(other)).otherwise(target)
    return target


def _check(rate: float, queues: int, start: datetime | None, end: datetime | None) -> None:
    if rate < 0:
        raise PipelineSettingError(
            f"rate is {rate}: messages per second, or 0 for no limit", setting="rate"
        )
    if queues < 0:
        raise PipelineSettingError(f"queues is {queues}: a count is expected", setting="queues")
    if start is not None and end is not None and end <= start:
        raise PipelineSettingError(f"end {end} is not after start {start}", setting="end")


def _check_targets(
    source: str | DataFrame, namesrv: str | None, target: str, topic_map: Mapping[str, str]
) -> None:
    """A topic that is sent to itself would grow for ever."""
    if not isinstance(source, str) or not source.startswith("topic:") or namesrv != target:
        return
    for topic in parse_input(source, namesrv=namesrv).topics:
        if topic_map.get(topic, topic) == topic:
            raise PipelineSettingError(
                f"{topic} would be sent to itself: give another name by topic_map, such as "
                f"{topic}={topic}-again",
                setting="topic_map",
            )


def _read(
    spark: SparkSession, source: str | DataFrame, namesrv: str | None, topics: Sequence[str]
) -> DataFrame:
    if isinstance(source, str):
        return frame(spark, parse_input(source, namesrv=namesrv, topics=topics), _COLUMNS)
    given = source.select(*_COLUMNS)
    return given.where(given["topic"].isin(list(topics))) if topics else given


def _counted(rows: DataFrame, topic_map: Mapping[str, str]) -> tuple[ReplayedTopic, ...]:
    from pyspark.sql import functions as F

    counted = rows.groupBy("topic").agg(
        F.count("*").alias("messages"),
        F.sum("bodyLength").alias("body_bytes"),
        F.unix_millis(F.min("storeTimestamp")).alias("first_ms"),
        F.unix_millis(F.max("storeTimestamp")).alias("last_ms"),
    )
    return tuple(
        ReplayedTopic(target=topic_map.get(row["topic"], row["topic"]), **row.asDict())
        for row in sorted(counted.collect(), key=lambda row: str(row["topic"]))
    )


def _send(spark: SparkSession, rows: DataFrame, namesrv: str, rate: float) -> None:
    """Writes the rows, each queue by one task in its order."""
    # No more than run at once: each has its share of the rate, and waiting ones would lose theirs.
    tasks = parallelism(spark)
    ordered = rows.repartition(tasks, "from").sortWithinPartitions("from", "fromOffset")
    sent = ordered.drop("from", "fromOffset")
    before = spark.conf.get(_ARROW_ROWS, None)
    if rate > 0:
        share = rate / tasks
        sent = sent.mapInArrow(_paced_at(share), sent.schema)
        # Otherwise Spark gathers a second's rows, or a minute's, before the sink sees one.
        from mqcore.spark.pipelines.pacing import batch_rows_of

        spark.conf.set(_ARROW_ROWS, batch_rows_of(share))
    try:
        sent.write.format("mqcore").option("namesrv", namesrv).mode("append").save()
    finally:
        if rate > 0:
            if before is None:
                spark.conf.unset(_ARROW_ROWS)
            else:
                spark.conf.set(_ARROW_ROWS, before)


def _paced_at(
    per_s: float,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from mqcore.spark.pipelines.pacing import paced

        return paced(batches, per_s)

    return run
