"""The command `mqcore controller`: one controller, until a signal ends it."""

import click

from mqcore.cli.about import about_controller
from mqcore.cli.program import ProgramOptions, program_options
from mqcore.cli.serving import serve
from mqcore.config import Program


@click.command()
@program_options(Program.CONTROLLER)
def controller(options: ProgramOptions) -> None:
    """Run a controller, which elects masters.

    It listens on 127.0.0.1:9878 by default, and ends cleanly at SIGTERM or Ctrl-C. Brokers
    with enableControllerMode=true name it as controllerAddr.
    """
    settings = options.controller()
    if options.prints:
        return
    options.start_logging(settings.configuration)
    # Imported here: the other commands need no server.
    from mqcore.controller import Controller

    path = options.changeable_file
    serve(
        options,
        "controller",
        lambda: Controller(settings, config_path=path),
        about=about_controller(settings),
    )
