"""What the function of a command is given: its arguments, the servers, and where it prints.

    async def status(call: Call) -> None:
        table = await call.servers.json(call.text("b"), RequestCode.GET_BROKER_RUNTIME_INFO)
        call.out.line(f"...")          # for people
        call.out.give(table)           # the same as data, for --json

Knows no command and no request.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from mqcore.cli.cluster import Cluster
from mqcore.cli.mqadmin.servers import Servers
from mqcore.cli.mqadmin.table import Row
from mqcore.errors import MQError, UsageError

__all__ = ["Call", "Out", "run_command"]

_LONG_MAX: Final = 2**63 - 1
# Commands that end when they are stopped, and those that do so with `-i`.
_ENDLESS: Final = ("startMonitoring", "clusterRT")
_REPEATED: Final = ("clusterList", "haStatus", "getSyncStateSet", "getBrokerEpoch")


class Out:
    """Where a command prints: lines for people, or values as JSON, one line each."""

    def __init__(self, *, as_json: bool) -> None:
        """Prints for people, or JSON alone."""
        self.as_json = as_json

    def line(self, text: str = "") -> None:
        """Prints a line for people."""
        if not self.as_json:
            click.echo(text)

    def row(self, layout: str, *cells: object) -> None:
        """Prints cells as a line for people, laid out by `%`."""
        if not self.as_json:
            click.echo(layout % cells)

    def give(self, value: Any) -> None:
        """Prints a value as JSON, where that is wanted."""
        if self.as_json:
            click.echo(json.dumps(value, ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a command.

    Attributes:
        row: The command.
        given: The options that were given, by name: texts, or True.
        cluster: How the cluster is reached, for commands that need a client.
        servers: The way to name servers and brokers.
        out: Where it prints.
    """

    row: Row
    given: Mapping[str, Any]
    cluster: Cluster
    servers: Servers
    out: Out

    def has(self, name: str) -> bool:
        """Whether an option was given."""
        return name in self.given

    def text(self, name: str, default: str = "") -> str:
        """Returns an option's text, without spaces around it."""
        return str(self.given.get(name, default)).strip()

    def optional(self, name: str) -> str | None:
        """Returns an option's text, None where it was not given or is empty."""
        return self.text(name) or None

    def is_true(self, name: str, *, default: bool = False) -> bool:
        """Returns an option as `Boolean.parseBoolean` reads it."""
        return self.text(name).lower() == "true" if self.has(name) else default

    def whole(self, name: str, default: int | None = None, *, least: int = -_LONG_MAX) -> int:
        """Returns an option that is a whole number.

        Raises:
            UsageError: It is none, is too small, or is missing without a default.
        """
        if not self.has(name) and default is not None:
            return default
        text = self.text(name)
        try:
            value = int(text) if len(text) <= 20 else None
        except ValueError:
            value = None
        if value is None or not least <= value <= _LONG_MAX:
            shown = self.shown(name)
            bound = f" of {least} or more" if least > -_LONG_MAX else ""
            raise UsageError(f"{shown} {text[:40]!r}: a whole number{bound} is expected")
        return value

    def shown(self, name: str) -> str:
        """Returns how a user writes an option."""
        return next((each.shown for each in self.row.arguments if each.name == name), f"-{name}")

    def usage(self, why: str) -> UsageError:
        """Returns the error of wrong arguments."""
        return UsageError(f"{self.row.name}: {why}")

    async def masters(self) -> list[str]:
        """Returns the brokers that `-b` or the masters that `-c` names.

        Raises:
            UsageError: Neither was given.
            MQError: There is no such cluster.
        """
        if self.has("b"):
            return [self.text("b")]
        if self.has("c"):
            return await self.servers.masters(self.text("c"))
        raise self.usage("-b or -c is expected")

    async def repeat(self, work: Callable[[], Awaitable[None]], *, default_s: int = 3) -> None:
        """Does something once, or with `-i` again and again, so many seconds apart."""
        await work()
        pause_s = self.whole("i", default_s, least=0)
        while self.has("i"):
            await asyncio.sleep(pause_s)
            await work()


def run_command(
    row: Row,
    cluster: Cluster,
    given: Mapping[str, Any],
    work: Callable[[Call], Awaitable[None]],
) -> None:
    """Runs a command's function on an event loop.

    Raises:
        MQError: It failed.
    """

    async def asked() -> None:
        async with Servers(cluster) as servers:
            await work(Call(row, given, cluster, servers, Out(as_json=cluster.as_json)))

    try:
        asyncio.run(asked())
    except KeyboardInterrupt:
        if row.name not in _ENDLESS and not (row.name in _REPEATED and "i" in given):
            raise
    except BrokenPipeError:
        # Whoever read has seen enough. What is left goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError as error:
        raise MQError(f"{row.name}: {error}") from error
