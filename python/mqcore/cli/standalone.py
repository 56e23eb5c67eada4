"""The command `mqcore standalone`: name server and broker in one process, and the console."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mqcore.cli.about import about_broker
from mqcore.cli.console_parts import console_of, default_data, require_extra
from mqcore.cli.program import ProgramOptions, program_options
from mqcore.cli.serving import Served, serve
from mqcore.config import Program

if TYPE_CHECKING:
    from mqcore.console import Console
    from mqcore.standalone import Standalone

_NAMESRV_PORT = 9876
_CONSOLE_PORT = 8180


@click.command()
@program_options(Program.BROKER)
@click.option(
    "--namesrv-port",
    type=click.IntRange(0, 65_535),
    default=_NAMESRV_PORT,
    show_default=True,
    help="Port of the name server; 0: any free one.",
)
@click.option("--console", "has_console", is_flag=True, help="Run the web console too.")
@click.option(
    "--console-port",
    type=click.IntRange(0, 65_535),
    default=_CONSOLE_PORT,
    show_default=True,
    help="Port of the console, on 127.0.0.1; 0: any free one.",
)
@click.option(
    "--console-data",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the console keeps users and audit log; by default below ~/.local/state.",
)
def standalone(
    options: ProgramOptions,
    namesrv_port: int,
    has_console: bool,
    console_port: int,
    console_data: Path | None,
) -> None:
    """Run a name server and a broker in one process.

    They listen on 127.0.0.1:9876 and 127.0.0.1:10911 by default. Log files have 256 MiB
    unless the settings, or the files that are there, have others. With --console the pages of
    `mqcore console` are at http://127.0.0.1:8180/; the first start prints a password.
    """
    # Imported here: the other commands need no server.
    from mqcore.standalone import DEFAULTS, Standalone, namesrv_settings_of

    settings = options.broker(DEFAULTS)
    if options.prints:
        return
    options.start_logging(settings.configuration)
    namesrv = namesrv_settings_of(settings, namesrv_port)

    def both() -> Standalone:
        return Standalone(settings, namesrv, config_path=options.changeable_file)

    make: Callable[[], Served] = both
    if has_console:
        require_extra()
        make = lambda: _WithConsole(both(), console_port, console_data)  # noqa: E731
    serve(options, "standalone", make, about=about_broker(settings))


class _WithConsole:
    """A name server, a broker and the console over them."""

    def __init__(self, both: "Standalone", port: int, data: Path | None) -> None:
        self._both = both
        self._port = port
        self._data = data
        self._console: Console | None = None

    @property
    def ports(self) -> Mapping[str, int]:
        """What is listened on, by name."""
        console = self._console.ports if self._console is not None else {}
        return {**self._both.ports, **console}

    async def start(self) -> str:
        """Starts them; returns what is shown in the ready line."""
        from mqcore.console import Console, ConsoleSettings

        shown = await self._both.start()
        settings = ConsoleSettings(
            namesrv=f"127.0.0.1:{self._both.ports['namesrv']}",
            data=(self._data or default_data()).expanduser().absolute(),
            port=self._port,
        )
        self._console = console_of(Console(settings))
        return f"{shown}, console {await self._console.start()}"

    async def stop(self) -> None:
        """Stops them in the reverse order."""
        try:
            if self._console is not None:
                await self._console.stop()
        finally:
            await self._both.stop()
