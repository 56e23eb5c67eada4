"""Commands that are imported when they are asked for: a server does not wait for tables and bars.

    @click.group(commands=LazyCommands({"store": "mqcore.cli.store"}))

A module holds its command under the command's name.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module

import click

__all__ = ["LazyCommands"]


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
