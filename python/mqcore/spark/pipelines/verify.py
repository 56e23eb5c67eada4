"""The pipeline `verify`: do two of store, topic and archive hold the same messages?

Reports what is missing, unexpected, doubled or differing, each with its location on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mqcore.spark.pipelines.errors import PipelineSettingError
from mqcore.spark.pipelines.inputs import frame, parse_input
from mqcore.spark.pipelines.jobs import Job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Finding", "Verified", "verify"]

# Findings that are reported one by one; all are counted.
_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Finding:
    """One message that is not the same on both sides.

    Attributes:
        kind: `missing` on the right, `unexpected` there, `doubled`, `differing`.
        topic: Its topic.
        left: Topic, host, queue and offset on the left; None where it is not.
        right: The same on the right.
        left_count: How often it is on the left.
        right_count: How often on the right.
    """

    kind: str
    topic: str
    left: str | None
    right: str | None
    left_count: int
    right_count: int

    def __str__(self) -> str:
        """Returns it in words."""
        if self.kind == "missing":
            return f"missing on the right: {self.left}"
        if self.kind == "unexpected":
            return f"only on the right: {self.right}"
        if self.kind == "doubled":
            counts = f"{self.left_count} times on the left, {self.right_count} times on the right"
            return f"doubled: {self.left}: {counts}"
        return f"differing: {self.left} and {self.right}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What `verify` found.

    Attributes:
        left: What was right by definition.
        right: What was judged.
        left_rows: Messages compared of the left.
        right_rows: Messages compared of the right.
        counts: Findings by kind.
        findings: The first of them.
    """

    left: str
    right: str
    left_rows: int
    right_rows: int
    counts: dict[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether both hold the same messages."""
        return not self.counts

    @property
    def exit_code(self) -> int:
        """0 when both hold the same, 1 otherwise."""
        return 0 if self.is_equal else 1

    def lines(self) -> list[str]:
        """Returns it for people."""
        lines = [
            f"{self.left}: {self.left_rows:,} messages",
            f"{self.right}: {self.right_rows:,} messages",
            *map(str, self.findings),
        ]
        hidden = sum(self.counts.values()) - len(self.findings)
        if hidden:
            lines.append(f"and {hidden:,} more")
        if self.is_equal:
            return [*lines, "both hold the same messages"]
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.counts.items()))
        return [*lines, f"they differ: {kinds}"]


def verify(
    spark: SparkSession,
    left: str | DataFrame,
    right: str | DataFrame,
    *,
    by: str = "place",
    topics: Sequence[str] = (),
    columns: Sequence[str] = (),
    namesrv: str | None = None,
    common_range: bool = False,
) -> Verified:
    """Compares two of store, topic and archive.

    Args:
        spark: The session.
        left: What is right by definition: topic:NAME, store:DIRECTORY or archive:PATH.
        right: What is judged.
        by: `place` compares records by topic, host, queue and offset; `origin` compares what was
            replayed by the id that it had.
        topics: Only these; those of the side that is a topic where not given. By origin they are
            those of the left side, and all of the right side is compared.
        columns: What must be the same; everything that a message carries where not given.
        namesrv: Name servers, where a side is a topic.
        common_range: Only offsets that lie within what both sides have of a queue: one of them
            has forgotten what is old, or does not have yet what is new.

    Raises:
        PipelineSettingError: Settings contradict each other.
    """
    from mqcore.spark.pipelines.comparison import COMPARED, KEYS, compared, within_both

    if by not in KEYS:
        raise PipelineSettingError(f"by is {by!r}: place or origin is expected", setting="by")
    if common_range and by != "place":
        raise PipelineSettingError(
            "common_range compares offsets, which messages sent again do not keep: leave it out, "
            "or compare by place",
            setting="common_range",
        )
    compared_columns = tuple(columns) or COMPARED[by]
    wanted = _needed(by, compared_columns)
    names = _topics_of(topics, left, right, namesrv) if by == "place" else tuple(topics)
    # What is sent again may go to a topic of another name.
    right_names = names if by == "place" else ()
    sides = [
        _side(spark, left, wanted, names, namesrv, "left"),
        _side(spark, right, wanted, right_names, namesrv, "right"),
    ]
    side_names = [side if isinstance(side, str) else "a DataFrame" for side in (left, right)]
    with Job(spark, f"verify {side_names[0]} against {side_names[1]}"):
        if common_range:
            sides = list(within_both(*sides))
        found = compared(sides[0], sides[1], by=by, columns=compared_columns)
        counts, findings = _counted(found.findings)
    return Verified(
        left=side_names[0],
        right=side_names[1],
        left_rows=found.left_rows,
        right_rows=found.right_rows,
        counts=counts,
        findings=findings,
    )


def _needed(by: str, compared_columns: Sequence[str]) -> list[str]:
    """Returns the columns to read: location, key, and what is compared."""
    from mqcore.spark.pipelines.inputs import LOCATION_COLUMNS

    more = ("msgId", "properties") if by == "origin" else ()
    return list(dict.fromkeys((*LOCATION_COLUMNS, *more, *compared_columns)))


def _topics_of(
    topics: Sequence[str], left: object, right: object, namesrv: str | None
) -> tuple[str, ...]:
    """Returns the topics of both sides: a topic on one side narrows the other."""
    if topics:
        return tuple(topics)
    for side in (left, right):
        if isinstance(side, str) and side.startswith("topic:"):
            return parse_input(side, namesrv=namesrv).topics
    return ()


def _side(
    spark: SparkSession,
    side: str | DataFrame,
    columns: Sequence[str],
    topics: Sequence[str],
    namesrv: str | None,
    setting: str,
) -> DataFrame:
    if isinstance(side, str):
        source = parse_input(side, namesrv=namesrv, topics=topics, setting=setting)
        return frame(spark, source, columns)
    given = side.select(*columns)
    return given.where(given["topic"].isin(list(topics))) if topics else given


def _counted(findings: DataFrame | None) -> tuple[dict[str, int], tuple[Finding, ...]]:
    if findings is None:
        return {}, ()
    kept = findings.cache()
    try:
        counted = kept.groupBy("kind").count().collect()
        first: list[Any] = kept.orderBy("kind", "topic", "leftPlace", "rightPlace").head(_SHOWN)
    finally:
        kept.unpersist()
    shown = tuple(
        Finding(
            row["kind"],
            row["topic"],
            row["leftPlace"],
            row["rightPlace"],
            row["leftCount"],
            row["rightCount"],
        )
        for row in first
    )
    return {row["kind"]: int(row["count"]) for row in counted}, shown
