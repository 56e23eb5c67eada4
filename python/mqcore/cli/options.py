"""What the store commands share: the directory, and settings from a file or one by one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mqcore.config import read_properties

_Command = Callable[..., Any]


def store_directory(command: _Command) -> _Command:
    """Adds the argument DIR and the options `-c` and `--set`."""
    command = click.option(
        "--set",
        "assignments",
        metavar="KEY=VALUE",
        multiple=True,
        help="One setting by its official key; wins over the file.",
    )(command)
    command = click.option(
        "-c",
        "--config",
        "config_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A broker.conf; without it the sizes of files are taken from the files.",
    )(command)
    return click.argument(
        "directory",
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
    )(command)


def damage_choice(command: _Command) -> _Command:
    """Adds `--cut` and `--keep`: what to do about damage in the log; neither: refuse."""
    command = click.option(
        "--keep",
        "on_damage",
        flag_value="keep",
        help="Put a record of the same length in place of each damaged one; all others stay.",
    )(command)
    return click.option(
        "--cut",
        "on_damage",
        flag_value="cut",
        help="Cut the log at the first damage: whole records behind it are lost for readers.",
    )(command)


def settings_of(config_file: Path | None, assignments: tuple[str, ...]) -> dict[str, str]:
    """Returns the settings of a file with the single ones over them."""
    settings = read_properties(config_file) if config_file else {}
    # The directory is the argument, whatever store the broker's own file names.
    settings.pop("storePathRootDir", None)
    settings.pop("storePathCommitLog", None)
    for assignment in assignments:
        key, separator, value = assignment.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{assignment!r}: KEY=VALUE expected", param_hint="--set")
        settings[key.strip()] = value.strip()
    return settings
