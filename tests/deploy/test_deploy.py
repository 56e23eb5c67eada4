"""The files in `deploy` hold only what the programs take: settings, options, commands."""

import configparser
import json
import re
import shlex
from pathlib import Path

import click
import pytest

from mqcore.cli.findings import MAPS_MIN, MIN_FREE_KB, SWAPPINESS_MAX
from mqcore.cli.main import commands
from mqcore.config import Program, broker_settings, file_layer, namesrv_settings, resolved

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))


def parsed(words: list[str]) -> click.Context:
    """Returns the context of a command line of ours; fails where it could not be run."""
    assert words[0].endswith("mqcore")
    command, (name, *rest) = commands.commands[words[1]], words[1:]
    while isinstance(command, click.Group) and rest and rest[0] in command.commands:
        command, (name, *rest) = command.commands[rest[0]], rest
    # A file named on another machine is not here: only the options are checked.
    arguments = [
        word if not word.startswith("/") else str(DEPLOY / Path(word).name) for word in rest
    ]
    return command.make_context(name, arguments)


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("broker.conf", Program.BROKER),
        ("namesrv.conf", Program.NAMESRV),
        ("controller.conf", Program.CONTROLLER),
    ],
)
def test_the_profiles_are_wholly_honoured(name: str, program: Program) -> None:
    configuration = resolved(program, [file_layer(DEPLOY / name, program)], is_strict=True)
    assert configuration.warnings == ()


@pytest.mark.parametrize("name", ["broker.conf", "namesrv.conf", "controller.conf"])
def test_what_is_commented_out_would_be_honoured_too(name: str, tmp_path: Path) -> None:
    program = Program(name.removesuffix(".conf"))
    text = re.sub(r"^#(?=[\w.]+=)", "", (DEPLOY / name).read_text(), flags=re.MULTILINE)
    (tmp_path / name).write_text(text)
    configuration = resolved(program, [file_layer(tmp_path / name, program)], is_strict=True)
    assert configuration.warnings == ()
    assert configuration.value("bindAddress") == "10.0.0.5"


def test_the_production_profile_is_careful() -> None:
    layers = [file_layer(DEPLOY / "broker.conf", Program.BROKER)]
    settings = broker_settings(resolved(Program.BROKER, layers))
    assert not settings.creates_topics
    assert not settings.creates_groups
    assert settings.listener.host == "127.0.0.1"
    assert settings.has_metrics
    layers = [file_layer(DEPLOY / "namesrv.conf", Program.NAMESRV)]
    assert namesrv_settings(resolved(Program.NAMESRV, layers)).listener.host == "127.0.0.1"


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_units_run_commands_that_exist(unit: Path) -> None:
    sections = configparser.ConfigParser(interpolation=None)
    sections.optionxform = str  # type: ignore[assignment,method-assign]
    sections.read(unit)
    service = sections["Service"]
    assert set(sections) == {"DEFAULT", "Unit", "Service", "Install"}
    start = parsed(shlex.split(service["ExecStart"]))
    assert start.params["is_strict"] is True
    ping = parsed(shlex.split(service["ExecStartPost"]))
    assert ping.params["wait_s"] < int(service["TimeoutStartSec"])
    assert service["KillSignal"] == "SIGTERM"


def test_the_image_runs_commands_that_exist() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    for line in re.findall(r"^(?:HEALTHCHECK .* )?CMD (\[.*\])$", text, re.MULTILINE):
        words = json.loads(line)
        parsed(words if words[0] == "mqcore" else ["mqcore", *words])
    assert re.search(r"^USER mqcore$", text, re.MULTILINE)


def test_the_kernel_settings_are_what_the_doctor_wants() -> None:
    lines = (DEPLOY / "90-mqcore.conf").read_text().splitlines()
    pairs = dict(line.split(" = ") for line in lines if not line.startswith("#"))
    assert int(pairs["vm.swappiness"]) <= SWAPPINESS_MAX
    assert int(pairs["vm.max_map_count"]) >= MAPS_MIN
    assert int(pairs["vm.min_free_kbytes"]) >= MIN_FREE_KB
    assert pairs["vm.zone_reclaim_mode"] == "0"
    assert pairs["vm.overcommit_memory"] == "0"
