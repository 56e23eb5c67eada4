"""Makes a command of a row of the table: its options, the check of its arguments, its function.

Imports the function's module when the command runs: help and completion need the table alone.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import click

from mqcore.cli.cluster import Cluster, cluster_options
from mqcore.cli.mqadmin.table import Argument, Row

__all__ = ["command_of"]

_PREFIX: Final = "given_"
# mqadmin's long name of `-n`, which its users write.
_NAMESRV: Final = "--namesrvAddr"


def command_of(row: Row) -> click.Command:
    """Returns the command of a row."""

    @cluster_options
    def run(cluster: Cluster, **values: Any) -> None:
        if row.reason:
            raise click.ClickException(f"{row.name} is refused: {row.reason}")
        given = {
            each.name: values[_parameter(each)]
            for each in row.arguments
            if values[_parameter(each)] not in (None, False)
        }
        _check_groups(row, given)
        # Imported here: this is what the command needs, and nothing before it.
        from mqcore.cli.mqadmin.call import run_command

        module, function = row.function.split(".")
        work = getattr(import_module(f"mqcore.cli.mqadmin.{module}"), function)
        run_command(row, cluster, given, work)

    command = click.command(
        name=row.name,
        help=_help(row),
        short_help=row.words,
        context_settings={"help_option_names": ["-h", "--help"]},
    )(run)
    own = [_option(each, is_refused=bool(row.reason)) for each in row.arguments]
    command.params[:0] = own
    for parameter in command.params[len(own) :]:
        if "--namesrv" in parameter.opts:
            parameter.opts.append(_NAMESRV)
    return command


def _parameter(argument: Argument) -> str:
    return f"{_PREFIX}{argument.name}"


def _option(argument: Argument, *, is_refused: bool) -> click.Option:
    names = [f"-{argument.short}"] if argument.short else []
    names += [f"--{argument.long}", _parameter(argument)]
    if not argument.takes_value:
        return click.Option(names, is_flag=True, help=argument.words)
    is_required = argument.is_required and not is_refused
    # Without `is_flag` at all: else click takes a value such as -1 for another option.
    return click.Option(names, required=is_required, metavar=argument.long, help=argument.words)


def _help(row: Row) -> str:
    """Returns what the command does, what it asks, and whether it is refused."""
    parts = [row.words]
    if row.reason:
        parts.append(f"Refused: {row.reason}.")
    if row.codes:
        parts.append(f"Requests: {', '.join(map(str, row.codes))}.")
    if not row.is_current:
        parts.append("A command of mqadmin 4.9; 5.3.3 and later have it no more.")
    parts += [
        f"Exactly one of {', '.join(each.shown for each in group)}." for group in _groups(row)
    ]
    return "\n\n".join(parts)


def _groups(row: Row) -> list[list[Argument]]:
    """Returns the groups of options of which exactly one is given."""
    marks = dict.fromkeys(each.one_of for each in row.arguments if each.one_of)
    return [[each for each in row.arguments if each.one_of == mark] for mark in marks]


def _check_groups(row: Row, given: Mapping[str, Any]) -> None:
    """Refuses none, or more than one, of options that exclude one another."""
    for group in _groups(row):
        if sum(each.name in given for each in group) != 1:
            shown = ", ".join(each.shown for each in group)
            raise click.UsageError(f"exactly one of {shown}")
