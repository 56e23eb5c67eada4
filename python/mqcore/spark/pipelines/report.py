"""The pipeline `report`: what was stored when, how large, how fast, how even, and who is behind.

One pass over the rows, without their bodies. Writes `report.html` and the figures as Parquet.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mqcore.clock import wall_ms
from mqcore.spark.directories import Directory, directory_of
from mqcore.spark.locations import Location
from mqcore.spark.pipelines.errors import PipelineSettingError
from mqcore.spark.pipelines.inputs import frame, parse_input
from mqcore.spark.pipelines.jobs import Job
from mqcore.spark.pipelines.pictures import need_matplotlib
from mqcore.spark.pipelines.scales import bytes_text, duration_text
from mqcore.spark.pipelines.traffic import (
    GroupLag,
    QueueTraffic,
    SizeClass,
    TimeSlice,
    Traffic,
    bucket_for,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Reported", "report", "traffic_of"]

_COLUMNS = (
    "topic",
    "storeHost",
    "queueId",
    "queueOffset",
    "bodyLength",
    "bornTimestamp",
    "storeTimestamp",
)
# Percentiles are exact to one part in so many rows.
_ACCURACY = 2_000
# One query for all tables: the rows are read once. Bits of grouping_id, from the left: topic,
# storeHost, queueId, slice, size.
_BY_QUEUE, _BY_TIME, _BY_SIZE = 0b00011, 0b01101, 0b01110
_QUERY = """
SELECT grouping_id() AS kind, topic, storeHost, queueId, slice, size,
       count(*) AS messages, sum(CAST(bodyLength AS BIGINT)) AS bytes,
       min(queueOffset) AS first, max(queueOffset) AS last,
       percentile_approx(took, array(0.5, 0.99), {accuracy}) AS percentiles, max(took) AS longest
