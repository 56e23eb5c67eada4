"""`mqcore store archive` and `mqcore spark`: what people type, and what is printed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mqcore import MQError, Store
from mqcore.cli.main import commands
from mqcore.spark.pipelines.archive_directory import ArchiveDirectory
from mqcore.spark.pipelines.errors import PipelineSettingError
from mqcore.spark.pipelines.running import PIPELINES
from small_store import SMALL, filled


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(commands, list(arguments))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with Store(tmp_path / "store", config=SMALL) as opened:
        filled(opened, 2_000)
    return tmp_path / "store"


def test_a_store_is_archived_and_then_has_nothing_new(store: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "a")
    first = ran("store", "archive", str(store), target, "--split-mib", "1", "-j", "2")
    assert first.exit_code == 0, first.output
    assert first.output.startswith("2,000 messages (1.91 MiB of bodies) into 3 files")
    again = ran("store", "archive", str(store), target)
    assert again.output == f"file://{target} has everything already\n"
    assert [file.topic for file in ArchiveDirectory(target).manifest().files()] == ["topic"] * 3


def test_what_was_lost_is_a_finding(store: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "a")
    assert ran("store", "archive", str(store), target).exit_code == 0
    with Store(store, config=SMALL) as opened:
        filled(opened, 3_000)
    segments = sorted((store / "commitlog").iterdir())
    for segment in segments[:4]:
        segment.unlink()
    done = ran("store", "archive", str(store), target)
    assert done.exit_code == 1
    assert "gone before it was archived: store:store from " in done.output


def test_an_empty_directory_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    done = ran("store", "archive", str(tmp_path / "x"), str(tmp_path / "a"))
    assert isinstance(done.exception, MQError)
    assert str(tmp_path / "x") in str(done.exception)
    assert not (tmp_path / "a" / "_mqcore" / "commits").exists()


def test_the_pipelines_are_listed_with_their_settings() -> None:
    listed = ran("spark", "list")
    assert listed.exit_code == 0, listed.output
    assert all(name in listed.output for name in PIPELINES)
    rows = [json.loads(line) for line in ran("spark", "list", "--json").output.splitlines()]
    assert [one["name"] for one in rows] == list(PIPELINES)
    settings = ran("spark", "list", "verify").output
    assert "must be given" in settings
    assert "common_range" in settings


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("verfy",), "did you mean verify"),
        (("verify",), "verify needs left, right"),
        (("archive", "-c", "sorce=x"), "did you mean source"),
    ],
)
def test_what_is_wrong_is_reported_before_a_jvm_starts(
    arguments: tuple[str, ...], expected: str
) -> None:
    done = ran("spark", "run", *arguments)
    assert isinstance(done.exception, PipelineSettingError)
    assert expected in str(done.exception)


@pytest.mark.matrix
def test_a_pipeline_runs_as_a_command(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "a"
    assert ran("store", "archive", str(store), str(target)).exit_code == 0
    command = [sys.executable, "-m", "mqcore.cli.main", "spark", "run", "verify"]
    command += ["-c", f"left=store:{store}", "-c", f"right=archive:{target}"]
    command += ["-c", "spark.ui.enabled=false", "-c", f"spark.local.dir={tmp_path / 'local'}"]
    command += ["--master", "local[2]"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "both hold the same messages"
    (next(target.rglob("*.parquet"))).unlink()
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("mqcore: verify: [PATH_NOT_FOUND]")
