"""Commands are imported when they are asked for, and all of them are there."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from mqcore.cli.lazy import LazyCommands
from mqcore.cli.main import commands


def test_the_program_itself_imports_no_command() -> None:
    check = (
        "import sys, mqcore.cli.main;"
        "late = {'rich', 'mqcore.remoting', 'mqcore.namesrv', 'mqcore.broker'};"
        "sys.exit(' '.join(late & sys.modules.keys()) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", sorted(commands.commands))
def test_every_command_is_there_under_its_name(name: str) -> None:
    assert commands.commands[name].name == name
    shown = CliRunner().invoke(commands, [name, "--help"])
    assert shown.exit_code == 0
    assert shown.output.startswith(f"Usage: commands {name}")


def test_the_list_of_commands_imports_none_of_them() -> None:
    check = (
        "import sys; from mqcore.cli.main import commands;"
        "commands(['--help'], standalone_mode=False);"
        "late = {'rich', 'mqcore.remoting', 'mqcore.client', 'mqcore.cli.topic'};"
        "sys.exit(' '.join(late & sys.modules.keys()) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f"  {name} " in done.stdout for name in commands.commands)


def test_an_unknown_command_is_reported() -> None:
    shown = CliRunner().invoke(commands, ["nothing"])
    assert shown.exit_code == 2
    assert "No such command 'nothing'" in shown.output


def test_it_is_a_mapping_like_any() -> None:
    lazy = LazyCommands({"store": "mqcore.cli.store"})
    lazy["other"] = click.Command("other")
    assert (sorted(lazy), len(lazy)) == (["other", "store"], 2)
    del lazy["other"], lazy["store"]
    assert len(lazy) == 0
    with pytest.raises(KeyError):
        del lazy["store"]
