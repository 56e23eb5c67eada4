"""The command `mqcore namesrv`: one name server, until a signal ends it."""

import click

from mqcore.cli.about import about_controller, about_namesrv
from mqcore.cli.program import ProgramOptions, program_options
from mqcore.cli.serving import serve
from mqcore.config import Program, beside_namesrv


@click.command()
@program_options(Program.NAMESRV)
def namesrv(options: ProgramOptions) -> None:
    """Run a name server.

    It listens on 127.0.0.1:9876 by default, and ends cleanly at SIGTERM or Ctrl-C. With
    enableControllerInNamesrv=true a controller runs beside it.
    """
    settings = options.namesrv()
    if options.prints:
        return
    options.start_logging(settings.configuration)
    about, path = about_namesrv(settings), options.changeable_file
    # Imported here: the other commands need no server.
    if settings.has_controller:
        from mqcore.standalone import NameServerWithController

        beside = beside_namesrv(settings)
        about = f"{about}, {about_controller(beside)}"

        def both() -> NameServerWithController:
            return NameServerWithController(settings, beside, config_path=path)

        serve(options, "namesrv", both, about=about)
        return
    from mqcore.namesrv import NameServer

    serve(options, "namesrv", lambda: NameServer(settings, config_path=path), about=about)
