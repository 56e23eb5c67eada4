"""What a pipeline shows while Spark works: a description in Spark's pages, a bar in the terminal.

Works with a session of this process and, without the bar, with one that is reached by Spark
Connect.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import SparkSession

__all__ = ["Job", "parallelism"]

# Between two looks at how far Spark is.
_LOOK_S = 0.25
# A stage that ended between two looks is not asked for again.
_END_S = 5.0


def parallelism(spark: SparkSession) -> int:
    """Returns how many tasks run at once; behind Spark Connect, how many a shuffle makes."""
    with suppress(Exception):  # Spark Connect has no context, and raises an error of its own.
        return int(spark.sparkContext.defaultParallelism)
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


class Job:
    """What runs in a `with` has a description, and a bar where the terminal can show one."""

    def __init__(self, spark: SparkSession, description: str) -> None:
        """Shows nothing yet.

        Args:
            spark: The session.
            description: What is done, for people.
        """
        self._description = description
        # Spark Connect has neither context nor tracker.
        self._context: Any = None
        with suppress(Exception):
            self._context = spark.sparkContext
        self._before: str | None = None
        self._ended = threading.Event()
        self._watcher: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Sets the description and shows the bar."""
        if self._context is not None:
            self._before = self._context.getLocalProperty("spark.job.description")
            self._context.setJobDescription(self._description)
            if sys.stderr.isatty():
                self._watcher = threading.Thread(
                    target=self._watch, name="mq-spark-bar", daemon=True
                )
                self._watcher.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Takes both away."""
        self._ended.set()
        if self._watcher is not None:
            self._watcher.join(_END_S)
        if self._context is not None:
            self._context.setLocalProperty("spark.job.description", self._before)

    def _watch(self) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("tasks"),
            TimeElapsedColumn(),
        )
        console = Console(stderr=True)
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task(self._description, total=None)
            tracker = self._context.statusTracker()
            while not self._ended.wait(_LOOK_S):
                done = total = 0
                for stage in tracker.getActiveStageIds():
                    info = tracker.getStageInfo(stage)
                    if info is not None:
                        done += info.numCompletedTasks
                        total += info.numTasks
                if total:
                    progress.update(bar, completed=done, total=total)
