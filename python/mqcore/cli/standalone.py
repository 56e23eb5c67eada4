"""The command `mqcore standalone`: name server and broker in one process."""

import click

from mqcore.cli.about import about_broker
from mqcore.cli.program import ProgramOptions, program_options
from mqcore.cli.serving import serve
from mqcore.config import Program

_NAMESRV_PORT = 9876


@click.command()
@program_options(Program.BROKER)
@click.option(
    "--namesrv-port",
    type=click.IntRange(0, 65_535),
    default=_NAMESRV_PORT,
    show_default=True,
    help="Port of the name server; 0: any free one.",
)
def standalone(options: ProgramOptions, namesrv_port: int) -> None:
    """Run a name server and a broker in one process.

    They listen on 127.0.0.1:9876 and 127.0.0.1:10911 by default. Log files have 256 MiB
    unless the settings, or the files that are there, have others.
    """
    # Imported here: the other commands need no server.
    from mqcore.standalone import DEFAULTS, Standalone, namesrv_settings_of

    settings = options.broker(DEFAULTS)
    if options.prints:
        return
    options.start_logging(settings.configuration)
    namesrv = namesrv_settings_of(settings, namesrv_port)
    serve(
        options,
        "standalone",
        lambda: Standalone(settings, namesrv, config_path=options.changeable_file),
        about=about_broker(settings),
    )
