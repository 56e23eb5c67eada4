"""The pipeline `archive`: a store, or topics, become Parquet by topic and day.

Tasks read records and write files themselves: no row passes Spark's JVM. The driver plans what the
manifest does not have yet and commits what the tasks wrote.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from mqcore.spark.pipelines.archive_directory import ArchiveDirectory
from mqcore.spark.pipelines.archive_run import Archived, archived_by, run_rounds
from mqcore.spark.pipelines.archive_tasks import plan_store
from mqcore.spark.pipelines.errors import PipelineError, PipelineSettingError
from mqcore.spark.pipelines.inputs import parse_input
from mqcore.spark.pipelines.jobs import Job, parallelism
from mqcore.spark.pipelines.manifest import PartFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from mqcore.spark.pipelines.archive_tasks import ArchiveTask
    from mqcore.spark.pipelines.spans import Span

__all__ = ["SPLIT_BYTES", "archive"]

# Bytes of a log per task: some seconds of work, and files of a size that readers like.
SPLIT_BYTES = 256 << 20
# Rounds of so many tasks per slot: a commit each minute or so, and slots that seldom wait.
_TURNS = 4


def archive(
    spark: SparkSession,
    source: str,
    target: str,
    *,
    namesrv: str | None = None,
    topics: Sequence[str] = (),
    name: str | None = None,
    broker_name: str | None = None,
    split_bytes: int = SPLIT_BYTES,
    flushed: bool = False,
) -> Archived:
    """Archives what is not archived yet.

    Args:
        spark: The session.
        source: store:DIRECTORY or topic:NAME.
        target: The archive's path or URI; every machine must reach it, and the store.
        namesrv: Name servers, where the source is a topic.
        topics: Only these; all but the broker's own where not given.
        name: What the manifest calls the store; the directory's name where not given.
        broker_name: The value of the column brokerName for a store's messages.
        split_bytes: Bytes of the log that one task reads.
        flushed: Whether to take the flushed part of an open store's files that are not full.

    Raises:
        PipelineSettingError: Settings contradict each other, or the archive.
        ManifestConflictError: Somebody else archives the same.
    """
    read = parse_input(source, namesrv=namesrv, topics=topics)
    directory = ArchiveDirectory(target)
    directory.files.clear()
    manifest = directory.manifest()
    lost: Sequence[Span]
    tasks: Sequence[ArchiveTask]
    held = ""
    if read.kind == "archive":
        raise PipelineSettingError(
            f"source is {source!r}: what is archived already is not archived again; "
            "store:DIRECTORY or topic:NAME is expected",
            setting="source",
        )
    if read.kind == "topic":
        from mqcore.spark.pipelines.topic_tasks import plan_topics

        topic_plan = plan_topics(read, manifest, split_bytes=split_bytes)
        tasks, lost = topic_plan.tasks, topic_plan.lost
    else:
        plan = plan_store(
            read.where,
            manifest,
            name=name,
            topics=topics,
            broker_name=broker_name,
            split_bytes=split_bytes,
            flushed=flushed,
        )
        tasks, lost, held = plan.tasks, plan.lost, plan.held
    slots = parallelism(spark)
    done = 0

    def execute(chosen: Sequence[ArchiveTask]) -> list[list[PartFile]]:
        nonlocal done
        done += len(chosen)
        with Job(spark, f"archive {source}: task {done} of {len(tasks)}"):
            return _on_cluster(spark, chosen, directory.uri)

    return run_rounds(
        directory, tasks, execute, tasks_per_round=slots * _TURNS, lost=lost, held=held
    )


def _on_cluster(
    spark: SparkSession, tasks: Sequence[ArchiveTask], target: str
) -> list[list[PartFile]]:
    """Runs each task in a Spark task of its own and returns their files in the order of tasks."""
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    rows = numbers.mapInArrow(_runner(list(tasks), target), "id bigint, files string").collect()
    return files_of(((row["id"], row["files"]) for row in rows), len(tasks))


def files_of(results: Iterable[tuple[int, str]], count: int) -> list[list[PartFile]]:
    """Returns the files of each task, in the order of tasks.

    The stream of a JVM that dies ends as any other, so that the results show by themselves which
    tasks came to their ends: a round is committed when every one of them did.

    Args:
        results: Numbers of tasks, and their files as JSON.
        count: How many tasks there are.

    Raises:
        PipelineError: Some returned nothing.
    """
    found = dict(results)
    silent = [number for number in range(count) if number not in found]
    if silent:
        raise PipelineError(
            f"{len(silent)} of {count} tasks came to no end (the first is number {silent[0]}): "
            "nothing of this round was archived; run the pipeline again"
        )
    return [[PartFile(**part) for part in json.loads(found[number])] for number in range(count)]


def _runner(
    tasks: Sequence[ArchiveTask], target: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in numbers:
            for number in batch.column("id").to_pylist():
                files = json.dumps([asdict(part) for part in archived_by(tasks[number], target)])
                yield pa.RecordBatch.from_pydict({"id": [number], "files": [files]})

    return run
