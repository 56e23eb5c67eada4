"""The entry point of `mqcore`: groups of commands, and errors as one line, no traceback."""

import logging
import sys
from typing import TYPE_CHECKING, cast

import click
from click.shell_completion import get_completion_class

from mqcore import __version__
from mqcore.cli.lazy import LazyCommands, LazyGroup

if TYPE_CHECKING:
    from mqcore.errors import MQError

_EXIT_FAILED = 2
# As a shell reports a process that Ctrl-C ended: 128 and the signal's number.
_EXIT_INTERRUPTED = 130
_EXIT_CODES = """Exit codes: 0 done; 1 a finding (nothing found, a disagreement); 2 a refusal, a
failure or wrong usage, printed in one line; 130 interrupted. Commands that run until they are
stopped end with 0 at Ctrl-C."""
_COMPLETE_VARIABLE = "_MQCORE_COMPLETE"
# What each does, so that the list is printed without importing them.
_HELPS = {
    "acl": "Users, what they may do, and why something is refused.",
    "admin": "Run a command of RocketMQ's mqadmin by its name.",
    "audit": "Who changed what at servers, and who was refused.",
    "auth": "Begin with access control.",
    "bench": "Measure a cluster with this client.",
    "broker": "Run a broker, or look at one that runs.",
    "cluster": "Change who is master among the brokers of a name.",
    "console": "Run the web console of a cluster.",
    "consume": "Print the messages of a topic, and those that come.",
    "controller": "Run a controller, which elects masters.",
    "dlq": "List dead letters of groups, and send them again.",
    "doctor": "Look at this machine as a broker with its store would.",
    "group": "List, describe, create, change, reset and delete consumer groups.",
    "msg": "Look up messages.",
    "namesrv": "Run a name server.",
    "ping": "Ask whether a broker, name server or controller is ready.",
    "produce": "Send lines of files, or of standard input, to a topic.",
    "spark": "Run the pipelines of Spark: archive, replay, verify, report.",
    "standalone": "Run a name server and a broker in one process.",
    "store": "Look at store directories, check, archive, snapshot, mend them.",
    "top": "Watch topics and groups: rates, messages, lag.",
    "topic": "List, create, describe and delete topics.",
}

# Where a command is in no module of its name.
_MODULES = {"admin": "mqcore.cli.mqadmin", "cluster": "mqcore.cli.cluster_group"}


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    cls=LazyGroup,
    commands=LazyCommands({name: _MODULES.get(name, f"mqcore.cli.{name}") for name in _HELPS}),
    helps=_HELPS,
    epilog=_EXIT_CODES,
)
@click.version_option(__version__, prog_name="mqcore")
def commands() -> None:
    """A message broker in the design of Apache RocketMQ."""


@commands.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a SHELL.

    For bash put `eval "$(mqcore completion bash)"` into ~/.bashrc; the same with zsh.
    For fish: mqcore completion fish > ~/.config/fish/completions/mqcore.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"no completion for {shell}")
    click.echo(kind(commands, {}, "mqcore", _COMPLETE_VARIABLE).source())


def main() -> None:
    """Runs the command line and ends the process."""
    # Errors are printed once, by the command; programs that log set that up themselves.
    logging.getLogger("mqcore").addHandler(logging.NullHandler())
    try:
        code = commands(prog_name="mqcore", complete_var=_COMPLETE_VARIABLE, standalone_mode=False)
    except click.Abort:
        sys.exit(_EXIT_INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(_EXIT_FAILED)
    except Exception as error:
        ours = _ours(error)
        if ours is None:
            raise
        from mqcore.cli.ways_out import error_line

        click.echo(f"mqcore: {error_line(ours)}", err=True)
        sys.exit(_EXIT_FAILED)
    # What `ctx.exit` was given; a command itself returns nothing.
    sys.exit(code)


def _ours(error: Exception) -> "MQError | OSError | None":
    """Returns an error that one line explains; who raised one of mqcore has imported its class."""
    errors = sys.modules.get("mqcore.errors")
    if isinstance(error, OSError) and error.filename is not None:
        return error
    is_ours = errors is not None and isinstance(error, errors.MQError)
    return cast("MQError", error) if is_ours else None


if __name__ == "__main__":
    main()
