"""A streaming query into a topic as a program of its own, so that a test can kill it at each step.

    python -m spark.sink_query ARGUMENTS.json

The arguments hold where everything is, and at which step the program is to end by `kill -9`: inside
a task, before or after the sink's commit, within it, or when Spark has written its commit log. Run
again without a step it goes on from its checkpoint and ends by itself. At the step `executor` that
of a task is killed, once, and the program goes on.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.types import StructType

import mqcore.spark
from mqcore.spark.topic_format import TopicFormat
from mqcore.spark.topic_sink.decisions import Decisions
from mqcore.spark.topic_sink.epochs import Decision
from mqcore.spark.topic_sink.planning import stream_writer
from mqcore.spark.topic_sink.sending import TopicClient
from mqcore.spark.topic_sink.settling import Settling
from mqcore.spark.topic_sink.stream_arrow import StreamArrowWriter
from mqcore.spark.topic_sink.writers import Plan

STEPS = ("task", "before commit", "after commit", "after log")
# With delivery exactly-once the commit itself has steps.
EXACT_STEPS = ("task", "before commit", "decided", "in commits", "after commit", "after log")
# Beside the processes' file, when an executor was killed.
EXECUTOR_FLAG = "executor-killed"
# Half messages that are committed when the program is killed among them.
COMMITTED_BEFORE = 5
# The batch that the program is killed in.
KILLED_BATCH = 1


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of the program.

    Attributes:
        namesrv: The name server.
        topic: Where rows go.
        source: A directory of files, two to a batch.
        checkpoint: The query's checkpoint.
        directory: What Spark writes.
        master: Where it runs.
        step: Where it is killed, or empty.
        delivery: The option of the sink.
        processes: Process ids of the program, for whoever kills it.
    """

    namesrv: str
    topic: str
    source: str
    checkpoint: str
    directory: str
    master: str
    step: str = ""
    delivery: str = "at-least-once"

    @property
    def processes(self) -> Path:
        """The file with the process ids: the JVM's, and the program's."""
        return Path(self.directory) / "processes"

    def write(self, path: Path) -> Path:
        """Writes them down for the program."""
        path.write_text(json.dumps(asdict(self)), "utf-8")
        return path


def kill(processes: Path) -> None:
    """Ends the program and its JVM at once, and the worker of theirs that calls."""
    for number in processes.read_text("utf-8").split():
        os.kill(int(number), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def kill_executor(processes: Path) -> None:
    """Ends the executor of the task that calls, unless one was ended before."""
    flag = processes.with_name(EXECUTOR_FLAG)
    if flag.exists():
        return
    flag.touch()
    # The worker's parent is the daemon of all workers, that one's is the executor.
    executor = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
    os.kill(int(executor), signal.SIGKILL)


class KilledWriter(StreamArrowWriter):
    """The writer of streams, and a hand on the plug."""

    def __init__(self, plan: Plan, step: str, processes: Path) -> None:
        super().__init__(plan)
        self._step = step
        self._processes = processes

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        is_batch = context.getLocalProperty("streaming.sql.batchId") == str(KILLED_BATCH)
        plug = {"task": kill, "executor": kill_executor}.get(self._step)
        if plug is not None and is_batch and context.partitionId() == 1:

            def torn() -> Iterator[pa.RecordBatch]:
                yield next(iterator)
                plug(self._processes)
                yield from iterator

            return super().write(torn())
        return super().write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if batchId == KILLED_BATCH:
            if self._step == "before commit":
                kill(self._processes)
            kill_within(self._step, self._processes)
        super().commit(messages, batchId)
        if self._step == "after commit" and batchId == KILLED_BATCH:
            kill(self._processes)


def kill_within(step: str, processes: Path) -> None:
    """Pulls the plug in the commit of an epoch, where that is the step."""
    written, asked, count = Decisions.write, Settling._ask, 0

    def write(self: Decisions, client: TopicClient, decision: Decision) -> Decision:
        found = written(self, client, decision)
        kill(processes)
        return found

    async def ask(self: Settling, link: Any, fields: dict[str, str]) -> None:
        nonlocal count
        await asked(self, link, fields)
        count += 1
        if count == COMMITTED_BEFORE:
            kill(processes)

    if step == "decided":
        setattr(Decisions, "write", write)  # noqa: B010 - a method, which has no other way
    if step == "in commits":
        setattr(Settling, "_ask", ask)  # noqa: B010


class KilledFormat(TopicFormat):
    """Our format with that writer."""

    @classmethod
    def name(cls) -> str:
        return "mqcore-killed"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options = dict(self.options)
        step, processes = options.pop("step"), options.pop("processes")
        plan: Any = stream_writer(options, schema, overwrite=overwrite)
        return KilledWriter(plan._plan, step, Path(processes))


class KillAfterLog(StreamingQueryListener):
    """Pulls the plug when the commit log has the batch: its progress comes after that."""

    def __init__(self, processes: Path) -> None:
        self._processes = processes

    def onQueryStarted(self, event: Any) -> None: ...

    def onQueryIdle(self, event: Any) -> None: ...

    def onQueryTerminated(self, event: Any) -> None: ...

    def onQueryProgress(self, event: Any) -> None:
        if event.progress.batchId == KILLED_BATCH:
            kill(self._processes)


def rows_of(spark: Any, source: str) -> DataFrame:
    """Returns the rows of the query: a batch is two files, and each file a task."""
    read: DataFrame = (
        spark.readStream.schema("n bigint").option("maxFilesPerTrigger", "2").json(source)
    )
    return read.selectExpr("lpad(cast(n AS string), 200, '0') AS body")


def run(arguments: Arguments) -> None:
    """Runs the query to its end."""
    directory = Path(arguments.directory)
    spark = mqcore.spark.session(
        "sink query",
        master=arguments.master,
        config={
            "spark.ui.enabled": False,
            "spark.default.parallelism": 2,
            "spark.local.dir": directory / "local",
            "spark.sql.warehouse.dir": directory / "warehouse",
            "spark.sql.execution.arrow.maxRecordsPerBatch": 100,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.cores": 1,
        },
    )
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    number = jvm.java.lang.ProcessHandle.current().pid()
    arguments.processes.write_text(f"{number} {os.getpid()}", "utf-8")
    spark.dataSource.register(KilledFormat)
    if arguments.step == "after log":
        spark.streams.addListener(KillAfterLog(arguments.processes))
    query = (
        rows_of(spark, arguments.source)
        .writeStream.format("mqcore-killed")
        .options(
            namesrv=arguments.namesrv,
            topic=arguments.topic,
            checkpointLocation=arguments.checkpoint,
            step=arguments.step,
            processes=str(arguments.processes),
            batchBytes="4k",
            delivery=arguments.delivery,
        )
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    run(Arguments(**json.loads(Path(sys.argv[1]).read_text("utf-8"))))
