"""`mqcore store serve`: a store of somebody else, readable by any client, unchanged."""

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import click

from mqcore.cli.about import about_broker
from mqcore.cli.program import ProgramOptions
from mqcore.cli.serving import serve as serve_program

_NAMESRV_PORT = 9876


@click.command("serve")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=10_911,
    show_default=True,
    help="Port of the broker; 0: any free one.",
)
@click.option(
    "--namesrv-port",
    type=click.IntRange(0, 65_535),
    default=_NAMESRV_PORT,
    show_default=True,
    help="Port of the name server; 0: any free one.",
)
@click.option(
    "--offsets",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where offsets of consumers are kept; without it they are gone at the end.",
)
@click.option(
    "--set", "assignments", metavar="KEY=VALUE", multiple=True, help="One setting by its key."
)
@click.option(
    "--port-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the ports chosen are written to, as JSON.",
)
def serve(
    directory: Path,
    host: str,
    port: int,
    namesrv_port: int,
    offsets: Path | None,
    assignments: tuple[str, ...],
    port_file: Path | None,
) -> None:
    """Serve the store DIRECTORY for reading alone, with a name server, until a signal ends it.

    Consumers, tools and Spark read its topics as those of a running broker. Nothing of DIRECTORY is
    changed, not even a time of a file; messages are refused.
    """
    # Imported here: the other commands need no server.
    from mqcore.standalone import DEFAULTS, Standalone, namesrv_settings_of

    with ExitStack() as stack:
        if offsets is None:
            temporary = tempfile.TemporaryDirectory(prefix="mqcore-mount-")
            offsets = Path(stack.enter_context(temporary))
        flags = {"--host": host, "--port": str(port), "--data": str(offsets)}
        options = ProgramOptions(
            flags=flags | {"--mount": str(directory)},
            assignments=assignments,
            port_file=port_file,
        )
        settings = options.broker(DEFAULTS)
        options.start_logging(settings.configuration)
        settings = replace(settings, has_trace_topic=False)
        namesrv = namesrv_settings_of(settings, namesrv_port)
        serve_program(
            options, "store", lambda: Standalone(settings, namesrv), about=about_broker(settings)
        )
