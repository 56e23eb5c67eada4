"""Compares two sets of rows by key: what is missing, doubled, or not the same.

Two steps, so that what agrees costs one aggregation and no join. First every bucket of keys is
summed up to a count and two sums of digests; equal sums mean equal rows. Only the rows of buckets
that differ are then joined key by key. Digests have 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["COMPARED", "KEYS", "ORIGIN_ID", "Compared", "compared", "within_both"]

# The property by which a replayed message tells what it was.
ORIGIN_ID = "MQCORE_ORIGIN_ID"
# By place: the record itself. By origin: a message that was sent again.
KEYS = {
    "place": ("topic", "storeHost", "queueId", "queueOffset"),
    "origin": ("originId",),
}
_RECORD = (
    "physicalOffset",
    "msgId",
    "keys",
    "tags",
    "messageGroup",
    "body",
    "flag",
    "sysFlag",
    "reconsumeTimes",
    "bornTimestamp",
    "storeTimestamp",
    "bornHost",
)
COMPARED = {"place": _RECORD, "origin": ("keys", "tags", "messageGroup", "body", "flag")}
# Offsets of a queue that are summed up together, and buckets of ids.
_BUCKET_BITS = 14
_ID_BUCKETS = 4_096
_QUEUE = ("topic", "storeHost", "queueId")


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison found.

    Attributes:
        left_rows: Rows of the left side.
        right_rows: Rows of the right side.
        findings: A row per key that is not the same on both sides: `kind` (`missing` on the right,
            `unexpected` there, `doubled`, `differing`), the key, the topic, how often it is on each
            side (`leftCount`, `rightCount`), and one place of each (`leftPlace`, `rightPlace`).
            None when everything agrees.
    """

    left_rows: int
    right_rows: int
    findings: DataFrame | None


def compared(left: DataFrame, right: DataFrame, *, by: str, columns: Sequence[str]) -> Compared:
    """Compares two sides.

    Args:
        left: What is right by definition. Both have the columns of `KEYS` (for `origin`: `msgId`
            and `properties`), of `columns` and those of a place.
        right: What is judged.
        by: A key of `KEYS`.
        columns: What must be the same.
    """
    sides = [_digested(side, by, columns) for side in (left, right)]
    sums = [_summed(side, by) for side in sides]
    groups = ["bucket"] if by == "origin" else [*_QUEUE, "bucket"]
    joined = _outer_joined(*sums, groups)
    totals = ("rows", "mixed", "added")
    is_same = F.lit(True)
    for name in totals:
        is_same = is_same & F.col(f"left_{name}").eqNullSafe(F.col(f"right_{name}"))
    looked = joined.withColumn("isSame", is_same).cache()
    try:
        counted = looked.agg(
            F.coalesce(F.sum("left_rows"), F.lit(0)).alias("left"),
            F.coalesce(F.sum("right_rows"), F.lit(0)).alias("right"),
            F.count(F.when(~F.col("isSame"), 1)).alias("different"),
        ).first()
        if counted is None or not counted["different"]:
            rows = (int(counted["left"]), int(counted["right"])) if counted else (0, 0)
            return Compared(*rows, None)
        # A list and not a join: the cached sums are gone when the findings are looked at.
        different = looked.where(~F.col("isSame")).select(*groups).toArrow()
    finally:
        looked.unpersist()
    wanted = left.sparkSession.createDataFrame(different)
    narrowed = [side.join(F.broadcast(wanted), groups, "left_semi") for side in sides]
    findings = _findings(*narrowed, by)
    return Compared(int(counted["left"]), int(counted["right"]), findings)