FROM (
  SELECT topic, storeHost, queueId, queueOffset, bodyLength,
         unix_millis(storeTimestamp) DIV {bucket} AS slice,
         CASE WHEN bodyLength <= 0 THEN -1 ELSE CAST(ceil(log2(bodyLength)) AS INT) END AS size,
         unix_millis(storeTimestamp) - unix_millis(bornTimestamp) AS took
  FROM {rows}
)
GROUP BY GROUPING SETS ((topic, storeHost, queueId), (topic, slice), (topic, size))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What `report` made.

    Attributes:
        page: The path of the page.
        traffic: The figures.
    """

    page: str
    traffic: Traffic

    @property
    def exit_code(self) -> int:
        """0: what fails raises."""
        return 0

    def lines(self) -> list[str]:
        """Returns it for people."""
        traffic = self.traffic
        size, topics = bytes_text(traffic.body_bytes), len(traffic.topics)
        worst = duration_text(traffic.worst_p99_ms)
        return [
            f"{traffic.messages:,} messages, {size}, {topics} topics; at most "
            f"{traffic.peak_per_s:,.0f} messages/s; worst p99 to the store {worst}",
            self.page,
        ]


def report(
    spark: SparkSession,
    source: str | DataFrame,
    target: str,
    *,
    namesrv: str | None = None,
    topics: Sequence[str] = (),
    groups: Sequence[str] = (),
    bucket_ms: int = 0,
    title: str = "Traffic",
) -> Reported:
    """Writes a report of what a source holds.

    Args:
        spark: The session.
        source: topic:NAME, store:DIRECTORY or archive:PATH.
        target: Directory that gets report.html, slices.parquet, queues.parquet, sizes.parquet.
        namesrv: Name servers, where the source is a topic or groups are given.
        topics: Only these; all of the source where not given.
        groups: Consumer groups whose lag is reported too.
        bucket_ms: The span of time that is counted together; 0 for what fits.
        title: The head of the page.

    Raises:
        PipelineSettingError: Groups without a name server.
        PipelineError: A package that draws the page is not installed.
    """
    # Before the hours that the counting may take.
    need_matplotlib()
    if groups and namesrv is None:
        raise PipelineSettingError(
            "groups are asked of a cluster: give its name servers by namesrv", setting="namesrv"
        )
    if isinstance(source, str):
        rows = frame(spark, parse_input(source, namesrv=namesrv, topics=topics), _COLUMNS)
    else:
        rows = source.where(source["topic"].isin(list(topics))) if topics else source
    source_name = source if isinstance(source, str) else "a DataFrame"
    with Job(spark, f"report on {source_name}"):
        traffic = traffic_of(rows.select(*_COLUMNS), bucket_ms=bucket_ms)
    if groups and namesrv is not None:
        lags = asyncio.run(_lags(namesrv, groups))
        traffic = Traffic(
            bucket_ms=traffic.bucket_ms,
            slices=traffic.slices,
            queues=traffic.queues,
            sizes=traffic.sizes,
            lags=lags,
        )
    directory = directory_of(Location.of(target).absolute())
    for name, table in (
        ("slices", traffic.slices),
        ("queues", traffic.queues),
        ("sizes", traffic.sizes),
    ):
        _write_table(directory, f"{name}.parquet", table)
    # Here, so that archives can be written without a template library.
    from mqcore.spark.pipelines.traffic_page import traffic_page

    html = traffic_page(traffic, title=title, source=source_name, made_ms=wall_ms())
    # Last, so that a page exists only when its tables do.
    with directory.writing(directory.below("report.html")) as sink:
        sink.write(html.encode())
    return Reported(page=f"{directory.uri}/report.html", traffic=traffic)


def traffic_of(rows: DataFrame, *, bucket_ms: int = 0) -> Traffic:
    """Counts the figures of a report.

    Args:
        rows: Has topic, storeHost, queueId, queueOffset, bodyLength, bornTimestamp and
            storeTimestamp.
        bucket_ms: The span of time that is counted together; 0 for what fits.
    """
    spark = rows.sparkSession
    bucket_ms = bucket_ms or _fitting_bucket(rows)
    counted = spark.sql(_QUERY, rows=rows, bucket=bucket_ms, accuracy=_ACCURACY).collect()
    slices, queues, sizes = [], [], []
    for row in counted:
        if row["kind"] == _BY_TIME:
            median, p99 = row["percentiles"]
            slices.append(
                TimeSlice(
                    topic=row["topic"],
                    begin_ms=row["slice"] * bucket_ms,
                    messages=row["messages"],
                    body_bytes=row["bytes"],
                    median_ms=float(median),
                    p99_ms=float(p99),
                    max_ms=float(row["longest"]),
                )
            )
        elif row["kind"] == _BY_QUEUE:
            queues.append(
                QueueTraffic(
                    topic=row["topic"],
                    host=row["storeHost"],
                    queue_id=row["queueId"],
                    messages=row["messages"],
                    body_bytes=row["bytes"],
                    first_offset=row["first"],
                    last_offset=row["last"],
                )
            )
        elif row["kind"] == _BY_SIZE:
            bound = 0 if row["size"] < 0 else 1 << row["size"]
            sizes.append(SizeClass(topic=row["topic"], bound_bytes=bound, messages=row["messages"]))
    return Traffic(
        bucket_ms=bucket_ms,
        slices=sorted(slices, key=lambda one: (one.topic, one.begin_ms)),
        queues=sorted(queues, key=lambda one: (one.topic, one.host, one.queue_id)),
        sizes=sorted(sizes, key=lambda one: (one.topic, one.bound_bytes)),
    )


def _fitting_bucket(rows: DataFrame) -> int:
    from pyspark.sql import functions as F

    bounds = rows.agg(
        F.unix_millis(F.min("storeTimestamp")).alias("first"),
        F.unix_millis(F.max("storeTimestamp")).alias("last"),
    ).first()
    if bounds is None or bounds["first"] is None:
        return bucket_for(0, 0)
    return bucket_for(bounds["first"], bounds["last"])


async def _lags(namesrv: str, groups: Iterable[str]) -> list[GroupLag]:
    """Asks the brokers how far groups are behind."""
    from mqcore.admin import Admin

    found = []
    async with Admin(namesrv) as admin:
        for group in groups:
            by_topic: defaultdict[str, list[int]] = defaultdict(list)
            for row in (await admin.groups.progress(group, must_exist=False)).queues:
                by_topic[row.queue.topic].append(row.lag)
            found += [
                GroupLag(
                    group=group, topic=topic, queues=len(lag), lag=sum(lag), worst_queue=max(lag)
                )
                for topic, lag in sorted(by_topic.items())
            ]
    return found


def _write_table(directory: Directory, path: str, rows: Sequence[Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([asdict(row) for row in rows])
    with directory.writing(directory.below(path)) as sink:
        pq.write_table(table, sink, compression="zstd")
