"""The page about backup, drain and upgrade names what is there."""

import re
import shlex
from pathlib import Path

import pytest

from deploy.test_deploy import parsed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "life-of-a-cluster.md").read_text(encoding="utf-8")
COMMANDS = [
    line.partition("#")[0].strip()
    for block in re.findall(r"^```\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
    if line.startswith("mqcore ")
]


def test_files_that_it_names_are_there() -> None:
    named = set(re.findall(r"`((?:tests|deploy)/[\w./-]+)`", PAGE))
    assert len(named) > 15
    assert [each for each in sorted(named) if not (ROOT / each).exists()] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_that_it_names_can_be_run(command: str) -> None:
    words = [
        # Directories and files of another machine.
        "." if word == "STORE" or word.startswith("/") else word
        for word in shlex.split(command)
    ]
    if "broker.conf" in words:
        words[words.index("broker.conf")] = str(ROOT / "deploy" / "broker.conf")
    parsed(words)
