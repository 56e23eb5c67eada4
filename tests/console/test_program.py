"""The programs: `mqcore console`, its users, and `mqcore standalone --console`, as processes."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from console_visits import Visitor
from mqcore.testing import Broker

_START_S = 60.0


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "mqcore.cli.main", *words]


@contextmanager
def program(*words: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Runs a program; yields it with its lines up to the ready line."""
    process = subprocess.Popen(command(*words), stdout=subprocess.PIPE, text=True)
    lines: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if " ready on " in line:
                break
        yield process, lines
        process.send_signal(signal.SIGTERM)
        assert process.wait(_START_S) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def password_of(lines: list[str]) -> str:
    (found,) = re.findall(r"user admin, password (\S+) ", "".join(lines))
    return str(found)


@pytest.mark.slow
def test_a_console_prints_its_password_once(broker: Broker, tmp_path: Path) -> None:
    ports, data = tmp_path / "ports", tmp_path / "data"
    words = ("console", "-n", broker.namesrv, "--port", "0", "--port-file", str(ports))
    with program(*words, "--data", str(data)) as (_, lines):
        port = json.loads(ports.read_text())["console"]
        assert f"ready on http://127.0.0.1:{port}/" in lines[-1]
        visitor = Visitor("127.0.0.1", port)
        assert visitor.log_in("admin", "a guess").status == 403
        assert visitor.log_in("admin", password_of(lines)).status == 303
        visitor.page("/")
        added = subprocess.run(
            command("console", "user", "ada", "--role", "operator", "--data", str(data)),
            input="engine no 1\n",
            text=True,
            check=True,
            capture_output=True,
        )
        assert "ada has the role operator" in added.stdout
        other = Visitor("127.0.0.1", port)
        assert other.log_in("ada", "engine no 1").status == 303
    with program(*words, "--data", str(data)) as (_, lines):
        assert "password" not in "".join(lines)
    removed = command("console", "user", "ada", "--remove", "--data", str(data))
    assert subprocess.run(removed, check=False).returncode == 0
    assert subprocess.run(removed, check=False).returncode == 2


def test_a_console_is_not_bound_wide_by_mistake(tmp_path: Path) -> None:
    words = command("console", "--host", "0.0.0.0", "--data", str(tmp_path))
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "readable on the way" in done.stderr


@pytest.mark.slow
def test_a_laptop_has_everything_in_one_process(tmp_path: Path) -> None:
    ports = tmp_path / "ports"
    words = [
        *("standalone", "--data", str(tmp_path / "store"), "--port", "0", "--namesrv-port", "0"),
        *("--console", "--console-port", "0", "--console-data", str(tmp_path / "console")),
    ]
    with program(*words, "--port-file", str(ports)) as (_, lines):
        port = json.loads(ports.read_text())["console"]
        visitor = Visitor("127.0.0.1", port)
        assert visitor.log_in("admin", password_of(lines)).status == 303
        assert visitor.json("/")["answering"] == 1
