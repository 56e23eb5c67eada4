"""`mqcore broker run`: one broker until a signal ends it; beside it what looks at a broker."""

import logging

import click

from mqcore.cli.about import about_broker
from mqcore.cli.broker_drain import drain, undrain
from mqcore.cli.broker_log_level import log_level
from mqcore.cli.memory import memory
from mqcore.cli.program import ProgramOptions, program_options
from mqcore.cli.quotas import quotas
from mqcore.cli.serving import serve
from mqcore.cli.slow import slow
from mqcore.config import Program

_log = logging.getLogger("mqcore.broker")


@click.group(invoke_without_command=True)
@program_options(Program.BROKER)
@click.pass_context
def broker(context: click.Context, options: ProgramOptions) -> None:
    """Run a broker, or look at one that runs.

    Without a command it is `mqcore broker run`.
    """
    if context.invoked_subcommand is None:
        _served(options)
    elif options != ProgramOptions():
        verb = context.invoked_subcommand
        raise click.UsageError(f"options go behind the command: mqcore broker {verb} ...")


@broker.command()
@program_options(Program.BROKER)
def run(options: ProgramOptions) -> None:
    """Run a broker until a signal ends it.

    It listens on 127.0.0.1:10911 by default, registers with the name servers of -n, and
    ends cleanly at SIGTERM or Ctrl-C.
    """
    _served(options)


def _served(options: ProgramOptions) -> None:
    settings = options.broker()
    if options.prints:
        return
    options.start_logging(settings.configuration)
    if not settings.name_servers:
        _log.warning(
            "no name server is set: clients that ask one do not find this broker; -n HOST:PORT or "
            "namesrvAddr names them, and `mqcore standalone` has one of its own"
        )
    # Imported here: the other commands need no broker.
    from mqcore.broker.controlled import AnyBroker, ControlledBroker, broker_of

    async def leave(running: AnyBroker) -> None:
        if isinstance(running, ControlledBroker):
            await running.leave()

    async def refused(running: AnyBroker) -> str | None:
        return await running.refused() if isinstance(running, ControlledBroker) else None

    serve(
        options,
        "broker",
        lambda: broker_of(settings, config_path=options.changeable_file),
        about=about_broker(settings),
        leave=leave,
        refused=refused,
    )


for _command in (memory, slow, quotas, log_level, drain, undrain):
    broker.add_command(_command)
