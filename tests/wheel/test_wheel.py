"""The wheel of `make wheel`: what it needs of a machine; in an empty environment it works."""

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What a user does in the first minute, and what is in the wheel beside it.
SCRIPT = """
import sys
from importlib.metadata import entry_points
from mqcore import Message, Producer
from mqcore.testing import Broker, Inbox

with Broker() as broker, Producer(broker.namesrv) as producer:
    producer.send(Message("orders", b"one"))
    with Inbox(broker.namesrv, "orders") as inbox:
        assert inbox.take()[0].body == b"one"
(plugin,) = entry_points(group="pytest11", name="mqcore")
assert plugin.value == "mqcore.testing.plugin"
import importlib.util

assert all(map(importlib.util.find_spec, ("pyspark_mqcore", "pyspark_mqcore_store")))
import mqcore
assert mqcore.__file__.startswith(sys.prefix), mqcore.__file__
print("received with", sys.version_info[:2])
"""


def wheel() -> Path:
    found = sorted((ROOT / "target" / "wheels").glob("mqcore-*.whl"))
    assert found, "there is no wheel: make wheel"
    return found[-1]


def glibc_of_readme() -> tuple[int, int]:
    found = re.search(r"glibc (\d+)\.(\d+) or newer", (ROOT / "README.md").read_text())
    assert found is not None
    return int(found[1]), int(found[2])


def glibc_versions(library: Path) -> set[tuple[int, int]]:
    """Returns the versions of glibc whose symbols a library needs."""
    line = ["readelf", "--version-info", "--wide", str(library)]
    shown = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True).stdout
    return {(int(one), int(two)) for one, two in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", shown)}


def test_the_wheel_runs_with_the_glibc_that_the_readme_names(tmp_path: Path) -> None:
    path = wheel()
    major, minor = glibc_of_readme()
    assert f"manylinux_{major}_{minor}_" in path.name
    with zipfile.ZipFile(path) as files:
        (name,) = (name for name in files.namelist() if name.endswith(".so"))
        library = Path(files.extract(name, tmp_path))
    needed = glibc_versions(library)
    assert needed
    assert max(needed) <= (major, minor)


def newer_pythons() -> list[Path]:
    """Returns the newest interpreter of this machine, where one is newer than ours."""
    folders = [*map(Path, os.get_exec_path()), *Path.home().glob(".pyenv/versions/*/bin")]
    minors = range(sys.version_info.minor + 1, sys.version_info.minor + 5)
    named = {
        minor: folder / f"python3.{minor}"
        for minor in minors
        for folder in folders
        if (folder / f"python3.{minor}").is_file() and "shims" not in folder.parts
    }
    # The newest represents those between.
    return list(named.values())[-1:]


@pytest.mark.slow
@pytest.mark.parametrize("python", [Path(sys.executable), *newer_pythons()], ids=lambda p: p.name)
def test_an_empty_environment_sends_and_receives(python: Path, tmp_path: Path) -> None:
    home = tmp_path / "environment"
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}

    def run(*command: str | Path) -> str:
        ended = subprocess.run(
            list(map(str, command)),
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    if python == Path(sys.executable):
        venv.create(home, with_pip=True, symlinks=True)
    else:
        run(python, "-m", "venv", home)
    inside = home / "bin" / "python"
    run(inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel())
    assert "received" in run(inside, "-c", SCRIPT)
    assert "version 0." in run(home / "bin" / "mqcore", "--version")
