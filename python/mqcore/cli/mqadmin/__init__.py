"""`mqcore admin NAME`: every command of RocketMQ's mqadmin, with its arguments.

Text for people is that of mqadmin where that is reasonable, `--json` gives the same as data, and a
failure is one line and exit code 2. What a command asks and prints is in a function of its family;
this file makes commands out of the table.
"""

from collections.abc import Iterable

import click

from mqcore.cli.mqadmin.building import command_of
from mqcore.cli.mqadmin.table import find, rows

__all__ = ["admin"]


class _Commands(click.Group):
    """Commands that are made when they are asked for, by their names in any case."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns all names, as the table has them."""
        del ctx
        return list(rows())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns a command."""
        del ctx
        row = find(cmd_name)
        return None if row is None else command_of(row)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command; suggests the nearest name where there is none."""
        if find(args[0]) is None:
            near = _near(args[0], rows())
            raise click.UsageError(f"No such command {args[0]!r}{near}.", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list, without making the commands."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(
                [(row.name, row.words if row.function else "refused") for row in rows().values()]
            )


def _near(name: str, names: Iterable[str]) -> str:
    # Imported here: only somebody who misspells needs it.
    import difflib

    folded = {each.lower(): each for each in names}
    close = difflib.get_close_matches(name.lower(), folded, n=1)
    return f": did you mean {folded[close[0]]}?" if close else ""


@click.group(cls=_Commands)
def admin() -> None:
    """Run a command of RocketMQ's mqadmin by its name, with its arguments.

    Works with brokers of RocketMQ and of mqcore alike. Exit code 2 and one line where it fails.
    """
