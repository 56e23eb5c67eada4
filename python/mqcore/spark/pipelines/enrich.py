"""The pipeline `enrich`: a stream of JSON messages joined with a table. An example that works.

Each body is a JSON object; a table (CSV with a head, or Parquet) adds its columns to it; the
result goes to Parquet files or, as JSON again, to another topic. A checkpoint remembers how far it
came, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mqcore.spark.pipelines.errors import PipelineSettingError
from mqcore.spark.pipelines.inputs import parse_input
from mqcore.spark.pipelines.jobs import Job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["Enriched", "enrich", "enriched"]

_TOPIC = "topic:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Enriched:
    """What a run of `enrich` did.

    Attributes:
        target: Where the rows went.
        rows: How many were read.
        batches: In so many micro-batches.
    """

    target: str
    rows: int
    batches: int

    @property
    def exit_code(self) -> int:
        """0: what fails raises."""
        return 0

    def lines(self) -> list[str]:
        """Returns it for people."""
        return [f"{self.rows:,} messages joined in {self.batches} batches into {self.target}"]


def enrich(
    spark: SparkSession,
    source: str,
    target: str,
    *,
    namesrv: str,
    table: str,
    on: Sequence[str],
    schema: str,
    checkpoint: str,
    continuous: bool = False,
) -> Enriched:
    """Joins the messages of a topic with a table.

    Args:
        spark: The session.
        source: topic:NAME.
        target: A directory for Parquet, or topic:NAME for JSON messages.
        namesrv: Name servers.
        table: CSV file with a head, or Parquet.
        on: Columns that message and table have in common.
        schema: The body's members as DDL, such as "id INT, carrier STRING".
        checkpoint: Directory that remembers how far it came.
        continuous: Goes on until it is stopped; otherwise ends with what is there now.

    Raises:
        PipelineSettingError: The source is no topic, or a column is not on both sides.
    """
    read = parse_input(source, namesrv=namesrv)
    if read.kind != "topic":
        raise PipelineSettingError(
            f"source is {source!r}: a stream comes from topic:NAME", setting="source"
        )
    stream = (
        spark.readStream.format("mqcore")
        .schema("body binary, keys string, tags string")
        .option("namesrv", namesrv)
        .option("subscribe", ",".join(read.topics))
        .option("startingOffsets", "earliest")
        .load()
    )
    joined = enriched(stream, _table(spark, table), on, schema)
    writer = _written(joined, target, namesrv).option("checkpointLocation", checkpoint)
    writer = writer.queryName(f"enrich {source}")
    if continuous:
        writer = writer.trigger(processingTime="1 second")
    else:
        writer = writer.trigger(availableNow=True)
    with Job(spark, f"enrich {source} with {table}"):
        query: StreamingQuery = (
            writer.start() if target.startswith(_TOPIC) else writer.start(target)
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()
    progress = [one for one in query.recentProgress if one.numInputRows]
    rows = sum(one.numInputRows for one in progress)
    return Enriched(target=target, rows=rows, batches=len(progress))


def enriched(messages: DataFrame, table: DataFrame, on: Sequence[str], schema: str) -> DataFrame:
    """Returns messages with the table's columns beside their own; all messages are kept.

    Args:
        messages: Has `body`: JSON objects.
        table: The columns to add.
        on: Columns that both have.
        schema: The body's members as DDL.

    Raises:
        PipelineSettingError: A column is not on both sides.
    """
    from pyspark.sql import functions as F

    body = F.from_json(F.col("body").cast("string"), schema).alias("message")
    parsed = messages.select(body).select("message.*")
    for side, columns in (("the message", parsed.columns), ("the table", table.columns)):
        missing = [name for name in on if name not in columns]
        if missing:
            raise PipelineSettingError(
                f"on has {', '.join(missing)}, and {side} has only {', '.join(columns)}",
                setting="on",
            )
    return parsed.join(F.broadcast(table), list(on), "left")


def _table(spark: SparkSession, table: str) -> DataFrame:
    if Path(table).suffix.lower() in (".csv", ".gz"):
        return spark.read.csv(table, header=True, inferSchema=True)
    return spark.read.parquet(table)


def _written(rows: DataFrame, target: str, namesrv: str) -> DataStreamWriter:
    from pyspark.sql import functions as F

    if not target.startswith(_TOPIC):
        return rows.writeStream.format("parquet")
    body = F.to_json(F.struct(*rows.columns)).alias("body")
    topic = target.removeprefix(_TOPIC)
    writer = rows.select(body).writeStream.format("mqcore")
    return writer.option("namesrv", namesrv).option("topic", topic)
