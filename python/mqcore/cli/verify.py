"""`mqcore store verify`: prints everything in a store that disagrees."""

import json
import sys
import threading
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

from mqcore.cli.options import settings_of, store_directory
from mqcore.errors import MQError
from mqcore.native import Findings, Inspection, fields_of

# Between two looks at how far it is.
_LOOK_SECONDS = 0.1


def verified(inspection: Inspection) -> Findings:
    """Verifies, with a progress bar on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return inspection.verify()
    outcome: list[Findings | MQError] = []

    def work() -> None:
        try:
            outcome.append(inspection.verify())
        except MQError as error:
            outcome.append(error)

    worker = threading.Thread(target=work, daemon=True)
    columns = ("log", BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("log", total=inspection.progress().total_bytes)
        worker.start()
        while worker.is_alive():
            worker.join(_LOOK_SECONDS)
            progress.update(task, completed=inspection.progress().seen_bytes)
    first = outcome[0]
    if isinstance(first, MQError):
        raise first
    return first


@click.command()
@store_directory
@click.option("--json", "as_json", is_flag=True, help="The outcome as one JSON object.")
def verify(
    directory: Path, config_file: Path | None, assignments: tuple[str, ...], as_json: bool
) -> None:
    """Walk log, queues and index of DIR and print everything that disagrees.

    Exit code 1 when something does. Notes are what looks odd and has a known reason.
    """
    inspection = Inspection(directory, config=settings_of(config_file, assignments))
    result = verified(inspection)
    if as_json:
        problems = [[each.part, each.at, each.why] for each in result.problems]
        shown = fields_of(result) | {"problems": problems}
        click.echo(json.dumps(shown, ensure_ascii=False, indent=1))
    else:
        print_result(result)
    sys.exit(1 if result.problem_count else 0)


def print_result(result: Findings) -> None:
    """Prints an outcome for people."""
    console = Console(soft_wrap=True, highlight=False)
    console.print(
        f"log: {result.records:,} records and {result.blanks:,} ends of files from "
        f"{result.log_start:,} to {result.log_end:,}"
    )
    console.print(f"queues: {result.queues:,} with {result.units:,} units")
    console.print(f"index: {result.index_files:,} files with {result.index_entries:,} entries")
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    for problem in result.problems:
        console.print(f"{problem.part} {problem.at}: {problem.why}", markup=False, style="red")
    hidden = result.problem_count - len(result.problems)
    if hidden:
        console.print(f"and {hidden:,} more disagreements", style="red")
    if result.problem_count == 0:
        console.print("everything agrees", style="green")
