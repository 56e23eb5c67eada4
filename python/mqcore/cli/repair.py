"""`mqcore store repair`: builds what is derived from the log again."""

from pathlib import Path

import click

from mqcore.cli.options import settings_of, store_directory
from mqcore.cli.recover import sizes_of
from mqcore.cli.recover import tell as tell_recovery
from mqcore.native import Store, rebuild


@click.command()
@store_directory
@click.option(
    "--truncate",
    is_flag=True,
    help="First recover as `recover --truncate` does. Without it the log is only read.",
)
def repair(
    directory: Path, config_file: Path | None, assignments: tuple[str, ...], truncate: bool
) -> None:
    """Build queues and index of DIR again from its log.

    They are built aside and put into place when they are whole.
    """
    settings = sizes_of(directory, settings_of(config_file, assignments))
    if truncate:
        with Store(directory, config=settings, on_damage="cut") as store:
            tell_recovery(store.open_report())
    rebuilt = rebuild(directory, config=settings)
    click.echo(
        f"built {rebuilt.queues} queues and {rebuilt.index_entries} index entries from "
        f"{rebuilt.records} records; the log ends at {rebuilt.log_end}"
    )
