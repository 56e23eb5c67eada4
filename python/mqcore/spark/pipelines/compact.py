"""The pipeline `compact`: the last message of every key, as a Parquet snapshot.

An empty body is a tombstone: its key is gone. Last is what was stored last; within a log the place
decides, since its store times never fall.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqcore.spark.pipelines.errors import PipelineSettingError
from mqcore.spark.pipelines.inputs import frame, parse_input
from mqcore.spark.pipelines.jobs import Job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["Compacted", "compact", "compacted"]

_PROPERTY = "property:"
_KEYS = ("keys", "messageGroup", "tags")
_COLUMNS = (
    "topic",
    "storeHost",
    "queueId",
    "queueOffset",
    "physicalOffset",
    "msgId",
    "keys",
    "tags",
    "messageGroup",
    "body",
    "bodyLength",
    "storeTimestamp",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What `compact` made.

    Attributes:
        target: Where the snapshot is.
        keys: Keys in it.
    """

    target: str
    keys: int

    @property
    def exit_code(self) -> int:
        """0: what fails raises."""
        return 0

    def lines(self) -> list[str]:
        """Returns it for people."""
        return [f"{self.keys:,} keys in {self.target}"]


def compact(
    spark: SparkSession,
    source: str | DataFrame,
    target: str,
    *,
    namesrv: str | None = None,
    topics: Sequence[str] = (),
    key: str = "keys",
    overwrite: bool = False,
) -> Compacted:
    """Writes the last message of every key of every topic.

    Args:
        spark: The session.
        source: topic:NAME, store:DIRECTORY or archive:PATH.
        target: Directory of the snapshot: Parquet by topic.
        namesrv: Name servers, where the source is a topic.
        topics: Only these; all of the source where not given.
        key: What names a value: keys, messageGroup, tags, or property:NAME.
        overwrite: Takes the place of a snapshot that is there.

    Raises:
        PipelineSettingError: There is no such key.
    """
    if key not in _KEYS and not key.startswith(_PROPERTY):
        raise PipelineSettingError(
            f"key is {key!r}: one of {', '.join(_KEYS)} or property:NAME is expected", setting="key"
        )
    if isinstance(source, str):
        columns = (*_COLUMNS, "properties") if key.startswith(_PROPERTY) else _COLUMNS
        rows = frame(spark, parse_input(source, namesrv=namesrv, topics=topics), columns)
    else:
        rows = source.where(source["topic"].isin(list(topics))) if topics else source
    source_name = source if isinstance(source, str) else "a DataFrame"
    mode = "overwrite" if overwrite else "errorifexists"
    with Job(spark, f"compact {source_name} by {key}"):
        compacted(rows, key).write.partitionBy("topic").mode(mode).parquet(target)
        # With a schema, since a snapshot without keys has no file that has one.
        keys = spark.read.schema("key string, topic string").parquet(target).count()
    return Compacted(target=target, keys=keys)


def compacted(rows: DataFrame, key: str = "keys") -> DataFrame:
    """Returns the last message of every key, tombstones left out.

    Args:
        rows: Rows of the read schema.
        key: What names a value, as for `compact`.

    Returns:
        `topic`, `key`, `body`, `msgId`, `tags`, `storeTimestamp`, and the place.
    """
    from pyspark.sql import functions as F

    kept = ("body", "msgId", "tags", "storeTimestamp", "storeHost", "queueId", "queueOffset")
    latest = F.struct("storeTimestamp", "storeHost", "physicalOffset")
    last = F.max_by(F.struct(*kept), latest).alias("last")
    named = rows.withColumn("key", _key_column(key)).where(F.col("key").isNotNull())
    found = named.groupBy("topic", "key").agg(last).select("topic", "key", "last.*")
    return found.where(F.length("body") > 0)


def _key_column(key: str) -> Column:
    from pyspark.sql import functions as F

    if key.startswith(_PROPERTY):
        return F.col("properties")[key.removeprefix(_PROPERTY)]
    return F.col(key)
