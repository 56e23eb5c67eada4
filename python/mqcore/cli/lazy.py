"""Commands that are imported when they are asked for: a server does not wait for tables and bars.

    @click.group(
        cls=LazyGroup,
        commands=LazyCommands({"store": "mqcore.cli.store"}),
        helps={"store": "Look at store directories."},
    )

A module holds its command under the command's name. The list of commands imports none of them.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any

import click

__all__ = ["LazyCommands", "LazyGroup"]


class LazyCommands(MutableMapping[str, click.Command]):
    """Commands by name, as click's groups keep them; some are only the name of a module yet."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        """Takes the module of each command."""
        self._modules = dict(modules)
        self._commands: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        """Returns a command, imported if it has to be."""
        if name not in self._commands and name in self._modules:
            self._commands[name] = getattr(import_module(self._modules[name]), name)
        return self._commands[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        """Adds a command that is there already."""
        self._commands[name] = command

    def __delitem__(self, name: str) -> None:
        """Removes a command."""
        if self._modules.pop(name, None) is None or name in self._commands:
            del self._commands[name]

    def __iter__(self) -> Iterator[str]:
        """Yields all names; imports nothing."""
        return iter(self._modules.keys() | self._commands.keys())

    def __len__(self) -> int:
        """Returns how many there are."""
        return len(self._modules.keys() | self._commands.keys())


class LazyGroup(click.Group):
    """A group whose help shows what its commands do without importing them.

    Attributes:
        helps: A line for each command that may not be imported yet.
    """

    def __init__(self, *arguments: Any, helps: Mapping[str, str], **settings: Any) -> None:
        """Takes the lines; the rest is click's."""
        super().__init__(*arguments, **settings)
        self.helps = helps

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands."""
        rows = []
        for name in self.list_commands(ctx):
            line = self.helps.get(name)
            if line is None:
                command = self.get_command(ctx, name)
                line = command.get_short_help_str() if command is not None else ""
            rows.append((name, line))
        with formatter.section("Commands"):
            formatter.write_dl(rows)
