"""The entry point of `mqcore`: groups of commands, and errors as one line, no traceback."""

import sys

import click
from click.shell_completion import get_completion_class

from mqcore import __version__
from mqcore.cli.lazy import LazyCommands
from mqcore.errors import MQError

# Exit codes: 1 is a finding (a disagreement), 2 a refusal or failure.
_EXIT_FAILED = 2
_COMPLETE_VARIABLE = "_MQCORE_COMPLETE"
_NAMES = ("broker", "doctor", "namesrv", "ping", "standalone", "store")


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    commands=LazyCommands({name: f"mqcore.cli.{name}" for name in _NAMES}),
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
    try:
        commands(prog_name="mqcore", complete_var=_COMPLETE_VARIABLE)
    except MQError as error:
        click.echo(f"mqcore: {error.message}", err=True)
        sys.exit(_EXIT_FAILED)


if __name__ == "__main__":
    main()
