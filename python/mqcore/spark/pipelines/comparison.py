"""Compares two sets of rows by key: what is missing, doubled, or not the same.

Two steps, so that what agrees costs one aggregation and no join. First every bucket of keys is
counted and summed up on both sides; equal sums mean equal rows. Only the rows of buckets that
differ are then compared key by key. Digests have 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["COMPARED", "KEYS", "ORIGIN_ID", "Compared", "compared", "within_both"]

# The property of a replayed message that names the message it was.
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
    both = _both(_digested(left, by, columns), _digested(right, by, columns))
    groups = ["bucket"] if by == "origin" else [*_QUEUE, "bucket"]
    # A row per some thousand messages: the driver can hold that.
    sums = _summed(both, groups).toArrow()
    rows = [int(pc.sum(sums.column(name)).as_py() or 0) for name in ("leftRows", "rightRows")]
    is_even = pc.equal(sums.column("leftRows"), sums.column("rightRows"))
    is_same = pc.and_(
        is_even,
        pc.and_(pc.equal(sums.column("mixed"), 0), pc.equal(sums.column("added"), 0)),
    )
    different = sums.filter(pc.invert(is_same)).select(groups)
    if not different.num_rows:
        return Compared(rows[0], rows[1], None)
    wanted = left.sparkSession.createDataFrame(different)
    narrowed = both.join(F.broadcast(wanted), groups, "left_semi")
    return Compared(rows[0], rows[1], _findings(narrowed, by))


def within_both(left: DataFrame, right: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Returns the rows of both sides whose offset lies within what both have of the queue.

    Queues that one side does not have are gone; so is what one side has forgotten already, or
    does not have yet.
    """
    first, last = F.min("queueOffset"), F.max("queueOffset")
    bounds = [
        side.groupBy(*_QUEUE).agg(first.alias("a"), last.alias("b")) for side in (left, right)
    ]
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
    location = F.concat(
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
        location.alias("place"),
    )


def _hashable(name: str) -> list[Column]:
    """Returns what represents a column in a digest; nulls are marked: hashes leave them out."""
    column = F.col(name)
    if name == "properties":
        return [F.to_json(F.array_sort(F.map_entries(column)))]
    return [column.isNull(), column]


def _both(left: DataFrame, right: DataFrame) -> DataFrame:
    """Returns the rows of both sides; `isLeft` distinguishes them."""
    return left.withColumn("isLeft", F.lit(True)).unionByName(
        right.withColumn("isLeft", F.lit(False))
    )


def _summed(both: DataFrame, groups: Sequence[str]) -> DataFrame:
    """Counts both sides of each bucket and takes the right one from the left one."""
    low_half = F.col("digest").bitwiseAND(F.lit(0xFFFF_FFFF))
    return both.groupBy(*groups).agg(
        F.count(F.when(F.col("isLeft"), 1)).alias("leftRows"),
        F.count(F.when(~F.col("isLeft"), 1)).alias("rightRows"),
        # The exclusive or forgets what comes twice, which the sum does not.
        F.bit_xor("digest").alias("mixed"),
        F.sum(F.when(F.col("isLeft"), low_half).otherwise(-low_half)).alias("added"),
    )


def _findings(both: DataFrame, by: str) -> DataFrame:
    keys = KEYS[by]
    is_left = F.col("isLeft")
    topic = [F.first("topic").alias("ofTopic")] if by == "origin" else []
    per_side = []
    for side, is_side in (("left", is_left), ("right", ~is_left)):
        digest, location = F.when(is_side, F.col("digest")), F.when(is_side, F.col("place"))
        per_side += [
            F.count(digest).alias(f"{side}Count"),
            F.min(digest).alias(f"{side}Least"),
            F.max(digest).alias(f"{side}Most"),
            F.min(location).alias(f"{side}Place"),
        ]
    differs = (F.col("leftLeast") != F.col("rightLeast")) | (
        F.col("leftMost") != F.col("rightMost")
    )
    kind = (
        F.when(F.col("rightCount") == 0, "missing")
        .when(F.col("leftCount") == 0, "unexpected")
        .when(F.col("leftCount") != F.col("rightCount"), "doubled")
        .when(differs, "differing")
    )
    return (
        both.groupBy(*keys)
        .agg(*per_side, *topic)
        .select(
            kind.alias("kind"),
            F.col("ofTopic" if by == "origin" else "topic").alias("topic"),
            *(name for name in keys if name != "topic"),
            "leftCount",
            "rightCount",
            "leftPlace",
            "rightPlace",
        )
        .where(F.col("kind").isNotNull())
    )
