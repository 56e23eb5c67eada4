"""The command `mqcore broker`: one broker, until a signal ends it."""

import click

from mqcore.cli.about import about_broker
from mqcore.cli.memory import memory
from mqcore.cli.program import ProgramOptions, program_options
from mqcore.cli.serving import serve
from mqcore.config import Program


@click.group(invoke_without_command=True)
@program_options(Program.BROKER)
@click.pass_context
def broker(context: click.Context, options: ProgramOptions) -> None:
    """Run a broker.

    It listens on 127.0.0.1:10911 by default, registers with the name servers of -n, and
    ends cleanly at SIGTERM or Ctrl-C.
    """
    if context.invoked_subcommand is not None:
        return
    settings = options.broker()
    if options.prints:
        return
    options.start_logging(settings.configuration)
    # Imported here: the other commands need no broker.
    from mqcore.broker.app import Broker

    serve(
        options,
        "broker",
        lambda: Broker(settings, config_path=options.changeable_file),
        about=about_broker(settings),
    )


broker.add_command(memory)