def within_both(left: DataFrame, right: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Returns the rows of both sides whose offset lies within what both have of the queue.

    Queues that one side does not have are gone; so is what one side has forgotten already, or
    does not have yet.
    """
    first, last = F.min("queueOffset"), F.max("queueOffset")
    bounds = [side.groupBy(*_QUEUE).agg(first.alias("a"), last.alias("b")) for side in (left, right)]
    both = bounds[0].join(bounds[1].withColumnsRenamed({"a": "c", "b": "d"}), list(_QUEUE))
    begin, end = F.greatest("a", "c"), F.least("b", "d")
    common = both.select(*_QUEUE, begin.alias("beginOffset"), end.alias("endOffset"))
    offset = F.col("queueOffset")
    is_common = (offset >= F.col("beginOffset")) & (offset <= F.col("endOffset"))
    kept = [side.join(F.broadcast(common), list(_QUEUE)).where(is_common) for side in (left, right)]
    return kept[0].select(*left.columns), kept[1].select(*right.columns)


def _digested(side: DataFrame, by: str, columns: Sequence[str]) -> DataFrame:
    """Returns key, digest, bucket and place of each row."""
    if by == "origin":
        origin = F.coalesce(F.col("properties")[ORIGIN_ID], F.col("msgId"))
        side = side.withColumn("originId", origin)
        bucket = F.pmod(F.xxhash64("originId"), F.lit(_ID_BUCKETS))
    else:
        bucket = F.shiftright("queueOffset", _BUCKET_BITS)
    place = F.concat(
        F.col("topic"),
        *(part for name in _QUEUE[1:] for part in (F.lit(" "), F.col(name).cast("string"))),
        F.lit(" "),
        F.col("queueOffset").cast("string"),
    )
    parts = [part for name in (*KEYS[by], *columns) for part in _hashable(name)]
    return side.select(
        *KEYS[by],
        *([] if by == "place" else ["topic"]),
        bucket.alias("bucket"),
        F.xxhash64(*parts).alias("digest"),
        place.alias("place"),
    )


def _hashable(name: str) -> list[Column]:
    """Returns what stands for a column in a digest: a null is told, since hashes leave it out."""
    column = F.col(name)
    if name == "properties":
        return [F.to_json(F.array_sort(F.map_entries(column)))]
    return [column.isNull(), column]


def _summed(side: DataFrame, by: str) -> DataFrame:
    groups = ["bucket"] if by == "origin" else [*_QUEUE, "bucket"]
    low_half = F.col("digest").bitwiseAND(F.lit(0xFFFF_FFFF))
    return side.groupBy(*groups).agg(
        F.count("*").alias("rows"),
        # The exclusive or forgets what comes twice, which the sum does not.
        F.bit_xor("digest").alias("mixed"),
        F.sum(low_half).alias("added"),
    )


def _outer_joined(left: DataFrame, right: DataFrame, keys: Sequence[str]) -> DataFrame:
    names = [name for name in left.columns if name not in keys]
    sides = [
        side.withColumnsRenamed({name: f"{which}_{name}" for name in names})
        for which, side in (("left", left), ("right", right))
    ]
    return sides[0].join(sides[1], list(keys), "full_outer")


def _findings(left: DataFrame, right: DataFrame, by: str) -> DataFrame:
    keys = KEYS[by]
    topic = [F.first("topic").alias("ofTopic")] if by == "origin" else []
    per_key = [
        side.groupBy(*keys).agg(
            F.count("*").alias("count"),
            F.min("digest").alias("least"),
            F.max("digest").alias("most"),
            F.min("place").alias("place"),
            *topic,
        )
        for side in (left, right)
    ]
    joined = _outer_joined(per_key[0], per_key[1], keys)
    left_count, right_count = (
        F.coalesce(F.col(f"{which}_count"), F.lit(0)) for which in ("left", "right")
    )
    differs = (F.col("left_least") != F.col("right_least")) | (
        F.col("left_most") != F.col("right_most")
    )
    kind = (
        F.when(right_count == 0, "missing")
        .when(left_count == 0, "unexpected")
        .when(left_count != right_count, "doubled")
        .when(differs, "differing")
    )
    of_topic = F.coalesce("left_ofTopic", "right_ofTopic") if by == "origin" else F.col("topic")
    return joined.select(
        kind.alias("kind"),
        of_topic.alias("topic"),
        *(name for name in keys if name != "topic"),
        left_count.alias("leftCount"),
        right_count.alias("rightCount"),
        F.col("left_place").alias("leftPlace"),
        F.col("right_place").alias("rightPlace"),
    ).where(F.col("kind").isNotNull())
