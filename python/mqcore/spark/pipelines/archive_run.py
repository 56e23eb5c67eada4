"""Runs the tasks of an archive in rounds and commits each round. Knows no Spark and no store.

Who executes a round is passed in: threads of this process, or a cluster. A run that ends in the
middle has committed its rounds so far; the next one goes on behind them.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mqcore.clock import monotonic_ms, wall_ms
from mqcore.spark.pipelines.archive_directory import ArchiveDirectory
from mqcore.spark.pipelines.archive_tasks import ArchiveTask
from mqcore.spark.pipelines.manifest import PartFile
from mqcore.spark.pipelines.part_writer import write_parts
from mqcore.spark.pipelines.scales import bytes_text
from mqcore.spark.pipelines.spans import Span

__all__ = ["Archived", "Round", "archived_by", "in_threads", "run_rounds"]

_MS_PER_S = 1_000
# What a round gives: the files of each of its tasks.
Round = Callable[[Sequence[ArchiveTask]], list[list[PartFile]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """What a run of `archive` added.

    Attributes:
        target: The archive.
        commits: How many commits.
        files: How many files.
        rows: How many messages.
        body_bytes: Bytes of their bodies, as stored.
        size_bytes: Bytes of the files.
        took_s: Seconds.
        lost: Ranges that no archive has and that are gone from the source.
        held: Why a part of the source was not taken, one sentence; empty where nothing was left.
    """

    target: str
    commits: int
    files: int
    rows: int
    body_bytes: int
    size_bytes: int
    took_s: float
    lost: tuple[Span, ...] = ()
    held: str = ""

    @property
    def exit_code(self) -> int:
        """0, or 1 where something was lost before it was archived."""
        return 1 if self.lost else 0

    def lines(self) -> list[str]:
        """Returns it for people."""
        lines = [
            f"gone before it was archived: {span.source} from {span.begin} to {span.end}"
            for span in self.lost
        ]
        if not self.commits and self.held:
            return [*lines, f"nothing was taken: {self.held}"]
        if not self.commits:
            return [*lines, f"{self.target} has everything already"]
        if self.held:
            lines.append(f"left out: {self.held}")
        rate = self.rows / self.took_s if self.took_s else 0.0
        return [
            *lines,
            f"{self.rows:,} messages ({bytes_text(self.body_bytes)} of bodies) into {self.files:,} "
            f"files of {bytes_text(self.size_bytes)} in {self.took_s:.1f} s, {rate:,.0f}/s",
            self.target,
        ]


def run_rounds(
    archive: ArchiveDirectory,
    tasks: Sequence[ArchiveTask],
    execute: Round,
    *,
    tasks_per_round: int,
    lost: Sequence[Span] = (),
    held: str = "",
    report: Callable[[int, int], None] | None = None,
) -> Archived:
    """Archives what some tasks read.

    Args:
        archive: Where it goes.
        tasks: What is not archived yet, in order.
        execute: Runs a round of tasks and returns the files of each.
        tasks_per_round: How many tasks are committed together.
        lost: What is gone; it is only reported.
        held: Why a part was not taken; it is only reported.
        report: Gets how many tasks are done, and of how many, after every commit.

    Raises:
        ManifestConflictError: Somebody else archives the same.
    """
    began_ms = monotonic_ms()
    files: list[PartFile] = []
    commits = 0
    for at in range(0, len(tasks), tasks_per_round):
        chosen = tasks[at : at + tasks_per_round]
        made = [part for parts in execute(chosen) for part in parts]
        spans = [span for task in chosen for span in task.spans]
        archive.commit(spans, made, wall_ms())
        commits += 1
        files += made
        if report is not None:
            report(at + len(chosen), len(tasks))
    return Archived(
        target=archive.uri,
        commits=commits,
        files=len(files),
        rows=sum(part.rows for part in files),
        body_bytes=sum(part.body_bytes for part in files),
        size_bytes=sum(part.size_bytes for part in files),
        took_s=(monotonic_ms() - began_ms) / _MS_PER_S,
        lost=tuple(lost),
        held=held,
    )


def archived_by(task: ArchiveTask, target: str) -> list[PartFile]:
    """Does one task: reads its rows and writes its files. Runs wherever the task was sent.

    Args:
        task: What to read.
        target: The archive's path or URI.
    """
    return write_parts(ArchiveDirectory(target).files, task.spans, task.batches())


@contextlib.contextmanager
def in_threads(target: str, workers: int) -> Iterator[Round]:
    """Gives a round that runs in threads of this process: decoding and writing need no GIL.

    Args:
        target: The archive's path or URI.
        workers: How many at once.
    """
    stopped = threading.Event()

    def run(task: ArchiveTask) -> list[PartFile]:
        # After Ctrl-C, or a task that failed, nothing new is begun.
        return [] if stopped.is_set() else archived_by(task, target)

    with ThreadPoolExecutor(workers, thread_name_prefix="mq-archive") as pool:

        def execute(tasks: Sequence[ArchiveTask]) -> list[list[PartFile]]:
            return list(pool.map(run, tasks))

        try:
            yield execute
        except BaseException:
            stopped.set()
            pool.shutdown(cancel_futures=True)
            raise
