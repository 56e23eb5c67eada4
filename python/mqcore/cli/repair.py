"""`mqcore store repair`: builds what is derived from the log again."""

from pathlib import Path

import click

from mqcore.cli.options import damage_choice, settings_of, store_directory
from mqcore.cli.recover import sizes_of
from mqcore.cli.recover import tell as tell_recovery
from mqcore.native import OnDamage, Store, rebuild


@click.command()
@store_directory
@damage_choice
def repair(
    directory: Path,
    config_file: Path | None,
    assignments: tuple[str, ...],
    on_damage: OnDamage | None,
) -> None:
    """Build queues and index of DIR again from its log.

    They are built aside and put into place when they are whole. With --cut or --keep DIR is
    recovered first, as `mqcore store recover` does it; otherwise the log is only read.
    """
    settings = sizes_of(directory, settings_of(config_file, assignments))
    if on_damage is not None:
        with Store(directory, config=settings, on_damage=on_damage) as store:
            tell_recovery(store.open_report())
    rebuilt = rebuild(directory, config=settings)
    click.echo(
        f"built {rebuilt.queues} queues and {rebuilt.index_entries} index entries from "
        f"{rebuilt.records} records; the log ends at {rebuilt.log_end}"
    )
