"""`mqcore store archive`: a store becomes Parquet by topic and day, without Spark."""

import os
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_MIB = 1 << 20
# So many tasks per worker and commit: what a run that is killed does again is little.
_TURNS = 4


@click.command()
@click.argument(
    "directory",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.argument("target")
@click.option("-t", "--topic", "topics", multiple=True, help="Only this topic (repeatable).")
@click.option("--name", help="What the manifest calls the store; the directory's name by default.")
@click.option("--broker-name", help="The value of the column brokerName.")
@click.option(
    "-j",
    "--workers",
    type=click.IntRange(1),
    default=lambda: os.cpu_count() or 1,
    help="Threads that read and write; as many as cores by default.",
)
@click.option(
    "--split-mib",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    help="MiB of the log per file and topic.",
)
@click.option(
    "--flushed", is_flag=True, help="Of an open store also the flushed part of its last files."
)
def archive(
    directory: Path,
    target: str,
    topics: tuple[str, ...],
    name: str | None,
    broker_name: str | None,
    workers: int,
    split_mib: int,
    flushed: bool,
) -> None:
    """Write what TARGET does not have yet of the store DIR as Parquet.

    TARGET is a directory or a URI such as s3://bucket/archive: topic=NAME/dt=DAY/*.parquet, and a
    manifest that names the files that count. A run that is killed is finished by the next one. Of
    a store that is open only files that are full and flushed are taken, unless --flushed.

    The same as the pipeline `archive` of `mqcore spark`, on one machine. Exit code 1 when the store
    had forgotten something before it was archived.
    """
    from mqcore.spark.setup import need_arrow

    need_arrow()
    from mqcore.spark.pipelines.archive_directory import ArchiveDirectory
    from mqcore.spark.pipelines.archive_run import in_threads, run_rounds
    from mqcore.spark.pipelines.archive_tasks import plan_store

    target_directory = ArchiveDirectory(target)
    target_directory.files.clear()
    plan = plan_store(
        str(directory),
        target_directory.manifest(),
        name=name,
        topics=topics,
        broker_name=broker_name,
        split_bytes=split_mib * _MIB,
        flushed=flushed,
    )
    columns = (
        TextColumn("archive"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("parts"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
        in_threads(target_directory.uri, workers) as execute,
    ):
        task = bar.add_task("archive", total=len(plan.tasks))
        done = run_rounds(
            target_directory,
            plan.tasks,
            execute,
            tasks_per_round=workers * _TURNS,
            lost=plan.lost,
            held=plan.held,
            report=lambda count, _: bar.update(task, completed=count),
        )
    for line in done.lines():
        click.echo(line)
    sys.exit(done.exit_code)
