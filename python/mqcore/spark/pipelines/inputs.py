"""What a pipeline reads, as a text: `topic:orders`, `store:/data/store`, `archive:s3://bucket/a`.

The text is parsed here without Spark; `frame` makes the DataFrame. Every kind gives the columns of
`mqcore.spark.schema`, and only those that were asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mqcore.spark.pipelines.archive_directory import ArchiveDirectory
from mqcore.spark.pipelines.errors import PipelineSettingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["KINDS", "Input", "archive_frame", "frame", "parse_input"]

KINDS = ("topic", "store", "archive")
# What names a queue of a broker among records of several: the broker that stored them. A store does
# not know its broker's name, and records carry the host.
LOCATION_COLUMNS = ("topic", "storeHost", "queueId", "queueOffset")


@dataclass(frozen=True, slots=True)
class Input:
    """Where rows come from.

    Attributes:
        kind: `topic`, `store` or `archive`.
        where: Topics separated by commas, a directory, a path or URI.
        namesrv: Name servers, for topics.
        topics: Only these; all of them where it is empty.
        options: Further options of the format that reads.
    """

    kind: str
    where: str
    namesrv: str | None = None
    topics: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Returns the text that it was made of."""
        return f"{self.kind}:{self.where}"


def parse_input(
    text: str,
    *,
    namesrv: str | None = None,
    topics: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    setting: str = "source",
) -> Input:
    """Returns what a text names.

    Args:
        text: KIND:WHERE.
        namesrv: Name servers, for topics.
        topics: Only these.
        options: Further options of the format that reads.
        setting: The setting that has the text, for the error.

    Raises:
        PipelineSettingError: It names nothing, or topics without a name server.
    """
    kind, separator, where = text.partition(":")
    if not separator or kind not in KINDS or not where:
        raise PipelineSettingError(
            f"{setting} is {text!r}; one of topic:NAME[,NAME], store:DIRECTORY or "
            "archive:PATH-OR-URI is expected",
            setting=setting,
        )
    if kind == "topic":
        named = tuple(name for name in where.split(",") if name)
        if namesrv is None:
            raise PipelineSettingError(
                f"{setting} is {text!r} and there is no namesrv: give host:port of a name server",
                setting="namesrv",
            )
        strange = [name for name in topics if name not in named]
        if strange:
            raise PipelineSettingError(
                f"topics has {', '.join(strange)}, which {setting} {text!r} does not read",
                setting="topics",
            )
        topics = tuple(topics) or named
    return Input(kind, where, namesrv, tuple(topics), dict(options or {}))


def frame(spark: SparkSession, source: Input, columns: Iterable[str]) -> DataFrame:
    """Returns the rows of an input.

    Args:
        spark: The session.
        source: What to read.
        columns: Names of `mqcore.spark.schema`; nothing else is decoded or moved.

    Raises:
        ArchiveError: It is no archive.
    """
    names = list(columns)
    if source.kind == "archive":
        return archive_frame(spark, source.where, names, topics=source.topics)
    from mqcore.spark.schema import READ_COLUMNS

    types = {column.name: column.ddl for column in READ_COLUMNS}
    ddl = ", ".join(f"`{name}` {types[name]}" for name in names)
    if source.kind == "store":
        reader = spark.read.format("mqcore-store").schema(ddl)
        if source.topics:
            reader = reader.option("topics", ",".join(source.topics))
        return reader.options(**source.options).load(source.where)
    reader = spark.read.format("mqcore").schema(ddl).option("namesrv", str(source.namesrv))
    return reader.option("subscribe", ",".join(source.topics)).options(**source.options).load()


def archive_frame(
    spark: SparkSession,
    target: str,
    columns: Iterable[str] | None = None,
    *,
    topics: Sequence[str] = (),
) -> DataFrame:
    """Returns the rows of an archive: of the files that its manifest names, and of no others.

    Args:
        spark: The session.
        target: Its path or URI.
        columns: Names of `mqcore.spark.schema`, and `dt`; all where not given.
        topics: Only these; all where it is empty.

    Raises:
        ArchiveError: It is no archive.
    """
    from mqcore.spark.pipelines.archive_schema import archive_ddl

    directory = ArchiveDirectory(target)
    files = directory.required_manifest().files(topics or None)
    ddl = archive_ddl()
    if files:
        paths = [f"{directory.uri.rstrip('/')}/{part.path}" for part in files]
        reader = spark.read.schema(ddl).option("basePath", directory.uri)
        rows = reader.parquet(*paths)
    else:
        rows = spark.createDataFrame([], ddl)
    return rows if columns is None else rows.select(*columns)
