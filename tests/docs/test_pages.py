"""The pages in `docs/`: their code runs, and their commands print what the page shows."""

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqcore.testing import Broker

DOCS = Path(__file__).parents[2] / "docs"
# What the pages call the name server.
ADDRESS = "127.0.0.1:9876"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: str, kind: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [found.group(2) for found in _BLOCK.finditer(text) if found.group(1) == kind]


def turns(block: str) -> Iterator[tuple[str, str]]:
    """Yields the commands of a console with what each prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def is_as_shown(shown: str, printed: str) -> bool:
    """Returns whether an output is the shown one, in which `...` matches anything."""
    lines = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
    how = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(shown, lines + "\n", how)


@pytest.mark.parametrize(
    "page",
    [
        "admin.md",
        "client.md",
        "coming-from.md",
        "delays.md",
        "errors.md",
        "filters.md",
        "testing.md",
        "tracing.md",
    ],
)
def test_the_code_of_a_page_runs(page: str, mqcore_broker: Broker, tmp_path: Path) -> None:
    mqcore_broker.create_topic("RMQ_SYS_TRACE_TOPIC", queues=1)
    code = blocks(page, "python")
    assert code
    lines = [f"# block {number}\n{block}" for number, block in enumerate(code)]
    script = tmp_path / "page.py"
    script.write_text("\n".join(lines).replace(ADDRESS, mqcore_broker.namesrv))
    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_fixtures_of_the_page_serve(tmp_path: Path) -> None:
    tests = [block for block in blocks("testing.md", "python") if "def test_" in block]
    (tmp_path / "test_page.py").write_text("\n".join(["import mqcore", *tests]))
    plugin = ["-p", "no:mqcore", "-p", "mqcore.testing.plugin", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "2 passed" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.parametrize(("page", "commands"), [("commands.md", 10), ("groups.md", 4)])
def test_the_commands_of_the_page_print_what_it_shows(
    page: str, commands: int, mqcore_broker: Broker, tmp_path: Path
) -> None:
    wrapper = tmp_path / "mqcore"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mqcore.cli.main "$@"\n')
    wrapper.chmod(0o755)
    environment: dict[str, Any] = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "MQCORE_NAMESRV": mqcore_broker.namesrv,
    }
    seen = 0
    for block in blocks(page, "console"):
        for command, shown in turns(block):
            ended = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=60,
                check=False,
            )
            assert ended.returncode == 0, f"{command}\n{ended.stdout}"
            assert is_as_shown(shown, ended.stdout), f"{command}\n{ended.stdout}"
            seen += 1
    assert seen > commands


def test_a_wrong_output_is_noticed() -> None:
    assert is_as_shown("a ... c\n", "a b c")
    assert not is_as_shown("a ... c\n", "a b d")
